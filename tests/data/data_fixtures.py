"""Shared by the tests of data: bytes of files, and images with their numbers as pixels."""

import gzip
import io
import struct
import tracemalloc
import zipfile
import zlib

import numpy as np
import pytest

from toolkit.errors import DataError

NUM_IMAGES = 30  # of the fixture `paths`


def refusal_of(call, *args, **kwargs):
    """The message of the DataError, with a hint, that the call raises."""
    with pytest.raises(DataError) as error:
        call(*args, **kwargs)
    assert error.value.exit_code == 4 and error.value.hint
    return error.value.message


def peak_of(call):
    """The most bytes that Python allocates during a call."""
    tracemalloc.start()
    call()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def idx_bytes(array, code=8):
    """The content of an IDX file of `array`."""
    header = struct.pack(">HBB", 0, code, array.ndim)
    return header + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def gzip_bytes(content):
    """Without the time, so that a parametrized test has the same name in every process."""
    stream = io.BytesIO()
    with gzip.GzipFile(fileobj=stream, mode="wb", mtime=0) as file:
        file.write(content)
    return stream.getvalue()


def zip_bytes(members, method=zipfile.ZIP_STORED):
    """A zip file with correct checksums of contents by name."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as file:
        for name, content in members.items():
            file.writestr(zipfile.ZipInfo(name), content, compress_type=method)
    return stream.getvalue()


def png_bytes(width, height, depth=8, kind=0, rows=b""):
    """A PNG file with any header, which Pillow would not write, and with correct checksums."""
    content = b"\x89PNG\r\n\x1a\n"
    head = struct.pack(">IIBBBBB", width, height, depth, kind, 0, 0, 0)
    for name, part in ((b"IHDR", head), (b"IDAT", zlib.compress(rows)), (b"IEND", b"")):
        checksum = struct.pack(">I", zlib.crc32(name + part))
        content += struct.pack(">I", len(part)) + name + part + checksum
    return content


def npy_bytes(shape):
    """The content of an .npy file of 20 bytes that says that they have this shape."""
    header = repr({"descr": "|u1", "fortran_order": False, "shape": shape}).encode() + b"\n"
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header + bytes(20)


def numbered_images(count, side=4):
    """uint8 [count, side, side]; the first two pixels of image i encode i."""
    images = np.zeros((count, side, side), np.uint8)
    images[:, 0, 0] = np.arange(count) % 256
    images[:, 0, 1] = np.arange(count) // 256
    return images
