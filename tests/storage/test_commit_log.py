"""The commit log: its contents, the damage that it detects, and the entries that it refuses."""

import functools
import hashlib
import json

import pytest

from toolkit.storage.commit_log import NO_HASH, Checkpoint, CommitLog, retention_rule
from toolkit.storage.jsonl import FileDigest

EMPTY = {"bytes": 0, "sha256": hashlib.sha256(b"").hexdigest()}


def commit(step, steps, **more):
    values = {
        "step": step,
        "time": 100.0,
        "kept": steps,
        "tensors": f"t{step}",
        "files": {f"model.ckpt-{step}.index": {"bytes": 9, "sha256": "f"}},
        "metrics": EMPTY,
    }
    return dict(values, **more)


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


def test_an_empty_log_has_the_initial_head_and_no_checkpoints(reopen):
    assert (reopen().head(), reopen().checkpoints(), reopen().faults()) == (NO_HASH, [], [])


def test_added_entries_are_read_back(log, reopen):
    other = reopen()
    assert other.faults() == []
    assert other.entries() == log.entries() and other.head() == log.head()
    checkpoint = other.checkpoints()[-1]
    assert (checkpoint.step, checkpoint.path, checkpoint.time, checkpoint.tensors) == (
        6,
        "prefix-6",
        100.0,
        "t6",
    )
    assert checkpoint.files == {"model.ckpt-6.index": FileDigest(9, "f")}
    assert checkpoint.metrics == FileDigest(0, EMPTY["sha256"])


def test_the_last_entry_decides_which_checkpoints_exist(log, reopen):
    assert steps(reopen()) == [4, 6]
    log.add("session", **{"from": 4, "kept": [4]})
    assert steps(reopen()) == [4]


def test_a_step_without_a_commit_is_no_checkpoint_even_if_an_entry_lists_it(log):
    log.add("session", **{"from": 6, "kept": [5, 6]})
    assert steps(log) == [6]


def test_the_last_commit_of_a_step_counts(log, reopen):
    log.add("session", **{"from": 4, "kept": [4]})
    log.add("commit", **commit(6, [4, 6], tensors="again"))
    assert [checkpoint.tensors for checkpoint in reopen().checkpoints()] == ["t4", "again"]


def test_the_commit_of_a_deleted_checkpoint_can_still_be_found(log):
    assert log.find_commit(2).tensors == "t2"
    assert log.find_commit(3) is None


def test_the_files_of_all_commits_are_listed(log):
    assert log.file_names() == {f"model.ckpt-{step}.index" for step in (2, 4, 6)}


def test_sessions_are_listed_in_order(log):
    log.add("session", **{"from": 6, "kept": [6]})
    assert [session["from"] for session in log.sessions()] == [0, 6]


def test_a_partial_last_line_is_ignored(log, path, reopen):
    path.write_bytes(path.read_bytes()[:-1])
    assert steps(reopen()) == [2, 4]
    assert reopen().faults() == []


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_a_changed_byte_in_any_entry_is_reported_with_its_number(log, path, reopen, number):
    texts = path.read_text().splitlines()
    for place in range(0, len(texts[number - 1]), 7):
        changed = list(texts)
        text = changed[number - 1]
        changed[number - 1] = text[:place] + chr(ord(text[place]) ^ 1) + text[place + 1 :]
        write(path, changed)
        faults = reopen().faults()
        assert f"entry {number} has changed since it was written" == faults[0]


def test_a_changed_last_entry_does_not_affect_those_before_it(log, path, reopen):
    path.write_bytes(path.read_bytes().replace(b'"t6"', b'"t7"'))
    assert steps(reopen()) == [2, 4]


def test_bytes_that_are_not_utf8_are_a_changed_entry(log, path, reopen):
    path.write_bytes(path.read_bytes().replace(b'"t4"', b'"\xff4"'))
    assert reopen().faults() == ["entry 3 has changed since it was written"]


FOLLOWS = "does not follow the entry before it: entries were removed, inserted or moved"


@pytest.mark.parametrize(
    "order, faults",
    [
        ([1, 3, 4], [2]),  # one removed
        ([2, 3, 4], [1]),
        ([1, 2, 2, 3, 4], [3]),  # one twice
        ([1, 3, 2, 4], [2, 3, 4]),  # two moved
        ([1, 2, 3, 4, 4], [5]),
    ],
)
def test_removed_duplicated_and_moved_entries_are_reported(log, path, reopen, order, faults):
    texts = path.read_text().splitlines()
    write(path, [texts[number - 1] for number in order])
    assert reopen().faults() == [f"entry {number} {FOLLOWS}" for number in faults]


def test_an_inserted_empty_line_is_reported(log, path, reopen):
    texts = path.read_text().splitlines()
    write(path, texts[:2] + [""] + texts[2:])
    assert reopen().faults()[0] == "entry 3 has changed since it was written"


def test_an_entry_added_to_a_damaged_log_follows_its_last_entry(log, path, reopen):
    path.write_bytes(path.read_bytes().replace(b'"t4"', b'"t5"'))
    reopen().add("session", **{"from": 6, "kept": [6]})
    assert reopen().faults() == ["entry 3 has changed since it was written"]
    assert steps(reopen()) == [6]


UNSOUND = [
    commit("2", [2]),
    commit(True, [1]),
    commit(-2, []),
    commit(2.0, [2]),
    commit(2**70, []),
    commit(2, 2),
    commit(2, "2"),
    commit(2, {}),
    commit(2, [True]),
    commit(2, [-2]),
    commit(2, [[2]]),
    commit(2, None),
    commit(2, [2], time=None),
    commit(2, [2], time=True),
    commit(2, [2], time=float("nan")),
    commit(2, [2], time=10**400),
    commit(2, [2], tensors=7),
    commit(2, [2], metrics=None),
    commit(2, [2], metrics={"bytes": 0}),
    commit(2, [2], metrics={"bytes": -1, "sha256": ""}),
    commit(2, [2], metrics={"bytes": True, "sha256": ""}),
    commit(2, [2], metrics={"bytes": 0, "sha256": 0}),
    commit(2, [2], metrics={"bytes": 0, "sha256": "", "more": 0}),
    commit(2, [2], files=[]),
    commit(2, [2], files={"model.ckpt-2.index": None}),
    commit(2, [2], files={"model.ckpt-2.index": {"bytes": "1", "sha256": ""}}),
    commit(2, [2], files={"model.ckpt-2.index": {"bytes": -1, "sha256": ""}}),
    {"kept": []},
    {"from": "0", "kept": []},
    {"from": -1, "kept": []},
    {"from": 0},
    {"from": 0, "kept": [], "options": []},
]


@pytest.mark.parametrize("values", UNSOUND)
def test_an_entry_with_wrong_types_is_refused_even_if_its_hash_is_right(path, reopen, values):
    kind = "commit" if "step" in values else "session"
    write(path, [line(dict(values, kind=kind), NO_HASH)])
    assert reopen().faults() == ["entry 1 is not in the format of this version"]
    assert reopen().checkpoints() == [] and reopen().sessions() == []


@pytest.mark.parametrize(
    "name",
    [
        "../../x",
        "model.ckpt-2./../../x",
        "model.ckpt-2.\\x",
        "model.ckpt-20.index",
        "model.ckpt-3.index",
        "/etc/passwd",
        "model.ckpt-2.\0",
        "model.ckpt-2.index\n",
        "model.ckpt-2.\ud800",
        "model.ckpt-2." + "x" * 300,
        "",
    ],
)
def test_a_file_in_another_folder_or_of_another_step_is_refused(path, reopen, name):
    files = {name: {"bytes": 1, "sha256": "f"}}
    write(path, [line(dict(commit(2, [2], files=files), kind="commit"), NO_HASH)])
    assert reopen().faults() == ["entry 1 is not in the format of this version"]


@pytest.mark.parametrize(
    "values",
    [
        {"plugins": {"linear": "abc"}},
        {"plugins": {"linear": None}},
        {"plugins": []},
        {"model": "linear"},
        {"model": []},
        {"options": None},
        {"data": functools.reduce(lambda value, _: {"a": value}, range(300), {})},
    ],
)
def test_a_session_whose_values_have_another_type_is_refused(path, reopen, values):
    write(path, [line(dict({"kind": "session", "from": 0, "kept": []}, **values), NO_HASH)])
    assert reopen().faults() == ["entry 1 is not in the format of this version"]


def test_an_entry_of_another_kind_is_refused(path, reopen):
    for kind in ("other", None, [], {}):
        write(path, [line(dict(commit(2, [2]), kind=kind), NO_HASH)])
        assert reopen().faults() == ["entry 1 is not in the format of this version"]


@pytest.mark.parametrize("text", ["", "[" * 100000, '{"a":' * 100000, '{"previous": ' + "9" * 9999])
def test_nonsense_with_a_right_hash_is_refused(path, reopen, text):
    digest = hashlib.sha256(text.encode()).hexdigest()
    write(path, [f'{text}, "hash": "{digest}"}}'])
    assert reopen().faults() == ["entry 1 is not in the format of this version"]


def test_entries_of_another_process_are_read_after_the_cache_is_invalidated(log, reopen):
    other = reopen()
    assert steps(other) == [4, 6]
    log.add("session", **{"from": 4, "kept": [4]})
    other.invalidate_cache()
    other.add("commit", **commit(8, [4, 8]))
    assert reopen().faults() == [] and steps(reopen()) == [4, 8]


def test_an_entry_that_could_not_be_written_does_not_count(log, reopen, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("toolkit.storage.jsonl.JsonLines.append_line", full)
    with pytest.raises(OSError):
        log.add("commit", **commit(8, [8]))
    monkeypatch.undo()
    assert steps(log) == [4, 6]
    log.add("commit", **commit(8, [8]))
    assert reopen().faults() == [] and steps(reopen()) == [8]


def checkpoints_at(*hours):
    return [Checkpoint(i, "", hour * 3600.0, {}) for i, hour in enumerate(hours)]


def steps_kept_by(rule, *hours):
    return sorted(set(rule(checkpoints_at(*hours))))


def test_retention_keeps_the_newest_and_those_named():
    assert steps_kept_by(retention_rule(2, None), 0, 1, 2, 3) == [2, 3]
    assert steps_kept_by(retention_rule(2, None, [0]), 0, 1, 2, 3) == [0, 2, 3]
    assert steps_kept_by(retention_rule(9, None), 0, 1) == [0, 1]
    assert steps_kept_by(retention_rule(1, 1.0)) == []


def test_hours_count_from_the_last_checkpoint_that_retention_keeps():
    assert steps_kept_by(retention_rule(1, 1.0), 0, 0.9, 1.8, 1.9, 2.8, 2.9) == [0, 2, 4, 5]


def test_a_clock_that_is_set_back_starts_a_new_count():
    # From 10 back to 2: the next after an hour from there is the one at 3.
    assert steps_kept_by(retention_rule(1, 1.0), 9, 10, 2, 2.5, 3, 3.5, 3.6) == [0, 1, 4, 6]


def test_applying_retention_after_each_commit_keeps_the_same_checkpoints():
    rule = retention_rule(1, 1.0)
    everything = checkpoints_at(0, 0.5, 1.1, 1.2, 2.2, 2.3)
    remaining = []
    for checkpoint in everything:
        remaining.append(checkpoint)
        retained_steps = set(rule(remaining))
        remaining = [each for each in remaining if each.step in retained_steps]
    assert [checkpoint.step for checkpoint in remaining] == sorted(set(rule(everything)))
