"""Read one image as an array: its format, transparency, orientation, bit depth and size.

Every image takes this way, in training, in an evaluation and in a prediction:

    file -> upright (EXIF) -> 8 bits -> transparency laid on the background -> channels -> size

Legend: H height, W width, C channels, M images.
"""

from __future__ import annotations

import contextlib
import functools
import io
import os
import warnings
from typing import Any, Iterator, NamedTuple, Optional, Tuple, Union

import numpy as np

from ...errors import DataError, UsageError
from ...files import open_regular_file

# Formats that Pillow decodes itself: PostScript, for one, would start an outside program.
FORMATS = (
    *("PNG", "JPEG", "MPO", "GIF", "BMP", "DIB", "TIFF", "WEBP", "PPM"),
    *("ICO", "PCX", "SGI", "JPEG2000", "AVIF", "TGA"),
)
MODES = {1: "L", 3: "RGB", 4: "RGBA"}  # channels -> Pillow's name
# Pixels of an image: a camera's picture has fewer, and a small damaged or forged file may have more
# than fit in memory, where each pixel takes up to 16 bytes while it is decoded.
MAX_PIXELS = 120_000_000
_GREY = ("1", "L", "LA", "La", "I", "I;16", "I;16B", "I;16L", "I;16N", "F")
_ALPHA = ("RGBA", "RGBa", "LA", "La", "PA")
_ORIENTATION = 0x0112  # a tag of EXIF
_TURNS = {  # orientation of a camera's picture -> what makes it upright
    **{2: "FLIP_LEFT_RIGHT", 3: "ROTATE_180", 4: "FLIP_TOP_BOTTOM", 5: "TRANSPOSE"},
    **{6: "ROTATE_270", 7: "TRANSVERSE", 8: "ROTATE_90"},
}
# That say how a PNG is turned, where they come before the pixels.
_PNG_BLOCKS = {"exif", "Raw profile type exif", "XML:com.adobe.xmp"}
_TAIL = 1 << 17  # bytes at the end of a PNG file, among which a late block of EXIF is
_BITS_PER_SAMPLE, _PHOTOMETRIC, _SAMPLE_FORMAT = 258, 262, 339  # tags of TIFF

Source = Union[str, bytes]  # the path of an image file, or its content


class ImageForm(NamedTuple):
    """The form that images are given."""

    size: Optional[Tuple[int, int]] = None  # (width, height) in pixels; None: that of each file
    channels: int = 3  # 1 (grey), 3 (RGB) or 4 (RGBA, which keeps transparency)
    # How an image of another shape gets its size: "pad" scales the whole image into it and fills
    # the rest with the background, "crop" cuts the centre, "stretch" distorts.
    fit: str = "pad"
    # (red, green, blue), on which transparent images are laid and with which images are padded.
    background: Tuple[int, int, int] = (255, 255, 255)
    extends_border: bool = False  # whether to pad with the mean of the image's own border instead


def read_image(source: Source, form: ImageForm, name: str = "") -> np.ndarray:
    """Read an image, from the path of a file or from its content, as uint8 [H, W, C]. Several
    threads may do so. Raises DataError, with the path or the `name`, if it is none.
    """
    if form.channels not in MODES:
        raise DataError(f"{name or source!s}: no image has {form.channels} channels.")
    with open_image(source, name) as file:
        return read_picture(file, form)


def read_picture(picture: Any, form: ImageForm) -> np.ndarray:
    """As `read_image`, of a picture of Pillow, for 1, 3 or 4 channels. Raises OSError or ValueError
    if it cannot be read.
    """
    from PIL import Image

    picture.load()
    image = turn_upright(_to_8_bits(picture), picture)
    if form.channels != 4 and _is_transparent(image):
        paper = Image.new("RGBA", image.size, form.background + (255,))
        image = Image.alpha_composite(paper, image.convert("RGBA"))
    image = image.convert(MODES[form.channels])
    if form.size is not None and image.size != form.size:
        if form.extends_border:
            pixels = np.asarray(image, np.float64)
            edges = [pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]]  # [H or W, C] each
            mean = np.rint(np.concatenate(edges).mean(axis=0)).astype(int).tolist()
            fill = mean if form.channels == 1 else tuple(mean)
        elif form.channels == 4:
            fill = form.background + (0,)  # transparent
        else:
            paper = Image.new("RGB", (1, 1), form.background)
            fill = paper.convert(MODES[form.channels]).getpixel((0, 0))
        image = fit_image(image, form, Image.Resampling.LANCZOS, fill)
    return np.asarray(image, np.uint8).reshape(image.size[1], image.size[0], form.channels)


class ImageHeader(NamedTuple):
    """What the header of an image says; of M images, an array [M] of each value."""

    size: Any  # (width, height) in pixels, upright; int64 [M, 2] of many
    is_grey: Any
    has_alpha: Any  # whether pixels can be transparent
    has_more_frames: Any = False  # whether frames or pages follow the first, which alone is read


def read_header(source: Source, name: str = "") -> ImageHeader:
    """Read the header of an image; no pixels are decoded, except of rare turned images.

    Arguments and errors are those of `read_image`.
    """
    with open_image(source, name) as file:
        size, is_grey, has_more_frames = _upright_size(file), file.mode in _GREY, False
        if file.mode == "P":
            colours = np.array(file.getpalette() or []).reshape(-1, 3)
            is_grey = bool(len(colours)) and bool((colours == colours[:, :1]).all())
        has_alpha = file.mode in _ALPHA or "transparency" in file.info
        if file.format != "MPO":  # in which cameras put previews of the one picture
            with contextlib.suppress(Exception):  # later frames may be damaged, and are not read
                has_more_frames = bool(getattr(file, "is_animated", False))
        return ImageHeader(size, is_grey, has_alpha, has_more_frames)


def is_picture(item: Any) -> bool:
    """Whether an object is a picture of Pillow, which is not imported for that."""
    return type(item).__module__.startswith("PIL.") and hasattr(item, "save")


def as_plain_picture(picture: Any) -> Any:
    """A picture of Pillow as one of 8 bits: grey, RGB, or RGBA if it can be transparent."""
    picture = turn_upright(_to_8_bits(picture), picture)
    if picture.mode in MODES.values():
        return picture
    opaque = "L" if picture.mode in _GREY else "RGB"
    return picture.convert("RGBA" if _is_transparent(picture) else opaque)


def parse_colour(text: str) -> Tuple[int, int, int]:
    """The colour of a name or of #rrggbb, as red, green and blue from 0 to 255; else UsageError."""
    from PIL import ImageColor

    try:
        red, green, blue = ImageColor.getrgb(text.strip())[:3]
        if not all(0 <= value <= 255 for value in (red, green, blue)):
            raise ValueError
    except ValueError:
        raise UsageError(
            f"The background '{text}' is no colour.",
            hint="Write a name or #rrggbb: white, #f0f0f0.",
        ) from None
    return red, green, blue


def parse_size(value: Union[int, str]) -> Tuple[int, int]:
    """The (width, height) in pixels of an image size: 64 for a square, or "64x48"."""
    sides = [int(side) for side in str(value).split("x")]
    return sides[0], sides[-1]


def format_size(width: int, height: int) -> str:
    """The inverse of `parse_size`."""
    return str(width) if width == height else f"{width}x{height}"


# ------------------------------------------------------------------------------------------- files


@functools.lru_cache(maxsize=None)
def file_endings() -> Tuple[str, ...]:
    """The endings of the names of image files, lower case, with their dots."""
    from PIL import Image

    formats = Image.registered_extensions()
    return tuple(ending for ending, name in formats.items() if name in FORMATS)


@functools.lru_cache(maxsize=None)
def _formats() -> Tuple[str, ...]:
    """Those of FORMATS that this Pillow can read."""
    from PIL import Image

    Image.init()
    return tuple(name for name in FORMATS if name in Image.OPEN)


@contextlib.contextmanager
def open_image(source: Source, name: str = "", expected: str = "an image") -> Iterator[Any]:
    """Open an image with Pillow; source and name are those of `read_image`. Raises DataError if it
    is none of FORMATS or has more than MAX_PIXELS, or if the block cannot read it.
    """
    from PIL import Image

    # For good: a filter for a block is lost when blocks of several threads end in another order.
    warnings.filterwarnings("ignore", module=r"PIL\.")
    try:
        # Pillow may map a file that it opens by its path, and turn it wrongly.
        is_content = isinstance(source, bytes)
        stream = io.BytesIO(source) if is_content else open_regular_file(source)  # type: ignore
        with stream, Image.open(stream, formats=_formats()) as image:
            width, height = image.size
            if width * height > MAX_PIXELS:
                text = f"{width}x{height} pixels, more than {MAX_PIXELS:,}; scale it down"
                raise ValueError(text)
            yield image
    except DataError:
        raise
    except MemoryError as error:  # the data may be too large, or a damaged file names a large part
        setattr(error, "filename", name or str(source))  # noqa: B010 - as an OSError has it
        raise
    except Exception as error:  # damaged bytes can make Pillow's decoders raise anything
        hint = "Replace or remove that file. Of images:DIR and pairs:DIR, --skip-damaged leaves "
        hint += "such files out, and 'toolkit data check DATA' names them."
        if isinstance(source, bytes):  # of a record
            hint = "Write image files; pixels need keys 'height' and 'width', and one byte each."
        raise DataError(
            f"{name or source!s}: expected {expected}, found {_reason(source, error)}.", hint=hint
        ) from error


def _reason(source: Source, error: Exception) -> str:
    """Why an image could not be read, in few words."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if isinstance(source, str) and os.path.isfile(source) and not os.path.getsize(source):
        return "an empty file"
    if type(error).__name__ == "UnidentifiedImageError":
        return "bytes of no known image format"
    return f"{error}"[:200].rstrip(".") or type(error).__name__


# ------------------------------------------------------------------------------------------ pixels


def _orientation(file: Any) -> int:
    """The orientation of a camera's picture, 1 (upright) to 8; Pillow turns TIFF files itself."""
    if file.format == "TIFF":
        return 1
    try:
        return int(file.getexif().get(_ORIENTATION, 1))
    except Exception:  # the block may be damaged, which concerns no pixel
        return 1


def _upright_size(file: Any) -> Tuple[int, int]:
    """The (width, height) of an image after it was turned upright."""
    if file.format == "PNG" and not _PNG_BLOCKS & set(file.info):  # it may be behind the pixels
        position = file.fp.tell()
        file.fp.seek(0, os.SEEK_END)
        file.fp.seek(max(0, file.fp.tell() - _TAIL))
        tail = file.fp.read()
        file.fp.seek(position)
        if b"eXIf" not in tail:
            return file.size  # asking Pillow for the block would decode the image
        file.load()
    if file.format == "TIFF" and file.tag_v2.get(_ORIENTATION, 1) != 1:
        file.load()
    width, height = file.size
    return (height, width) if _orientation(file) >= 5 else (width, height)


def turn_upright(image: Any, file: Any) -> Any:
    """The pixels of a file, upright; its EXIF, after Pillow loaded it, says how it was turned."""
    from PIL import Image

    turn = _TURNS.get(_orientation(file))
    return image.transpose(Image.Transpose[turn]) if turn else image


def _to_8_bits(file: Any) -> Any:
    """The image with 8 bits per channel. Pillow's own conversions would clip the values. Raises
    ValueError if these have no fixed range: 32-bit or signed integers, or floats outside [0, 1].
    """
    from PIL import Image

    if file.mode == "F":
        values = np.asarray(file)
        if not (np.isfinite(values).all() and values.min() >= 0 and values.max() <= 1):
            raise ValueError(
                f"floats from {values.min():g} to {values.max():g}, not from 0 to 1; "
                "convert it to 8 or 16 bits"
            )
        return Image.fromarray(np.rint(values * 255).astype(np.uint8))
    if file.mode.startswith("I"):
        tags = getattr(file, "tag_v2", {})
        is_made = file.mode == "I" and file.format is None  # of no file, which has 16 bits
        bits = int(np.max(tags.get(_BITS_PER_SAMPLE, 32 if is_made else 16)))
        kind = "signed " if np.max(tags.get(_SAMPLE_FORMAT, 1)) != 1 else ""
        if bits > 16 or kind:
            raise ValueError(f"{kind}{bits}-bit integers; convert it to 8 or 16 bits")
        white = 2**bits - 1
        values = np.asarray(file, np.int64).clip(0, white)
        values = white - values if tags.get(_PHOTOMETRIC) == 0 else values
        return Image.fromarray(np.rint(values * (255 / white)).astype(np.uint8))
    return file


def _is_transparent(image: Any) -> bool:
    """Whether a pixel of the image is not opaque."""
    if image.mode not in _ALPHA and "transparency" not in image.info:
        return False
    return image.convert("RGBA").getextrema()[3][0] < 255


# -------------------------------------------------------------------------------------------- size


def fit_image(image: Any, form: ImageForm, resampling: Any, fill: Any) -> Any:
    """An image of Pillow at the size of the form, by a filter of Pillow, padded with a pixel."""
    from PIL import Image, ImageOps

    assert form.size is not None
    if form.fit == "crop":
        return ImageOps.fit(image, form.size, resampling)
    if form.fit == "stretch":
        return image.resize(form.size, resampling)
    scale = min(form.size[0] / image.size[0], form.size[1] / image.size[1])
    width, height = (
        min(limit, max(1, round(side * scale))) for side, limit in zip(image.size, form.size)
    )
    paper = Image.new(image.mode, form.size, fill)
    inner = image.resize((width, height), resampling)
    paper.paste(inner, ((form.size[0] - width) // 2, (form.size[1] - height) // 2))
    return paper
