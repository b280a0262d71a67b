"""Read, edit, damage and hash files; forget modules of files."""

import glob
import hashlib
import json
import os
import struct
import sys
from pathlib import Path
from types import SimpleNamespace

REPOSITORY = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def read_text(*parts):
    return Path(*parts).read_text(encoding="utf-8")


def read_json(*parts):
    return json.loads(read_text(*parts))


def edit(path, old, new):
    """Replace the first `old` in a text file, where it has to be."""
    text = read_text(path)
    assert old in text
    Path(path).write_text(text.replace(old, new, 1), encoding="utf-8")


def flip_byte(path):
    data = Path(path).read_bytes()
    Path(path).write_bytes(bytes([data[0] ^ 1]) + data[1:])


def drop_line(path, number):
    """Remove a line, counted from 0; a negative number counts from the end."""
    lines = Path(path).read_text().splitlines(True)
    del lines[number]
    Path(path).write_text("".join(lines))


def sha256s(folder):
    """Path -> SHA-256 of every file below a folder."""
    files = filter(os.path.isfile, glob.glob(os.path.join(str(folder), "**"), recursive=True))
    return {path: hashlib.sha256(Path(path).read_bytes()).hexdigest() for path in files}


def forget_modules(folder):
    """Undo the imports of modules in a folder, also of packages without an `__init__.py`."""
    start = str(folder)

    def is_in_folder(module):
        places = [getattr(module, "__file__", None), *(getattr(module, "__path__", None) or [])]
        return any(str(place).startswith(start) for place in places)

    for name in [name for name, module in list(sys.modules.items()) if is_in_folder(module)]:
        del sys.modules[name]


def write_idx(path, array):
    """Write an array, uint8, int32 or float32 [N, ...], as an IDX file."""
    code, dtype = {"u": (8, "u1"), "i": (12, ">i4"), "f": (13, ">f4")}[array.dtype.kind]
    with open(str(path), "wb") as file:
        file.write(struct.pack(f">HBB{array.ndim}I", 0, code, array.ndim, *array.shape))
        file.write(array.astype(dtype).tobytes())


def save_image(path, array):
    """Save pixels as a picture; return its path."""
    from PIL import Image

    Image.fromarray(array).save(str(path))
    return str(path)


def trained_on(spec, missing="refuse", ink=None):
    """What reading files uses of a model that was trained on examples of a spec, as stored."""
    options = {"data": "npz:x.npz", "fit": "pad", "background": "white", "missing": missing}
    return SimpleNamespace(
        stored=spec,
        options=SimpleNamespace(**options),
        plugins=SimpleNamespace(has_hook=lambda name: False),
        predictor=SimpleNamespace(graph=SimpleNamespace(takes_examples=True)),
        manifest={"data": {"ink": ink}},
    )
