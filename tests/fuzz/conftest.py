"""Puts the folders of the fuzz tests and of the tests of data on the path, for shared modules."""

import os
import sys

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [FOLDER, os.path.join(os.path.dirname(FOLDER), "data")]
