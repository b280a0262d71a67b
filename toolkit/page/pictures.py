"""Pictures of a run: opened with limits, and where they are large, made smaller.

A small file is on the page with its own bytes. Larger pictures are encoded again, so that their
bytes depend on the version of Pillow, and those of a slider are laid side by side on sheets: a
sheet is one picture of the page, and a frame is a part of it.
"""

from __future__ import annotations

import base64
import io
import os
import re
import stat
import warnings
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from ..comparison.listing import natural_key
from .values import clean_text, format_count

MAX_FILE_BYTES = 1 << 25
MAX_PIXELS = 30_000_000  # of a file; more would take seconds to decode
MAX_SHEET_SIDE = 2048
ENDINGS = (".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp")
_FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP")
_TYPES = {"PNG": "image/png", "JPEG": "image/jpeg", "WEBP": "image/webp"}
_LOSSLESS_BYTES = 120_000  # a sharp picture may be as large as this
_FRAME = re.compile(r"(.*?)[-_. ]?(\d{1,15})", re.DOTALL)
_MAX_FILES = 5000
_MAX_DEPTH = 3


class Picture(NamedTuple):
    """A block of the page. See the module `writer`."""

    data: bytes
    type: str  # "image/webp", "image/png" or "image/jpeg"
    width: int
    height: int


class Limits(NamedTuple):
    """How much of a run's pictures a page shows.

    Attributes:
        bytes: of all pictures together; what would exceed it is left out.
        pictures: how many, sliders not counted.
        side: pixels of a picture's longer side; a larger picture is made smaller.
        frames: pictures of a slider; of more, the first, the last and some between.
        frame_side: as `side`, of the pictures of a slider.
        file_bytes: of a file that is on the page as it is.
        frame_bytes: likewise, of the pictures of a slider, which are many.
    """

    bytes: int
    pictures: int
    side: int
    frames: int
    frame_side: int
    file_bytes: int = 100_000
    frame_bytes: int = 60_000


ONE_RUN = Limits(bytes=3_000_000, pictures=16, side=1400, frames=40, frame_side=640)
ONE_OF_SEVERAL = Limits(bytes=120_000, pictures=1, side=480, frames=1, frame_side=480)


class SourceImage(NamedTuple):
    """A picture of a run.

    Attributes:
        image: of Pillow, "L", "RGB" or "RGBA", not larger than it may be.
        file: the file itself, if it is small enough for a page; else None.
    """

    image: Any
    file: Optional[Picture]


class PictureError(Exception):
    """Why a picture is left out, as a clause."""


class Album:
    """The pictures of a page.

    Args:
        limits: of the pictures.
        first: the number of the first picture.

    Attributes:
        pictures: in the order of their numbers.
        notes: a sentence for what was left out.
        num_encoded: the pictures with other bytes than those of a file.
    """

    def __init__(self, limits: Limits, first: int = 0):
        self.limits = limits
        self._first = first
        self.num_encoded = 0
        self.pictures: List[Picture] = []
        self.notes: List[str] = []

    @property
    def num_bytes(self) -> int:
        return sum(len(picture.data) for picture in self.pictures)

    def add_file(self, folder: str, name: str, title: str, alt: str) -> Optional[Dict[str, Any]]:
        """Add the picture in a file.

        Args:
            folder: of the run, which the file has to be in.
            name: the path of the file in it, with "/".
            title, alt: texts to show.

        Returns:
            The picture's object on the page; None if it is left out.
        """
        try:
            image, file = open_image(folder, name, self.limits.side, self.limits.file_bytes)
            number = self._add_image(image, file)
        except PictureError as error:
            self.notes.append(f"{clean_text(name, 120)} is left out: {error}.")
            return None
        text = clean_text(title) or clean_text(os.path.basename(name), 120)
        return {"title": text, "alt": clean_text(alt) or text, "picture": number}

    def add_slider(
        self, folder: str, title: str, names: Sequence[Tuple[int, str]]
    ) -> Optional[Dict[str, Any]]:
        """Add pictures of one subject at several steps.

        Args:
            folder: of the run.
            title: of the subject.
            names: the step and the path of each picture, in the order of the steps.

        Returns:
            The slider's object on the page; None if no picture can be shown.
        """
        rows = _spread(names, self.limits.frames)
        if len(rows) < len(names):
            self.notes.append(f"Of {clean_text(title, 80)}, {len(rows)} of {len(names)} are shown.")
        frames: List[Dict[str, Any]] = []
        for sheet in _fill_sheets(self._open_frames(folder, rows)):
            try:
                number = self._add_image(None if sheet.file else sheet.image, sheet.file)
            except PictureError as error:
                count = format_count(len(sheet.frames), "picture")
                self.notes.append(f"{count} of {clean_text(title, 80)} left out: {error}.")
                continue
            frames += [dict(frame, picture=number) for frame in sheet.frames]
        return {"title": clean_text(title, 120), "frames": frames} if frames else None

    def _open_frames(
        self, folder: str, rows: Sequence[Tuple[int, str]]
    ) -> Iterator[Tuple[int, SourceImage]]:
        side, max_bytes = self.limits.frame_side, self.limits.frame_bytes
        for step, name in rows:
            try:
                yield step, open_image(folder, name, side, max_bytes)
            except PictureError as error:
                self.notes.append(f"{clean_text(name, 120)} is left out: {error}.")

    def _add_image(self, image: Any, file: Optional[Picture]) -> int:
        """Add the picture of a file, or encode the image if there is none."""
        number = self._add(file or encode(image))
        self.num_encoded += file is None
        return number

    def _add(self, picture: Picture) -> int:
        if self.num_bytes + len(picture.data) > self.limits.bytes:
            raise PictureError(f"the pictures of a run have at most {self.limits.bytes:,} bytes")
        self.pictures.append(picture)
        return self._first + len(self.pictures) - 1


# -------------------------------------------------------------------------------------------- files


def list_frames(folder: str, place: str) -> Dict[str, List[Tuple[int, str]]]:
    """The pictures below a folder whose names end in a step, by the rest of their names.

    Args:
        folder: of the run.
        place: the path of the folder in it.

    Returns:
        The path without step and ending -> (step, path) of each picture, in the order of the
        steps.
    """
    groups: Dict[str, Dict[int, str]] = {}
    for name in list_pictures(folder, place):
        match = _FRAME.fullmatch(os.path.splitext(name)[0])
        if match and not name.lower().endswith(".gif"):
            groups.setdefault(match.group(1), {})[int(match.group(2))] = name
    return {subject: sorted(groups[subject].items()) for subject in sorted(groups)}


def list_pictures(folder: str, place: str) -> List[str]:
    """The paths in a run folder of the pictures in one of its folders, and below it."""
    names: List[str] = []
    root = os.path.join(folder, place)
    if os.path.islink(root):
        return []
    for path, folders, files in os.walk(root):
        relative = os.path.relpath(path, folder).replace(os.sep, "/")
        if relative.count("/") >= _MAX_DEPTH:
            folders.clear()
        folders.sort()
        names += [f"{relative}/{n}" for n in sorted(files) if n.lower().endswith(ENDINGS)]
        if len(names) > _MAX_FILES:
            break
    return sorted(names[:_MAX_FILES], key=natural_key)


def open_image(folder: str, name: str, max_side: int, max_bytes: int) -> SourceImage:
    """The picture in a file of a run.

    Args:
        folder: of the run.
        name: the path of the file in it, with "/".
        max_side: pixels; a larger picture is made smaller.
        max_bytes: of a file that is on the page as it is.

    Raises:
        PictureError: it is outside the folder, too large, or no picture.
    """
    data = _read_file(folder, name)
    from PIL import Image

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            return _read_image(data, max_side, max_bytes)
    except PictureError:
        raise
    except (Image.DecompressionBombWarning, Image.DecompressionBombError):
        raise PictureError(f"it has more than {MAX_PIXELS / 1e6:.0f} megapixels") from None
    except Exception as error:  # Pillow raises errors of many kinds
        raise PictureError(f"it is no picture ({type(error).__name__})") from None


def _read_image(data: bytes, max_side: int, max_bytes: int) -> SourceImage:
    """The picture in the bytes of a file; see `open_image`."""
    from PIL import Image

    with Image.open(io.BytesIO(data), formats=_FORMATS) as image:
        width, height = image.size
        if width * height > MAX_PIXELS:
            size = width * height / 1e6
            raise PictureError(f"it has {size:.0f} megapixels, at most {MAX_PIXELS / 1e6:.0f}")
        kind = image.format
        if kind in _TYPES and len(data) <= max_bytes and max(width, height) <= max_side:
            return SourceImage(_plain(image), Picture(data, _TYPES[kind], width, height))
        image.draft("RGB", (max_side, max_side))  # of a JPEG: decode a smaller one
        return SourceImage(_fit(_plain(image), max_side), None)


def _read_file(folder: str, name: str) -> bytes:
    """The bytes of a file in a run's folder, and of no other file."""
    parts = name.split("/")
    if "\0" in name or os.path.isabs(name) or {"", ".", ".."} & set(parts):
        raise PictureError("it is not in the folder of the run")
    path = os.path.join(folder, *parts)
    if os.path.realpath(path) != os.path.join(os.path.realpath(folder), *parts):
        raise PictureError("it is a symbolic link")
    try:
        with open(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise PictureError("it is not a regular file")
            if status.st_size > MAX_FILE_BYTES:
                raise PictureError(f"it has {status.st_size:,} bytes, at most {MAX_FILE_BYTES:,}")
            return file.read(MAX_FILE_BYTES)
    except OSError as error:
        raise PictureError(f"it cannot be read ({error.strerror})") from None


def _plain(image: Any) -> Any:
    """The image in one of the modes that are drawn here."""
    if image.mode in ("L", "RGB", "RGBA"):
        image.load()
        return image
    if image.mode in ("1", "LA") or (image.mode == "P" and _is_grey(image)):
        return image.convert("L")
    if image.mode.startswith("I") or image.mode == "F":
        return _scale_values(image)
    return image.convert("RGBA" if "transparency" in image.info else "RGB")


def _is_grey(image: Any) -> bool:
    return image.palette is not None and image.palette.mode == "L"


def _scale_values(image: Any) -> Any:
    """A picture of 16 bits or more per pixel, whose values are scaled to 0 to 255."""
    import numpy as np
    from PIL import Image

    values = np.nan_to_num(np.asarray(image, dtype=np.float64))
    low, high = float(values.min()), float(values.max())
    return Image.fromarray(((values - low) * (255 / max(high - low, 1e-9))).astype(np.uint8))


def _fit(image: Any, max_side: int) -> Any:
    """The image, made smaller if one of its sides is longer than `max_side`."""
    from PIL import Image

    side = max(image.size)
    if side <= max_side:
        return image
    size = [max(1, round(length * max_side / side)) for length in image.size]
    return image.resize(size, Image.Resampling.LANCZOS)


# ------------------------------------------------------------------------------------------- sheets


class _Sheet:
    """A picture with frames, row by row, in the making.

    Attributes:
        file: of the only frame, if the sheet is no more than a small file; else None.
        frames: the step and the place of each.
    """

    def __init__(self, mode: str, file: Optional[Picture] = None):
        from PIL import Image

        self._mode = mode
        self.file = file
        self._canvas = None if file else Image.new(mode, (MAX_SHEET_SIDE, MAX_SHEET_SIDE))
        self._left = self._top = self._row_height = self._width = 0
        self.frames: List[Dict[str, Any]] = []

    def add(self, step: int, image: Any) -> bool:
        """Draw a frame, and return whether there was room for it."""
        width, height = image.size
        left, top = self._left, self._top
        if left + width > MAX_SHEET_SIDE:
            left, top = 0, top + self._row_height
        is_full = top + height > MAX_SHEET_SIDE or (self.file is not None and self.frames)
        if image.mode != self._mode or is_full:
            return False
        if self._canvas is not None:
            self._canvas.paste(image, (left, top))
        self.frames.append({"step": step, "x": left, "y": top, "w": width, "h": height})
        self._row_height = height if top != self._top else max(self._row_height, height)
        self._left, self._top, self._width = left + width, top, max(self._width, left + width)
        return True

    @property
    def image(self) -> Any:
        """The part of the sheet that has frames."""
        assert self._canvas is not None  # a file is not encoded again
        return self._canvas.crop((0, 0, self._width, self._top + self._row_height))


def _fill_sheets(frames: Iterator[Tuple[int, SourceImage]]) -> Iterator[_Sheet]:
    """Yield sheets with all frames, each when it is full. A small file is a sheet of its own."""
    sheet: Optional[_Sheet] = None
    for step, (image, file) in frames:
        if file is not None or sheet is None or not sheet.add(step, image):
            if sheet is not None:
                yield sheet
            sheet = _Sheet(image.mode, file)
            sheet.add(step, image)
    if sheet is not None:
        yield sheet


def _spread(rows: Sequence[Tuple[int, str]], limit: int) -> List[Tuple[int, str]]:
    """At most `limit` of the rows, spread evenly, with the first and the last; of one, the last."""
    if len(rows) <= limit or limit == 1:
        return list(rows[-limit:])
    return [rows[position * (len(rows) - 1) // (limit - 1)] for position in range(limit)]


# ------------------------------------------------------------------------------------------- encode


def describe_encoder(num_encoded: int) -> str:
    """What the bytes of pictures depend on that are not those of a file, as a sentence."""
    import PIL

    count = format_count(num_encoded, "picture")
    return f"Pillow {PIL.__version__} encoded {count} again; other versions write other bytes."


def encode(image: Any) -> Picture:
    """The image as WebP: without loss if that is small, else with little; PNG where Pillow has no
    WebP.
    """
    from PIL import features

    width, height = image.size
    if not features.check("webp"):
        return Picture(_save(image, "PNG", optimize=True), "image/png", width, height)
    data = b""
    if width * height <= 1_000_000:
        data = _save(image, "WEBP", lossless=True, quality=40, method=1)
    if not data or len(data) > _LOSSLESS_BYTES:
        data = _save(image, "WEBP", quality=80, method=2)
    return Picture(data, "image/webp", width, height)


def _save(image: Any, kind: str, **settings: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **settings)
    return file.getvalue()


def as_base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
