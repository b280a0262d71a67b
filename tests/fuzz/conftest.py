"""Puts the folder of the fuzz tests on the path, for their shared modules."""

import os
import sys

sys.path.insert(0, os.path.dirname(__file__))
