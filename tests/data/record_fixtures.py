"""Writes TFRecord files by hand, without TensorFlow."""

import io
import struct

import numpy as np
from PIL import Image


def masked_crc32c(content):
    """The checksum of TFRecord files."""
    crc = 0xFFFFFFFF
    for byte in content:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def varint(number):
    """An integer of 64 bits, 7 bits in each byte."""
    number &= 2**64 - 1
    content = b""
    while number > 127:
        content += bytes([number & 127 | 128])
        number >>= 7
    return content + bytes([number])


def field(number, content):
    """A field of a message that has bytes."""
    return varint(number << 3 | 2) + varint(len(content)) + content


def feature(value):
    """A tf.train.Feature: bytes, a list of bytes, integers, or floats."""
    if isinstance(value, (bytes, str)):
        value = [value]
    if isinstance(value, list) and value and isinstance(value[0], (bytes, str)):
        texts = [text.encode() if isinstance(text, str) else text for text in value]
        return field(1, b"".join(field(1, text) for text in texts))
    array = np.atleast_1d(value)
    if array.dtype.kind == "f":
        return field(2, field(1, array.astype("<f4").tobytes()))
    return field(3, field(1, b"".join(varint(int(number)) for number in array)))


def example(**values):
    """A serialized tf.train.Example; `__` in a name stands for `/`."""
    entries = [
        field(1, field(1, name.replace("__", "/").encode()) + field(2, feature(value)))
        for name, value in values.items()
    ]
    return field(1, b"".join(entries))


def record(content):
    """A record of a TFRecord file, with its length and its checksums."""
    length = struct.pack("<Q", len(content))
    checksums = [struct.pack("<I", masked_crc32c(part)) for part in (length, content)]
    return length + checksums[0] + content + checksums[1]


def records(*contents):
    return b"".join(map(record, contents))


def png(value, width=4, height=3, mode="L"):
    """The bytes of a PNG file of one colour."""
    stream = io.BytesIO()
    Image.new(mode, (width, height), value).save(stream, "PNG")
    return stream.getvalue()
