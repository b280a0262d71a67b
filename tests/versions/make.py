"""Write the committed run of the TensorFlow line that executes this: python tests/versions/make.py

A linear model after 4 of 8 steps, with Adam's slots. The test beside this resumes the runs of both
lines on either.
"""

import os
import shutil
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

from helpers import Linear, write_bars  # noqa: E402

from toolkit import compat, testing  # noqa: E402


def main():
    place = tempfile.mkdtemp()
    os.chdir(place)
    write_bars("bars.npz")
    testing.train(Linear, "run", data="npz:bars.npz", steps=4, evaluate="no", keep=1)
    target = os.path.join(HERE, compat.LINE)
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree("run", target, ignore=shutil.ignore_patterns("events", ".lock"))
    shutil.rmtree(place)


main()
