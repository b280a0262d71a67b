"""Modules of `tf.contrib` that a script imports: stand-ins on 2.x, on 1.15 TensorFlow's own."""

import importlib

import pytest
from toolkit_adopt import standins

from toolkit import tf


@pytest.fixture
def contrib():
    """`tf.contrib` of a script."""
    with standins.installed():
        yield importlib.import_module("tensorflow").contrib


@pytest.fixture
def session():
    with tf.Graph().as_default(), tf.Session() as found:
        yield found


def test_tables_know_the_numbers_of_texts(contrib, session):
    lookup = contrib.lookup
    to_number = lookup.index_table_from_tensor(mapping=["a", "b"], default_value=9)
    to_text = lookup.index_to_string_table_from_tensor(["a", "b"], default_value="?")
    pairs = lookup.KeyValueTensorInitializer(tf.constant(["x"]), tf.constant([5], tf.int64))
    numbers = lookup.HashTable(pairs, -1).lookup(tf.constant(["x", "y"]))
    texts = to_text.lookup(to_number.lookup(tf.constant(["b", "c"])))
    session.run(tf.tables_initializer())
    assert session.run(texts).tolist() == [b"b", b"?"]
    assert session.run(numbers).tolist() == [5, -1]
