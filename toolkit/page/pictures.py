"""Pictures of a run: opened with limits, and where they are large, made smaller.

A small file is on the page with its own bytes. Larger pictures are encoded again, so that their
bytes depend on the version of Pillow.
"""

from __future__ import annotations

import base64
import io
import os
import re
import warnings
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from ..comparison.listing import natural_key
from ..comparison.record import open_inside
from .values import clean_text

MAX_FILE_BYTES = 1 << 25
MAX_PIXELS = 30_000_000  # of a file; more would take seconds to decode
ENDINGS = (".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp")
_FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP")
_TYPES = {"PNG": "image/png", "JPEG": "image/jpeg", "WEBP": "image/webp"}
_LOSSLESS_BYTES = 120_000  # a sharp picture may be as large as this
_FRAME = re.compile(r"(.*?)[-_. ]?(\d{1,15})", re.DOTALL)
_MAX_FILES, _MAX_DEPTH, _MAX_NAME = 5000, 3, 120
# Pixels of the longer side, and bytes of a file that is on the page as it is: of a picture, of one
# in a slider, and of one that stands for a run among others.
_FILE, _FRAME_FILE, _SMALL_FILE = (1400, 100_000), (640, 60_000), (480, 60_000)


class Picture(NamedTuple):
    """A picture of a page, with its size in pixels."""

    data: bytes
    type: str  # of its bytes, "image/png" or another
    width: int
    height: int

    @property
    def source(self) -> str:
        return f"data:{self.type};base64,{base64.b64encode(self.data).decode('ascii')}"


class PictureError(Exception):
    """Why a picture is left out, as a clause."""


class Album:
    """The pictures on a page from the folder of a run: of one run alone, or one of each of several;
    and a note for what is left out.
    """

    def __init__(self, folder: str, is_one: bool = True):
        limits = (16, 40, 3_000_000) if is_one else (1, 1, 120_000)
        self.max_pictures, self._max_frames, self._bytes_left = limits
        self._max_bytes = self._bytes_left
        self._file, self._frame = (_FILE, _FRAME_FILE) if is_one else (_SMALL_FILE, _SMALL_FILE)
        self._folder = folder
        self.notes: List[str] = []

    def add_file(self, name: str, title: str, alt: str) -> Optional[Dict[str, Any]]:
        """Add the picture in a file, by its path in the folder; None if it is left out."""
        picture = self._add(name, *self._file)
        text = clean_text(title) or clean_text(os.path.basename(name), _MAX_NAME)
        return picture and {"title": text, "alt": clean_text(alt) or text, "picture": picture}

    def add_slider(self, title: str, names: Sequence[Tuple[int, str]]) -> Optional[Dict[str, Any]]:
        """Add pictures of one subject, the step and the path of each in the order of the steps;
        None if no picture can be shown.
        """
        count = min(len(names), self._max_frames)
        if count < len(names):
            self.notes.append(f"Of {title}, {count} of {len(names)} are shown.")
        # Spread evenly, with the first and the last; of one, the last.
        places = [n * (len(names) - 1) // (count - 1) for n in range(count)] if count > 1 else [-1]
        pairs = [(names[at][0], self._add(names[at][1], *self._frame)) for at in places]
        frames = [{"step": step, "picture": picture} for step, picture in pairs if picture]
        return {"title": title, "frames": frames} if frames else None

    def _add(self, name: str, max_side: int, max_bytes: int) -> Optional[Picture]:
        try:
            picture = open_picture(self._folder, name, max_side, max_bytes)
            if len(picture.data) > self._bytes_left:
                raise PictureError(f"the pictures of a run have at most {self._max_bytes:,} bytes")
        except PictureError as error:
            self.notes.append(f"{clean_text(name, _MAX_NAME)} is left out: {error}.")
            return None
        self._bytes_left -= len(picture.data)
        return picture


def list_frames(names: Sequence[str]) -> Dict[str, List[Tuple[int, str]]]:
    """Of paths, those that end in a step, by the rest of their names: the step and the path of
    each, in the order of the steps.
    """
    groups: Dict[str, Dict[int, str]] = {}
    for name in names:
        match = _FRAME.fullmatch(os.path.splitext(name)[0])
        if match and not name.lower().endswith(".gif"):
            groups.setdefault(match.group(1), {})[int(match.group(2))] = name
    return {subject: sorted(groups[subject].items()) for subject in sorted(groups)}


def list_pictures(folder: str, place: str) -> List[str]:
    """The paths in a run folder of the pictures in one of its folders, and below it."""
    names: List[str] = []
    root = os.path.join(folder, place)
    for path, folders, files in [] if os.path.islink(root) else os.walk(root):
        relative = os.path.relpath(path, folder).replace(os.sep, "/")
        folders[:] = sorted(folders) if relative.count("/") < _MAX_DEPTH else []
        names += [f"{relative}/{n}" for n in sorted(files) if n.lower().endswith(ENDINGS)]
        if len(names) > _MAX_FILES:
            break
    return sorted(names[:_MAX_FILES], key=natural_key)


def open_picture(folder: str, name: str, max_side: int, max_bytes: int) -> Picture:
    """The picture in a file of a run, by its path in the folder with "/"; one with a longer side
    than `max_side` pixels is made smaller, and one of more than `max_bytes` encoded again. Raises
    PictureError if it is outside the folder, too large, or no picture.
    """
    from PIL import Image

    try:
        with open_inside(folder, name) as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise PictureError(f"it cannot be read ({error.strerror})") from None
    if len(data) > MAX_FILE_BYTES:
        raise PictureError(f"it has more than {MAX_FILE_BYTES:,} bytes")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            image = Image.open(io.BytesIO(data), formats=_FORMATS)
        with image:
            (width, height), kind = image.size, image.format
            if width * height > MAX_PIXELS:
                raise PictureError(f"it has more than {MAX_PIXELS / 1e6:.0f} megapixels")
            if kind in _TYPES and len(data) <= max_bytes and max(width, height) <= max_side:
                image.load()
                return Picture(data, _TYPES[kind], width, height)
            image.draft("RGB", (max_side, max_side))  # of a JPEG: decode a smaller one
            is_clear = "A" in image.mode or "transparency" in image.info
            plain: Any = image
            if image.mode.startswith("I"):  # of 16 bits, whose values Pillow would clip to 255
                plain = image.convert("I").point(lambda value: value / 257).convert("L")
            plain = plain.convert("RGBA" if is_clear else "RGB")
            plain.thumbnail((max_side, max_side), Image.Resampling.LANCZOS)
            stream = io.BytesIO()
            plain.save(stream, "WEBP", lossless=True, quality=40, method=1)
            if stream.tell() > _LOSSLESS_BYTES:
                stream = io.BytesIO()
                plain.save(stream, "WEBP", quality=80, method=2)
            return Picture(stream.getvalue(), "image/webp", plain.width, plain.height)
    except PictureError:
        raise
    except Exception as error:  # Pillow raises errors of many kinds
        raise PictureError(f"it is no picture ({type(error).__name__})") from None
