"""Which tests run when, how two Pythons share them, and how many workers run them."""

import glob
import os
import re

import pytest
import tiers
from file_fixtures import REPOSITORY, read_text

# What a test asks about the Python or the TensorFlow that runs it, before it skips itself.
SKIP_OF_A_VERSION = re.compile(
    r"^ *if [^\n]*(?:version_info|__version__|VERSION|HAS_XLA)[^\n]*:\n *pytest\.skip", re.M
)


class Item:
    """What pytest knows of a test, as far as tiers need it."""

    def __init__(self, nodeid, *markers):
        self.nodeid = nodeid
        self.markers = markers

    def get_closest_marker(self, name):
        return self if name in self.markers else None


SECONDS = {f"tests/test_{k}.py::test_dear": 1.0 + k for k in range(10)}
DEAR = [Item(f"tests/test_{k}.py::test_dear[{p}]") for k in range(10) for p in "ab"]


@pytest.fixture
def measured(monkeypatch):
    """Seconds of the tests above; nothing is picked, long or for both."""
    monkeypatch.setattr(tiers, "read_seconds", lambda: SECONDS)
    for name in ("PICKED", "LONG", "BOTH"):
        monkeypatch.setattr(tiers, name, ())


def names(items):
    return [item.nodeid for item in items]


@pytest.mark.parametrize("landing", [0, 7])
def test_each_file_is_tested_by_one_of_two_pythons(measured, landing):
    first, rest = tiers.select(DEAR, ["ci"], f"1/2:{landing}")
    second, _ = tiers.select(DEAR, ["ci"], f"2/2:{landing}")
    assert names(rest) == names(second)
    files = [{tiers.file_of(item) for item in part} for part in (first, second)]
    assert files[0] and files[1] and not files[0] & files[1]


def test_what_one_python_skips_or_both_need_is_in_both_shares(measured, monkeypatch):
    monkeypatch.setattr(tiers, "BOTH", ("tests/test_1.py",))
    items = [*DEAR, Item("tests/test_2.py::test_dear[c]", "skipif")]
    for share in ("1/2", "2/2"):
        chosen = names(tiers.select(items, ["ci"], share)[0])
        assert {"tests/test_1.py::test_dear[a]", "tests/test_2.py::test_dear[c]"} < set(chosen)


def test_what_one_python_skips_says_so_by_a_marker():
    files = glob.glob(os.path.join(REPOSITORY, "tests", "**", "*.py"), recursive=True)
    for path in files:
        found = SKIP_OF_A_VERSION.search(read_text(path))
        assert found is None, f"{path}: use pytest.mark.skipif, which tiers.py reads"


def test_each_listed_name_is_one_of_a_test():
    listed = [*tiers.read_seconds(), *tiers.PICKED, *tiers.LONG, *tiers.BOTH, *tiers.SHARING]
    assert [name for name in listed if not tiers.is_there(name)] == []
