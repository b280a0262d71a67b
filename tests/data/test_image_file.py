"""Image files of every kind: each has the pixels that a person sees, or is refused by name."""

import struct
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from data_fixtures import png_bytes, refusal_of
from PIL import Image, PngImagePlugin

from toolkit.data.images.image_file import (
    ImageForm,
    ImageHeader,
    parse_colour,
    read_header,
    read_image,
)
from toolkit.data.images.image_files import describe_changes
from toolkit.errors import DataError, UsageError

RED, GREEN, BLUE = (255, 0, 0), (0, 255, 0), (0, 0, 255)
CLEAR_BLACK, CLEAR_WHITE = (0, 0, 0, 0), (255, 255, 255, 0)


@pytest.fixture
def save(tmp_path):
    """`save(image, "PNG", ...)`: write an image of Pillow; returns the path."""

    def call(image, form="PNG", name="", **settings):
        path = str(tmp_path / (name or "image." + form.lower()))
        image.save(path, form, **settings)
        return path

    return call


def read(path, **form):
    """The pixels of a file: [H][W] of numbers (grey) or of tuples."""
    array = read_image(path, ImageForm(**form))
    if array.shape[2] == 1:
        return array[..., 0].tolist()
    return [[tuple(pixel) for pixel in row] for row in array.tolist()]


def headers_of(*paths):
    """The headers of some files as arrays."""
    return ImageHeader(*map(np.array, zip(*map(read_header, paths))))


def row(mode, *pixels):
    """An image of one row."""
    image = Image.new(mode, (len(pixels), 1))
    image.putdata(list(pixels))
    return image


# --------------------------------------------------------------------------------- lossless formats


@pytest.mark.parametrize("form", ["PNG", "BMP", "DIB", "TIFF", "PPM", "TGA", "PCX", "SGI"])
def test_colours_and_grey_values_stay(save, form):
    pixels = [RED, GREEN, (1, 2, 3), BLUE]
    assert read(save(row("RGB", *pixels), form)) == [pixels]
    path = save(row("L", 0, 7, 255), form)
    assert read(path, channels=1) == [[0, 7, 255]] and read_header(path).is_grey
    assert read(path) == [[(0, 0, 0), (7, 7, 7), (255, 255, 255)]]


@pytest.mark.parametrize("form", ["PNG", "GIF"])
def test_a_palette_of_greys_is_grey(save, form):
    assert read_header(save(row("L", 0, 7, 255).convert("P"), form)).is_grey
    assert not read_header(save(row("RGB", RED, GREEN).convert("P"), form)).is_grey


@pytest.mark.parametrize(
    "mode, colour", [("RGB", (200, 40, 90)), ("L", 120), ("CMYK", (0, 90, 10, 5))]
)
def test_a_jpeg_is_read_to_its_rounding(save, mode, colour):
    image = Image.new(mode, (16, 16), colour)
    pixels = np.array(read(save(image, "JPEG", quality=95)))
    assert np.abs(pixels - np.asarray(image.convert("RGB"), int)).max() <= 4


# --------------------------------------------------------------------------------------- bit depth

# Tags of TIFF, their values as Pillow writes them, and others, which it cannot write.
BITS, PHOTOMETRIC = (258, 16, 12), (262, 1, 0)


@pytest.mark.parametrize(
    "pixels, change, expected",
    [
        (np.frombuffer(b"\0\x08\0\xff\xf0\0", "<u2"), BITS, [0, 128, 255]),  # 000 800 FFF
        (np.array([0, 255], np.uint8), PHOTOMETRIC, [255, 0]),  # white is zero
        (np.array([0, 65535], np.uint16), PHOTOMETRIC, [255, 0]),
    ],
)
def test_any_bits_of_a_tiff_are_scaled_to_8(save, pixels, change, expected):
    path = save(Image.fromarray(pixels[np.newaxis]), "TIFF")
    tag, *values = change
    before, after = (struct.pack("<HHIH", tag, 3, 1, value) for value in values)
    Path(path).write_bytes(Path(path).read_bytes().replace(before, after))
    assert read(path, channels=1) == [expected]


SIXTEEN = Image.fromarray(np.array([[0, 257, 32896, 65535]], np.uint16))
FLOATS = Image.fromarray(np.array([[0, 0.5, 1]], np.float32))


@pytest.mark.parametrize(
    "form, image, expected",
    [
        ("PNG", SIXTEEN, [0, 1, 128, 255]),
        ("TIFF", SIXTEEN, [0, 1, 128, 255]),
        ("PPM", SIXTEEN.convert("I"), [0, 1, 128, 255]),
        ("TIFF", FLOATS, [0, 128, 255]),  # from 0 to 1
        ("PNG", row("1", 0, 255), [0, 255]),
        ("TIFF", row("1", 0, 255), [0, 255]),
        ("BMP", row("1", 0, 255), [0, 255]),
    ],
    ids=["png", "tiff", "ppm", "floats", "bits of png", "bits of tiff", "bits of bmp"],
)
def test_other_depths_are_scaled_to_8_bits(save, form, image, expected):
    path = save(image, form)
    assert read(path, channels=1) == [expected] and read_header(path).is_grey


def test_colours_of_16_bits_are_scaled_to_8(tmp_path):
    rows = b"\0" + struct.pack(">3H", 65535, 32896, 0)
    (tmp_path / "colour.png").write_bytes(png_bytes(1, 1, 16, 2, rows))
    assert read(str(tmp_path / "colour.png")) == [[(255, 128, 0)]]


def test_a_palette_shows_its_colours(save):
    image = row("P", 1, 0)
    image.putpalette([1, 2, 3, 250, 128, 7] + [0] * 762)
    for form in ("PNG", "GIF", "BMP", "TIFF"):
        assert read(save(image, form)) == [[(250, 128, 7), (1, 2, 3)]]


@pytest.mark.parametrize(
    "array, text",
    [
        (np.array([[0, 255]], np.float32), "floats from 0 to 255, not from 0 to 1"),
        (np.array([[0, np.nan]], np.float32), "floats from nan to nan"),
        (np.array([[0, 9]], np.int32), "32-bit integers; convert it to 8 or 16 bits"),
        (np.array([[0, 9]], np.int16), "signed 32-bit integers"),
    ],
)
def test_values_without_a_fixed_range_are_refused(save, array, text):
    path = save(Image.fromarray(array), "TIFF")
    message = refusal_of(read, path)
    assert text in message and path in message


# ------------------------------------------------------------------------------------ transparency


@pytest.mark.parametrize("clear", [CLEAR_BLACK, CLEAR_WHITE, (9, 9, 9, 0)])
@pytest.mark.parametrize("form", ["PNG", "TIFF"])
def test_what_lies_below_transparency_does_not_show(save, clear, form):
    path = save(row("RGBA", clear, (0, 0, 0, 255)), form)
    assert read(path) == [[(255, 255, 255), (0, 0, 0)]]
    assert read(path, channels=1) == [[255, 0]]
    assert read(path, background=(0, 0, 99)) == [[(0, 0, 99), (0, 0, 0)]]


def test_half_transparent_ink_is_mixed_with_the_background(save):
    assert read(save(row("RGBA", (0, 0, 0, 128)))) == [[(127, 127, 127)]]
    path = save(row("LA", (0, 0), (0, 255), (200, 255)), name="grey.png")
    assert read(path, channels=1) == [[255, 0, 200]] and read_header(path).is_grey


@pytest.mark.parametrize(
    "form, transparency, expected",
    [
        ("PNG", 0, [(255, 255, 255), RED]),
        ("GIF", 0, [(255, 255, 255), RED]),
        ("PNG", bytes([128, 255]), [(127, 127, 127), RED]),  # an alpha of each colour
    ],
)
def test_transparent_colours_of_a_palette(save, form, transparency, expected):
    image = row("P", 0, 1)
    image.putpalette([0, 0, 0, 255, 0, 0] + [0] * 762)
    assert read(save(image, form, transparency=transparency)) == [expected]


@pytest.mark.parametrize(
    "mode, key, other, expected", [("RGB", (0, 0, 0), RED, RED), ("L", 0, 76, (76, 76, 76))]
)
def test_a_colour_that_stands_for_transparency(save, mode, key, other, expected):
    path = save(row(mode, key, other), transparency=key)
    assert read(path) == [[(255, 255, 255), expected]]


def test_four_channels_keep_transparency(save):
    pixels = [(1, 2, 3, 0), (4, 5, 6, 255)]
    path = save(row("RGBA", *pixels))
    assert read(path, channels=4) == [pixels]
    assert describe_changes(ImageForm(channels=4), headers_of(path)) == []


@pytest.mark.parametrize("form", ["GIF", "TIFF", "PNG"])
def test_the_first_frame_is_read_and_others_are_noticed(save, form):
    frames = [Image.new("RGB", (4, 4), colour) for colour in (RED, GREEN, BLUE)]
    single = save(frames[0], form, "single." + form)
    many = save(frames[0], form, "many." + form, save_all=True, append_images=frames[1:])
    assert read(many) == read(single)
    has_more = [read_header(path).has_more_frames for path in (single, many)]
    assert has_more == [False, True]
    notes = describe_changes(ImageForm(), headers_of(single, many))
    assert notes == ["1 image with several frames or pages: only the first is read."]


def test_an_image_of_too_many_pixels_is_refused_before_it_is_decoded(save):
    path = save(Image.new("1", (12000, 10001)))
    for read_it in (read_header, read):
        with pytest.raises(DataError, match="12000x10001 pixels, more than 120,000,000"):
            read_it(path)


def test_notes_count_what_has_to_change(save):
    clear = save(Image.new("RGBA", (4, 4), CLEAR_BLACK), name="clear.png")
    square = save(Image.new("L", (8, 8)), name="square.png")
    wide = save(Image.new("L", (8, 2)), name="wide.png")
    assert describe_changes(ImageForm(size=(4, 4)), headers_of(clear, square, wide)) == [
        "1 image with an alpha channel laid on #ffffff (--background).",
        "1 image of another shape padded with #ffffff to 4x4 (--fit).",
    ]
    assert describe_changes(ImageForm(size=(4, 4)), headers_of(square)) == []


@pytest.mark.parametrize("text", ["", "reddish", "rgb(300,0,0)"])
def test_no_colour_is_refused(text):
    with pytest.raises(UsageError, match="is no colour"):
        parse_colour(text)


# ---------------------------------------------------------------------------- orientation and size

# EXIF orientation -> the picture that a person sees, of a file with the rows 1 2 3 and 4 5 6.
UPRIGHT = {
    1: [[1, 2, 3], [4, 5, 6]],
    2: [[3, 2, 1], [6, 5, 4]],
    3: [[6, 5, 4], [3, 2, 1]],
    4: [[4, 5, 6], [1, 2, 3]],
    5: [[1, 4], [2, 5], [3, 6]],
    6: [[4, 1], [5, 2], [6, 3]],
    7: [[6, 3], [5, 2], [4, 1]],
    8: [[3, 6], [2, 5], [1, 4]],
}


@pytest.mark.parametrize("form, compression", [("PNG", None), ("TIFF", None), ("TIFF", "tiff_lzw")])
@pytest.mark.parametrize("dtype, scale", [(np.uint8, 1), (np.uint16, 257)])
@pytest.mark.parametrize("orientation", sorted(UPRIGHT))
def test_each_orientation_is_turned_upright(save, orientation, form, compression, dtype, scale):
    image = Image.fromarray(np.array([[1, 2, 3], [4, 5, 6]], dtype) * dtype(scale))
    exif = Image.Exif()
    exif[0x0112] = orientation
    settings = {"exif": exif}
    if form == "TIFF":
        settings = {"tiffinfo": {0x0112: orientation}, "compression": compression}
    assert read(save(image, form, **settings), channels=1) == UPRIGHT[orientation]


def test_a_photograph_is_turned_upright(save):
    image = Image.new("L", (32, 16), 255)
    image.paste(0, (0, 0, 16, 16))
    exif = Image.Exif()
    exif[0x0112] = 6
    pixels = np.array(read(save(image, "JPEG", exif=exif, quality=95), channels=1))
    assert pixels.shape == (32, 16) and pixels[4, 8] < 20 and pixels[28, 8] > 235


def test_a_png_that_a_text_says_is_turned_has_the_size_of_its_pixels(save):
    texts = PngImagePlugin.PngInfo()
    texts.add_text("XML:com.adobe.xmp", '<x tiff:Orientation="6"/>')
    path = save(Image.new("L", (3, 2)), pnginfo=texts)
    assert read_header(path)[0] == (2, 3) and len(read(path, channels=1)) == 3


def test_a_damaged_block_of_exif_is_no_fault_of_the_pixels(save):
    exif = b"Exif\0\0MM\0*\0\0\0\x08\0\x02\x01\x12\0\x02\0\0\0\x03x\0\0\0"
    path = save(Image.new("L", (16, 16), 90), "JPEG", exif=exif)
    assert abs(read(path, channels=1)[0][0] - 90) <= 2


def ink_at_the_left(width, height):
    """A white picture with a black first sixth."""
    image = Image.new("L", (width, height), 255)
    image.paste(0, (0, 0, width // 6, height))
    return image


def test_padding_keeps_the_whole_image(save):
    pixels = np.array(read(save(ink_at_the_left(60, 20)), size=(20, 20), channels=1))
    assert pixels.shape == (20, 20) and pixels[10, 0] < 30 and pixels[10, 10] == 255
    assert (pixels[:6] == 255).all() and (pixels[14:] == 255).all()


def test_padding_takes_the_background(save):
    path = save(ink_at_the_left(60, 20))
    assert read(path, size=(6, 6), background=(0, 0, 255))[0][0] == BLUE
    assert np.array(read(path, size=(6, 6), channels=1, background=(9, 9, 9)))[0, 0] == 9
    assert read(path, size=(6, 6), channels=4, background=RED)[0][0] == RED + (0,)


def test_padding_may_extend_the_border(save):
    image = Image.new("RGB", (60, 20), (9, 8, 7))
    image.paste(RED, (25, 5, 35, 15))
    pixels = read(save(image), size=(20, 20), extends_border=True)
    assert pixels[0][0] == pixels[19][19] == (9, 8, 7)
    grey = save(ink_at_the_left(60, 60), name="square.png")
    assert np.array(read(grey, size=(6, 6), channels=1, extends_border=True)).shape == (6, 6)


@pytest.mark.parametrize("fit, left", [("crop", 255), ("stretch", 0)])
def test_cropping_cuts_the_centre_and_stretching_keeps_every_side(save, fit, left):
    path = save(ink_at_the_left(60, 20))
    pixels = np.array(read(path, size=(20, 20), channels=1, fit=fit))
    assert (abs(pixels[:, 0] - left) < 30).all() and (pixels[:, 10:] == 255).all()


@pytest.mark.parametrize("fit", ["pad", "crop", "stretch"])
@pytest.mark.parametrize("size", [(1, 1), (1, 1000), (1000, 1), (3, 7), (20, 20)])
def test_any_shape_gets_the_size(save, fit, size):
    image = read_image(save(Image.new("L", size, 7)), ImageForm((20, 20), 3, fit))
    assert image.shape == (20, 20, 3)


POSTSCRIPT = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n%%EOF\n"


@pytest.mark.parametrize("content", [POSTSCRIPT, b"\xd7\xcd\xc6\x9a" + bytes(60), b"II*\0", b""])
def test_content_that_is_no_image_is_refused_whatever_its_name(tmp_path, monkeypatch, content):
    start = mock.Mock()
    monkeypatch.setattr("subprocess.Popen", start)
    monkeypatch.setattr("subprocess.check_call", start)
    path = tmp_path / "evil.png"
    path.write_bytes(content)
    assert "expected an image, found" in refusal_of(read, str(path)) and not start.called
