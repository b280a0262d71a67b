"""Writes TFRecord files with any content."""

import io
import os
import tempfile

import numpy as np
from PIL import Image

from toolkit import tf


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


def records(*contents):
    """The bytes of a TFRecord file."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "records")
        with tf.io.TFRecordWriter(path) as writer:
            for content in contents:
                writer.write(content)
        with open(path, "rb") as file:
            return file.read()


def png(value, width=4, height=3, mode="L"):
    """The bytes of a PNG file of one colour."""
    stream = io.BytesIO()
    Image.new(mode, (width, height), value).save(stream, "PNG")
    return stream.getvalue()
