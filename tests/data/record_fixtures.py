"""Writes TFRecord files with any content."""

import io
import struct

import numpy as np
from PIL import Image

from toolkit import tf


def masked_crc32c(content):
    """The checksum of TFRecord files."""
    crc = 0xFFFFFFFF
    for byte in content:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def feature(value):
    """A tf.train.Feature: bytes or a text, a list of them, integers, or floats."""
    values = value if isinstance(value, list) else np.atleast_1d(value).tolist()
    if isinstance(value, (bytes, str)):
        values = [value]  # which NumPy would cut at its zeros
    if values and isinstance(values[0], (bytes, str)):
        texts = [text.encode() if isinstance(text, str) else text for text in values]
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=texts))
    if values and isinstance(values[0], float):
        return tf.train.Feature(float_list=tf.train.FloatList(value=values))
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def example(**values):
    """A serialized tf.train.Example; `__` in a name stands for `/`."""
    features = {name.replace("__", "/"): feature(value) for name, value in values.items()}
    whole = tf.train.Example(features=tf.train.Features(feature=features))
    return whole.SerializeToString(deterministic=True)


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
