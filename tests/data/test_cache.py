"""`toolkit cache`: what the cache holds, and its removal; nothing else is touched."""

import os

import numpy as np
import pytest
from process_fixtures import fork_idle

from toolkit.data.files.cache import CacheEntry, open_entry, remove_entries
from toolkit.storage.folder_lock import FolderLock, is_locked


def decode():
    """Write 40 images of 8 x 8 into the cache, as those that were decoded."""
    rows = np.zeros([40, 8, 8], np.uint8)
    open_entry("decoded", "images", lambda folder: np.save(folder + "/rows.npy", rows))


@pytest.fixture
def cache(here, cache):
    """A cache with decoded images, a data set, and a file and a folder of somebody else."""
    decode()
    names = "mnist/t10k-images-idx3-ubyte.gz", "fashion-mnist/mine", "features/one/b", "mine/c"
    for name in names:
        path = cache / name
        os.makedirs(str(path.parent), exist_ok=True)
        path.write_bytes(b"12345")
    (cache / "notes.txt").write_bytes(b"mine")
    return cache


def names(cli):
    return [entry["name"] for entry in cli("cache", "list", "--json").json()]


def test_the_list_has_entries_with_their_sizes(cli, cache):
    entries = cli("cache", "list", "--json").json()
    images = os.listdir(str(cache / "decoded"))[0]
    assert [e["name"] for e in entries] == [f"decoded/{images}", "features/one", "mnist"]
    assert [e["num_bytes"] for e in entries[1:]] == [5, 5] and entries[0]["num_bytes"] > 2560
    assert str(cache) in cli("cache", "list").out


def test_an_entry_is_removed_by_its_name_and_a_group_by_its_own(cli, cache):
    assert cli("cache", "clear", "mnist").out == "removed 1 entries, 5 bytes\n"
    assert cli("cache", "clear", "decoded/").code == 0
    assert names(cli) == ["features/one"]
    decode()
    assert len(names(cli)) == 2


@pytest.mark.parametrize(
    "arguments, text",
    [
        *((["mnist", name], "The cache has no") for name in ("mine", "/", "decoded/../mine")),
        (["mnist", "--all"], "--all"),
        ([], "--all"),
    ],
)
def test_other_names_are_refused_and_nothing_is_removed(cli, cache, arguments, text):
    cli.refuse(2, text, "cache", "clear", *arguments)
    assert len(names(cli)) == 3 and (cache / "mine" / "c").exists()


def test_all_is_what_the_toolkit_wrote_and_no_process_uses(cli, cache):
    lock = FolderLock(str(cache / "mnist"))
    lock.acquire()
    result = cli("cache", "clear", "--all")
    lock.release()
    assert (result.code, names(cli)) == (0, ["mnist"])
    assert result.out.startswith("removed 2 entries") and "mnist stays: a process" in result.err
    assert cli("cache", "clear", "--all").code == 0
    assert names(cli) == [] and (cache / "mine" / "c").exists() and (cache / "notes.txt").exists()


def test_what_a_process_begins_to_use_meanwhile_stays(cache):
    first, second = (CacheEntry(name, 5, 0) for name in ("features/one", "mnist"))

    def is_locked(path):
        return not (cache / "features" / "one").exists()  # from the first removal on

    removed, in_use = remove_entries([first, second], ["features/one", "mnist"], is_locked)
    assert (removed, in_use) == ([first], [second]) and (cache / "mnist").exists()


def test_a_forked_process_that_outlives_the_building_does_not_keep_the_lock(cache):
    ends = []
    open_entry("decoded", "forking", lambda folder: ends.append(fork_idle()))
    is_used = is_locked(str(cache / "decoded" / "forking"))
    ends[0]()
    assert not is_used


def test_an_empty_cache_is_no_error(cli, here, monkeypatch):
    monkeypatch.setenv("TOOLKIT_CACHE", str(here / "none"))
    assert cli("cache", "list").out == f"   0 bytes  in {here / 'none'}\n"
    assert cli("cache", "clear", "--all").code == 0
    assert cli("cache", "clear", "decoded").code == 0
