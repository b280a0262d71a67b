"""Makes the fixtures of this folder importable, also in the processes that its tests start."""

import os
import sys

sys.path.insert(0, os.path.dirname(__file__))
