"""The files that the workers of pytest-xdist begin with, and the shares of CI's two Pythons."""

from __future__ import annotations

import glob
import os
import re

import pytest
from file_fixtures import REPOSITORY
from share_fixtures import DIVIDED, SPREAD, WHOLE, leave_out_others, read_share


def test_the_long_files_exist():
    files = pytest.importorskip("schedule_fixtures").LONG_FILES
    missing = [file for file in files if not os.path.isfile(os.path.join(REPOSITORY, file))]
    assert files and missing == []


class Item:
    """What pytest knows of a test, as far as shares need it."""

    def __init__(self, nodeid, *markers):
        self.nodeid = nodeid
        self.markers = markers

    def get_closest_marker(self, name):
        return self if name in self.markers else None


class Config:
    """What pytest calls when tests are left out."""

    def __init__(self):
        self.hook = self
        self.left_out = []

    def pytest_deselected(self, items):
        self.left_out = [item.nodeid for item in items]


QUICK = [Item(f"tests/graph/test_a.py::test_{k}") for k in range(40)]
SLOW = [Item(f"tests/graph/test_b.py::test_{k}", "slow") for k in range(40)]
PAGES = [Item(f"{DIVIDED[0]}test_c.py::test_{name}[page{k}]") for k in range(40) for name in "ab"]


ON_ONE_PYTHON = [
    *[Item(f"tests/graph/test_d.py::test_{k}", "slow", "skipif") for k in range(40)],
    *[Item(f"{DIVIDED[0]}test_d.py::test_{k}[on]", "skipif") for k in range(40)],
    *[Item(f"{DIVIDED[0]}test_e.py::test_{k}[builds-for-xla]") for k in range(40)],
]
# What a test asks about the Python or the TensorFlow that runs it, before it skips itself.
SKIP_OF_A_VERSION = re.compile(
    r"^ *if [^\n]*(?:version_info|__version__|VERSION|HAS_XLA)[^\n]*:\n *pytest\.skip", re.M
)


def select(share, monkeypatch, tests=(*QUICK, *SLOW, *PAGES)):
    """The tests that remain, and those that are left out."""
    if share:
        monkeypatch.setenv("CI_TEST_SHARE", share)
    else:
        monkeypatch.delenv("CI_TEST_SHARE", raising=False)
    config, items = Config(), list(tests)
    leave_out_others(config, items)
    return [item.nodeid for item in items], config.left_out


def test_without_a_share_no_test_is_left_out(monkeypatch):
    assert select("", monkeypatch) == ([item.nodeid for item in [*QUICK, *SLOW, *PAGES]], [])


def test_each_divided_test_is_in_one_share_and_every_other_test_in_both(monkeypatch):
    first, without_first = select("1/2", monkeypatch)
    second, without_second = select("2/2", monkeypatch)
    assert set(first) & set(second) == {item.nodeid for item in QUICK}
    assert set(without_first) == set(second) - set(first)
    assert set(without_second) == set(first) - set(second)


def test_each_share_has_about_half_of_the_divided_tests(monkeypatch):
    first, _ = select("1/2", monkeypatch)
    divided = len(SLOW) + len(PAGES)
    assert 0.3 * divided < len(first) - len(QUICK) < 0.7 * divided


def test_the_tests_of_one_parameter_stay_together(monkeypatch):
    first, _ = select("1/2", monkeypatch)
    for k in range(40):
        assert len([name for name in first if name.endswith(f"[page{k}]")]) in (0, 2)


def test_the_tests_of_one_parameter_are_spread_in_some_files(monkeypatch):
    tests = [Item(f"{SPREAD[0]}test_f.py::test_{k}[preset]") for k in range(40)]
    first, left_out = select("1/2", monkeypatch, tests)
    assert 10 < len(first) < 30 and 10 < len(left_out) < 30
    assert select("2/2", monkeypatch, tests) == (left_out, first)


@pytest.mark.parametrize("share", ["1/2", "2/2"])
def test_what_one_python_skips_is_in_both_shares(share, monkeypatch):
    remaining, left_out = select(share, monkeypatch, ON_ONE_PYTHON)
    assert (len(remaining), left_out) == (120, [])


def test_each_share_has_all_tests_of_exact_resume(monkeypatch):
    tests = [Item(f"{WHOLE}::test_{k}[stream]", "slow") for k in range(40)]
    for share in ("1/2", "2/2"):
        assert select(share, monkeypatch, tests)[1] == []
    assert os.path.isfile(os.path.join(REPOSITORY, WHOLE))


def test_what_one_python_skips_says_so_by_a_marker():
    files = glob.glob(os.path.join(REPOSITORY, "tests", "**", "*.py"), recursive=True)
    assert len(files) > 100
    for path in files:
        with open(path, encoding="utf-8") as file:
            found = SKIP_OF_A_VERSION.search(file.read())
        assert found is None, f"{path}: use pytest.mark.skipif, which share_fixtures.py reads"


@pytest.mark.parametrize("text", ["0/2", "3/2", "2", "a/b", "1/2/3"])
def test_a_text_that_is_no_share_is_refused(text):
    with pytest.raises(ValueError):
        read_share(text)


def test_the_divided_rooms_exist():
    rooms = (*DIVIDED, *SPREAD)
    missing = [room for room in rooms if not os.path.exists(os.path.join(REPOSITORY, room))]
    assert missing == []
