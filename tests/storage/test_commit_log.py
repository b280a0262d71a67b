"""The commit log: its contents, the damage that it detects, and the entries that it refuses."""

import hashlib
import json

import pytest
from folder_fixtures import fill_disk

from toolkit.storage.commit_log import NO_HASH, Checkpoint, CommitLog, retained_steps
from toolkit.storage.jsonl import FileDigest

EMPTY = {"bytes": 0, "sha256": hashlib.sha256(b"").hexdigest()}


def commit(step, steps, **more):
    values = {"step": step, "time": 100.0, "kept": steps, "tensors": f"t{step}", "metrics": EMPTY}
    files = {f"model.ckpt-{step}.index": {"bytes": 9, "sha256": "f"}}
    return {**values, "files": files, **more}


def line(values, previous):
    """A valid line, built without the module."""
    body = json.dumps(dict(values, previous=previous))[:-1]
    return f'{body}, "hash": "{hashlib.sha256(body.encode()).hexdigest()}"}}'


@pytest.fixture
def path(tmp_path):
    return tmp_path / "commits.jsonl"


@pytest.fixture
def reopen(path):
    """Opens the log again, as another process would."""
    return lambda: CommitLog(str(path), "prefix-{}".format)


@pytest.fixture
def log(reopen):
    """A session, and commits of steps 2, 4 and 6, of which the last keeps 4 and 6."""
    log = reopen()
    log.add("session", **{"from": 0, "kept": []})
    log.add("commit", **commit(2, [2]))
    log.add("commit", **commit(4, [2, 4]))
    log.add("commit", **commit(6, [4, 6]))
    return log


def steps(commits):
    return [checkpoint.step for checkpoint in commits.checkpoints()]


def write(path, texts):
    path.write_bytes("".join(text + "\n" for text in texts).encode("utf-8", "surrogateescape"))


def test_each_entry_ends_in_its_hash_and_contains_that_of_the_entry_before(log, path):
    texts = path.read_text().splitlines()
    previous = "0" * 64
    for text in texts:
        body, _, end = text.rpartition(', "hash": ')
        assert end == f'"{hashlib.sha256(body.encode("ascii")).hexdigest()}"}}'
        assert json.loads(text)["previous"] == previous
        previous = json.loads(text)["hash"]
    assert len(texts) == 4 and log.head() == previous


def test_added_entries_are_read_back(log, reopen):
    log.add("session", **{"from": 6, "kept": [4, 6]})
    other = reopen()
    assert other.faults() == []
    assert other.entries() == log.entries() and other.head() == log.head()
    checkpoint = other.checkpoints()[-1]
    assert (checkpoint.step, checkpoint.path, checkpoint.time) == (6, "prefix-6", 100.0)
    assert checkpoint.files == {"model.ckpt-6.index": FileDigest(9, "f")}
    assert checkpoint.metrics == FileDigest(0, EMPTY["sha256"])
    assert [session["from"] for session in other.sessions()] == [0, 6]
    assert other.find_commit(2).tensors == "t2"  # of a deleted checkpoint
    assert other.find_commit(3) is None


def test_a_changed_byte_is_reported_with_the_number_of_its_entry(log, path, reopen):
    texts = path.read_text().splitlines()
    text = texts[1]
    for place in range(0, len(text), 7):
        texts[1] = text[:place] + chr(ord(text[place]) ^ 1) + text[place + 1 :]
        write(path, texts)
        assert reopen().faults()[0] == "entry 2 has changed since it was written"


@pytest.mark.parametrize("changed", [b'"t7"', b'"\xff6"'])
def test_a_changed_last_entry_does_not_affect_those_before_it(log, path, reopen, changed):
    path.write_bytes(path.read_bytes().replace(b'"t6"', changed))
    assert steps(reopen()) == [2, 4]
    assert reopen().faults() == ["entry 4 has changed since it was written"]


FOLLOWS = "does not follow the entry before it: entries were removed, inserted or moved"


@pytest.mark.parametrize(
    "order, faults",
    [
        ([2, 3, 4], [1]),  # one removed
        ([1, 2, 2, 3, 4], [3]),  # one twice
        ([1, 3, 2, 4], [2, 3, 4]),  # two moved
    ],
)
def test_removed_duplicated_and_moved_entries_are_reported(log, path, reopen, order, faults):
    texts = path.read_text().splitlines()
    write(path, [texts[number - 1] for number in order])
    assert reopen().faults() == [f"entry {number} {FOLLOWS}" for number in faults]


def test_an_entry_added_to_a_damaged_log_follows_its_last_entry(log, path, reopen):
    path.write_bytes(path.read_bytes().replace(b'"t4"', b'"t5"'))
    reopen().add("session", **{"from": 6, "kept": [6]})
    assert reopen().faults() == ["entry 3 has changed since it was written"]
    assert steps(reopen()) == [6]


FILE_NAMES = "model.ckpt-2./../../x", "model.ckpt-20.index", "model.ckpt-2.\0", "model.ckpt-2.x\n"
UNSOUND = [
    commit("2", []),
    commit(2, None),
    *(commit(2, [2], kind=kind) for kind in ("other", None, [])),
    *(commit(2, [2], files={name: {"bytes": 1, "sha256": "f"}}) for name in FILE_NAMES),
    {"kind": "session", "from": 0},
    {"kind": "session", "from": 0, "kept": [], "sources": {"a": {"folder": "../x-12345678"}}},
]


@pytest.mark.parametrize("values", UNSOUND)
def test_an_entry_with_wrong_types_is_refused_even_if_its_hash_is_right(path, reopen, values):
    write(path, [line({"kind": "commit", **values}, NO_HASH)])
    assert reopen().faults() == ["entry 1 is not in the format of this version"]
    assert reopen().checkpoints() == [] and reopen().sessions() == []


def test_nonsense_with_a_right_hash_is_refused(path, reopen):
    write(path, [', "hash": "{sha256}"}}'.format(**EMPTY)])
    assert reopen().faults() == ["entry 1 is not in the format of this version"]


def test_an_entry_that_could_not_be_written_does_not_count(log, reopen, monkeypatch):
    with monkeypatch.context() as patch, pytest.raises(OSError):
        patch.setattr("toolkit.storage.jsonl.JsonLines.append_line", fill_disk)
        log.add("commit", **commit(8, [8]))
    assert steps(log) == [4, 6]
    log.add("commit", **commit(8, [8]))
    assert reopen().faults() == [] and steps(reopen()) == [8]


@pytest.mark.parametrize(
    "keep, every, hours, kept",
    [
        (2, None, [0, 1, 2, 3], {2, 3}),
        (9, None, [0, 1], {0, 1}),
        (1, 1.0, [], set()),
        # An hour counts from the last checkpoint that is kept.
        (1, 1.0, [0, 0.9, 1.8, 1.9, 2.8, 2.9], {0, 2, 4, 5}),
        # The clock was set back from 10 to 2: the next after an hour from there is the one at 3.
        (1, 1.0, [9, 10, 2, 2.5, 3, 3.5, 3.6], {0, 1, 4, 6}),
    ],
)
def test_retention_keeps_the_newest_and_one_per_hour(keep, every, hours, kept):
    checkpoints = [Checkpoint(i, "", hour * 3600.0, {}) for i, hour in enumerate(hours)]
    assert retained_steps(checkpoints, keep, every) == kept
