"""Write the committed run of the present TensorFlow version: python tests/versions/make.py

A linear model after 4 of 8 steps, with Adam's slots. The test in this folder resumes the runs of
both versions on either.
"""

import os
import shutil
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

from linear_fixtures import Linear, write_bars  # noqa: E402

from toolkit import compat, testing  # noqa: E402


def main():
    folder = tempfile.mkdtemp()
    os.chdir(folder)
    write_bars("bars.npz")
    testing.train(Linear, "run", data="npz:bars.npz", steps=4, evaluate="no", keep_checkpoints=1)
    target = os.path.join(HERE, compat.VERSION_FAMILY)
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree("run", target, ignore=shutil.ignore_patterns("events", ".lock"))
    shutil.rmtree(folder)


main()
