"""The resident reader has its examples in memory once, also while it loads them."""

from __future__ import annotations

import os

import numpy as np
import process_fixtures
import pytest

from toolkit import tf
from toolkit.data.examples import Split
from toolkit.data.readers import resident
from toolkit.data.readers.resident import ResidentReader

MEGABYTE = 1 << 20

_PROGRAM = """
import sys
import numpy as np
from toolkit import tf
from toolkit.data.examples import Split
from toolkit.data.readers.resident import ResidentReader

def anonymous():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("RssAnon")) * 1024

split = Split(np.load(sys.argv[1], mmap_mode="r"))
reader = ResidentReader(split.subset(np.arange(len(split))), 2)
features, _ = reader.batch(tf.constant(0, tf.int64))
with tf.Session() as session:
    session.run(tf.constant(1))
    before = anonymous()
    reader.initialize(session)
    assert session.run(features).max() == 1
    print(anonymous() - before)
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="needs /proc")
def test_loading_takes_the_memory_of_the_examples_once(tmp_path):
    size = 192 * MEGABYTE
    np.save(str(tmp_path / "rows.npy"), np.full((192, 1024, 1024, 1), 255, np.uint8))
    ended = process_fixtures.run(tmp_path / "rows.npy", statements=_PROGRAM)
    assert size / 2 < int(ended.out) < size * 1.5, ended.err


@pytest.mark.parametrize("num_bytes", [1, 24, 25, 1000])
def test_examples_are_loaded_part_by_part(graph, monkeypatch, num_bytes):
    monkeypatch.setattr(resident, "LOAD_BYTES", num_bytes)  # an example has 12
    pixels = np.arange(60, dtype=np.uint8).reshape(5, 2, 6, 1)
    split = Split({"image": pixels, "text": ["a", "bc", "", "d", "e"]}, np.arange(5))
    reader = ResidentReader(split.subset(np.array([4, 0, 2, 3])), 4, shuffle=False)
    features, labels = reader.batch(tf.constant(0, tf.int64))
    with tf.Session() as session:
        reader.initialize(session)
        features, labels = session.run([features, labels])
    assert np.allclose(features["image"] * 255, pixels[[4, 0, 2, 3]])
    assert features["text"].tolist() == [b"e", b"a", b"", b"d"] and labels.tolist() == [4, 0, 2, 3]
