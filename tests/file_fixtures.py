"""Read, edit, damage and hash files; forget modules of files."""

import glob
import hashlib
import json
import os
import struct
import sys
from types import SimpleNamespace

REPOSITORY = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def read_json(*parts):
    with open(os.path.join(*map(str, parts))) as file:
        return json.load(file)


def edit(path, old, new):
    """Replace the first `old` in a text file, where it has to be."""
    with open(str(path)) as file:
        text = file.read()
    assert old in text
    with open(str(path), "w") as file:
        file.write(text.replace(old, new, 1))


def flip_byte(path):
    with open(path, "r+b") as file:
        first = file.read(1)[0]
        file.seek(0)
        file.write(bytes([first ^ 1]))


def drop_line(path, number):
    """Remove a line, counted from 0; a negative number counts from the end."""
    with open(str(path)) as file:
        lines = file.readlines()
    del lines[number]
    with open(str(path), "w") as file:
        file.writelines(lines)


def sha256s(folder):
    """Path -> SHA-256 of every file below a folder."""
    hashes = {}
    for path in glob.glob(os.path.join(str(folder), "**"), recursive=True):
        if os.path.isfile(path):
            with open(path, "rb") as file:
                hashes[path] = hashlib.sha256(file.read()).hexdigest()
    return hashes


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
