"""The chain of commits: what it says, what it notices, and what it refuses."""

import hashlib
import json

import pytest

from toolkit.storage.commit_log import NO_HASH, Checkpoint, CommitLog, retention_rule
from toolkit.storage.jsonl import FileDigest

EMPTY = {"bytes": 0, "sha256": hashlib.sha256(b"").hexdigest()}


def commit(step, kept, **more):
    values = {
        "step": step,
        "time": 100.0,
        "kept": kept,
        "tensors": f"t{step}",
        "files": {f"model.ckpt-{step}.index": {"bytes": 9, "sha256": "f"}},
        "metrics": EMPTY,
    }
    return dict(values, **more)


def line(values, previous):
    """A line as it should be, made without the module."""
    body = json.dumps(dict(values, previous=previous))[:-1]
    return f'{body}, "hash": "{hashlib.sha256(body.encode()).hexdigest()}"}}'


@pytest.fixture
def path(tmp_path):
    return tmp_path / "commits.jsonl"


@pytest.fixture
def opened(path):
    """Reads the chain anew."""
    return lambda: CommitLog(str(path), "prefix-{}".format)


@pytest.fixture
def chain(opened):
    """A session, and commits of steps 2, 4 and 6, of which the last keeps 4 and 6."""
    made = opened()
    made.add("session", **{"from": 0, "kept": []})
    made.add("commit", **commit(2, [2]))
    made.add("commit", **commit(4, [2, 4]))
    made.add("commit", **commit(6, [4, 6]))
    return made


def steps(commits):
    return [row.step for row in commits.checkpoints()]


def write(path, texts):
    path.write_bytes("".join(text + "\n" for text in texts).encode("utf-8", "surrogateescape"))


def test_each_line_ends_in_its_hash_and_names_that_of_the_line_before(chain, path):
    texts = path.read_text().splitlines()
    previous = "0" * 64
    for text in texts:
        body, _, end = text.rpartition(', "hash": ')
        assert end == f'"{hashlib.sha256(body.encode("ascii")).hexdigest()}"}}'
        assert json.loads(text)["previous"] == previous
        previous = json.loads(text)["hash"]
    assert len(texts) == 4 and chain.head() == previous


def test_a_chain_without_lines_has_the_first_head_and_no_checkpoints(opened):
    assert (opened().head(), opened().checkpoints(), opened().faults()) == (NO_HASH, [], [])


def test_what_was_added_is_read_back(chain, opened):
    read = opened()
    assert read.faults() == []
    assert read.entries() == chain.entries() and read.head() == chain.head()
    row = read.checkpoints()[-1]
    assert (row.step, row.path, row.time, row.tensors) == (6, "prefix-6", 100.0, "t6")
    assert row.files == {"model.ckpt-6.index": FileDigest(9, "f")}
    assert row.metrics == FileDigest(0, EMPTY["sha256"])


def test_the_last_line_decides_which_checkpoints_there_are(chain, opened):
    assert steps(opened()) == [4, 6]
    chain.add("session", **{"from": 4, "kept": [4]})
    assert steps(opened()) == [4]


def test_a_step_without_a_commit_is_no_checkpoint_though_it_is_kept(chain):
    chain.add("session", **{"from": 6, "kept": [5, 6]})
    assert steps(chain) == [6]


def test_the_last_commit_of_a_step_is_the_one_that_counts(chain, opened):
    chain.add("session", **{"from": 4, "kept": [4]})
    chain.add("commit", **commit(6, [4, 6], tensors="again"))
    assert [row.tensors for row in opened().checkpoints()] == ["t4", "again"]


def test_the_row_of_a_step_that_retention_removed_is_still_there(chain):
    assert chain.find_commit(2).tensors == "t2"
    assert chain.find_commit(3) is None


def test_the_files_of_all_commits_are_known(chain):
    assert chain.file_names() == {f"model.ckpt-{step}.index" for step in (2, 4, 6)}


def test_the_sessions_are_told_in_their_order(chain):
    chain.add("session", **{"from": 6, "kept": [6]})
    assert [session["from"] for session in chain.sessions()] == [0, 6]


def test_a_torn_last_line_makes_the_line_before_it_decide(chain, path, opened):
    path.write_bytes(path.read_bytes()[:-1])
    assert steps(opened()) == [2, 4]
    assert opened().faults() == []


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_a_changed_byte_in_any_line_is_told_with_its_number(chain, path, opened, number):
    texts = path.read_text().splitlines()
    for place in range(0, len(texts[number - 1]), 7):
        changed = list(texts)
        text = changed[number - 1]
        changed[number - 1] = text[:place] + chr(ord(text[place]) ^ 1) + text[place + 1 :]
        write(path, changed)
        faults = opened().faults()
        assert f"entry {number} has changed since it was written" == faults[0]


def test_a_changed_last_line_leaves_those_before_it(chain, path, opened):
    path.write_bytes(path.read_bytes().replace(b'"t6"', b'"t7"'))
    assert steps(opened()) == [2, 4]


def test_bytes_that_are_no_utf8_are_a_changed_line(chain, path, opened):
    path.write_bytes(path.read_bytes().replace(b'"t4"', b'"\xff4"'))
    assert opened().faults() == ["entry 3 has changed since it was written"]


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
def test_removed_duplicated_and_moved_lines_are_told(chain, path, opened, order, faults):
    texts = path.read_text().splitlines()
    write(path, [texts[number - 1] for number in order])
    assert opened().faults() == [f"entry {number} {FOLLOWS}" for number in faults]


def test_an_empty_line_put_in_is_told(chain, path, opened):
    texts = path.read_text().splitlines()
    write(path, texts[:2] + [""] + texts[2:])
    assert opened().faults()[0] == "entry 3 has changed since it was written"


def test_a_line_added_to_a_damaged_chain_follows_what_stands_there(chain, path, opened):
    path.write_bytes(path.read_bytes().replace(b'"t4"', b'"t5"'))
    opened().add("session", **{"from": 6, "kept": [6]})
    assert opened().faults() == ["entry 3 has changed since it was written"]
    assert steps(opened()) == [6]


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
def test_a_line_of_wrong_types_is_refused_though_its_hash_is_right(path, opened, values):
    kind = "commit" if "step" in values else "session"
    write(path, [line(dict(values, kind=kind), NO_HASH)])
    assert opened().faults() == ["entry 1 is not in the format of this version"]
    assert opened().checkpoints() == [] and opened().sessions() == []


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
def test_a_file_elsewhere_or_of_another_step_is_refused(path, opened, name):
    files = {name: {"bytes": 1, "sha256": "f"}}
    write(path, [line(dict(commit(2, [2], files=files), kind="commit"), NO_HASH)])
    assert opened().faults() == ["entry 1 is not in the format of this version"]


def test_the_kind_is_one_of_two(path, opened):
    for kind in ("other", None, [], {}):
        write(path, [line(dict(commit(2, [2]), kind=kind), NO_HASH)])
        assert opened().faults() == ["entry 1 is not in the format of this version"]


@pytest.mark.parametrize("text", ["", "[" * 100000, '{"a":' * 100000, '{"previous": ' + "9" * 9999])
def test_nonsense_with_a_right_hash_is_refused(path, opened, text):
    digest = hashlib.sha256(text.encode()).hexdigest()
    write(path, [f'{text}, "hash": "{digest}"}}'])
    assert opened().faults() == ["entry 1 is not in the format of this version"]


def test_what_another_process_added_is_read_after_forgetting(chain, opened):
    other = opened()
    assert steps(other) == [4, 6]
    chain.add("session", **{"from": 4, "kept": [4]})
    other.invalidate_cache()
    other.add("commit", **commit(8, [4, 8]))
    assert opened().faults() == [] and steps(opened()) == [4, 8]


def test_a_line_that_could_not_be_written_does_not_count(chain, opened, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("toolkit.storage.jsonl.JsonLines.append_line", full)
    with pytest.raises(OSError):
        chain.add("commit", **commit(8, [8]))
    monkeypatch.undo()
    assert steps(chain) == [4, 6]
    chain.add("commit", **commit(8, [8]))
    assert opened().faults() == [] and steps(opened()) == [8]


def rows(*hours):
    return [Checkpoint(i, "", hour * 3600.0, {}) for i, hour in enumerate(hours)]


def kept(rule, *hours):
    return sorted(set(rule(rows(*hours))))


def test_the_newest_and_those_named_are_retained():
    assert kept(retention_rule(2, None), 0, 1, 2, 3) == [2, 3]
    assert kept(retention_rule(2, None, [0]), 0, 1, 2, 3) == [0, 2, 3]
    assert kept(retention_rule(9, None), 0, 1) == [0, 1]
    assert kept(retention_rule(1, 1.0)) == []


def test_one_an_hour_is_counted_from_the_last_that_was_retained():
    assert kept(retention_rule(1, 1.0), 0, 0.9, 1.8, 1.9, 2.8, 2.9) == [0, 2, 4, 5]


def test_a_clock_that_was_set_back_begins_a_new_count():
    # From 10 back to 2: the next after an hour from there is the one at 3.
    assert kept(retention_rule(1, 1.0), 9, 10, 2, 2.5, 3, 3.5, 3.6) == [0, 1, 4, 6]


def test_retention_forgets_nothing_when_it_is_applied_again_to_what_it_kept():
    rule = retention_rule(1, 1.0)
    whole = rows(0, 0.5, 1.1, 1.2, 2.2, 2.3)
    there = []
    for row in whole:
        there.append(row)
        steps_kept = set(rule(there))
        there = [each for each in there if each.step in steps_kept]
    assert [row.step for row in there] == sorted(set(rule(whole)))
