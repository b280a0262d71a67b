"""Damaged runs: told, never a traceback, never sound, never begun afresh over committed work."""

from __future__ import annotations

import contextlib
import copy
import hashlib
import io
import json
import os
import shutil

import fuzz_fixtures
import pytest
from fuzz_fixtures import EXAMPLES, ended, fuzzed
from hypothesis import given, settings
from hypothesis import strategies as st
from mutations import mutated

from toolkit.cli import run_command
from toolkit.storage import checkpoint_reader
from toolkit.storage.run_folder import RunFolder

COMMITTED = [
    os.path.join("checkpoints", f"model.ckpt-{step}.{ending}")
    for step in (2, 4, 6)
    for ending in ("index", "data-00000-of-00001", "hooks.npz")
]
GROWN = ["commits.jsonl", "metrics.jsonl"]
JSON = ["manifest.json", "config.json"]
OTHERS = [os.path.join("checkpoints", "checkpoint")]
FILES = COMMITTED + GROWN + JSON + OTHERS
TOLD = (0, 2, 4, 5, 6)  # what a command may end with on a damaged run


def some(part):
    """That part of the examples, for commands that build graphs."""
    return settings(fuzzed, max_examples=max(2, EXAMPLES // part))


class Fuzzed:
    """A trained run, of which one file at a time holds something else."""

    def __init__(self, path):
        self.path = path
        self.contents = {name: self.read(name) for name in FILES}
        self.end = RunFolder(path).checkpoints.list()[-1].metrics.bytes
        self.trained_on = ""  # the tensors after step 8

    def read(self, name):
        with open(os.path.join(self.path, name), "rb") as file:
            return file.read()

    def write(self, name, content):
        with open(os.path.join(self.path, name), "wb") as file:
            file.write(content)

    @contextlib.contextmanager
    def with_file(self, name, content):
        """While the block runs, that file is another."""
        self.write(name, content)
        try:
            yield
        finally:
            self.write(name, self.contents[name])

    @contextlib.contextmanager
    def copied(self, name, content):
        """A copy of the run with another file, to train on."""
        place = self.path + "-copy"
        shutil.copytree(self.path, place)
        try:
            with open(os.path.join(place, name), "wb") as file:
                file.write(content)
            yield place
        finally:
            shutil.rmtree(place)

    def is_told_apart(self, name, content):
        """Whether what was committed is another, so that `verify` has to tell it."""
        was = self.contents[name]
        if name in COMMITTED:
            return content != was
        if name == "commits.jsonl":
            return _whole(content) != _whole(was)
        return name == "metrics.jsonl" and _whole(content)[: self.end] != was[: self.end]

    def step_damaged(self, name, content):
        """The step whose files are no longer what they were, or None."""
        is_damaged = name in COMMITTED and content != self.contents[name]
        return int(name.split("-")[1].split(".")[0]) if is_damaged else None


def _whole(content):
    """The whole lines."""
    return content[: content.rfind(b"\n") + 1]


@pytest.fixture(scope="module")
def run(_trained, tmp_path_factory):
    folder = tmp_path_factory.mktemp("fuzzed") / "trained"
    shutil.copytree(str(_trained), str(folder))
    made = Fuzzed(str(folder / "run"))
    with made.copied("config.json", made.contents["config.json"]) as place:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            assert run_command(["resume", place, "--steps", "8"]) == 0
        made.trained_on = checkpoint_reader.fingerprint(RunFolder(place).checkpoints.find("8").path)
    return made


@st.composite
def damaged(draw, run, names=tuple(FILES)):
    """(name, content) of a file that is damaged in its bytes, or where it is JSON, its values."""
    others = [name for name in names if name not in COMMITTED]
    is_other = others and draw(st.integers(0, 3)) > 0
    name = draw(st.sampled_from(others if is_other else [n for n in names if n in COMMITTED]))
    content = run.contents[name]
    if name in JSON and draw(st.booleans()):
        return name, text_of(draw(misvalued(content))).encode()
    if name == "commits.jsonl" and draw(st.integers(0, 3)) == 0:
        return name, draw(reordered(content))
    return name, draw(mutated(content, run.contents[draw(st.sampled_from(FILES))]))


@st.composite
def reordered(draw, content):
    """Lines left out, doubled and moved."""
    lines = content.splitlines(True)
    return b"".join(draw(st.lists(st.sampled_from(lines), max_size=len(lines) + 1)))


DEEP = "\0deep"  # stands for a nesting that json.dumps would not write
NUMBERS = [0, 1, -1, 7, 2**31, 2**63, 10**400, 1e308, float("nan"), float("inf"), 0.5]
TEXTS = ["", "x", "6", "\0", "\ud800", "../../x", "/", "finished", "running", "best", DEEP]
ODD = [None, True, False, *NUMBERS, *TEXTS, [], {}, [[]], [None], [1], ["x"], {"": None}, [0] * 99]


def text_of(values):
    """As JSON, of which some is nested deeper than any reader takes."""
    return json.dumps(values).replace(json.dumps(DEEP), "[" * 100000 + "]" * 100000)


@st.composite
def misvalued(draw, content, most=3):
    """What a JSON text holds, with up to `most` values that are odd, or missing."""
    values = json.loads(content.decode("utf-8"))
    for _ in range(draw(st.integers(1, most))):
        values = draw(_replaced(values))
    return values


@st.composite
def _replaced(draw, values):
    """One value somewhere within replaced by an odd one, or taken out."""
    place = values
    while isinstance(place, (dict, list)) and len(place):
        key = draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))))
        inner = place[key]
        if not isinstance(inner, (dict, list)) or draw(st.integers(0, 2)) == 0:
            if isinstance(place, dict) and draw(st.integers(0, 3)) == 0:
                del place[key]
            else:
                place[key] = copy.deepcopy(draw(st.sampled_from(ODD)))
            return values
        place = inner
    return copy.deepcopy(draw(st.sampled_from(ODD)))


@st.composite
def forged(draw, content):
    """A chain with odd values, in which every hash is right."""
    lines = content.splitlines()
    number = draw(st.integers(0, len(lines) - 1))
    texts, previous = [], "0" * 64
    for at, line in enumerate(lines):
        values = draw(misvalued(line)) if at == number else json.loads(line.decode())
        values = values if isinstance(values, dict) else {}
        values.pop("hash", None)
        body = text_of(dict(values, previous=previous))[:-1]
        previous = hashlib.sha256(body.encode()).hexdigest()
        texts.append(f'{body}, "hash": "{previous}"}}\n')
    return "".join(texts).encode()


# ---------------------------------------------------------------------------------------- commands


def diagnosed(path):
    """The exit code of `toolkit doctor`."""
    return fuzz_fixtures.ended("doctor", path, codes=(0, 2, 5, 6)).code


def resumed(run, name, content):
    """`toolkit resume`, which goes on from what is whole, to the same bits, or does not begin."""
    with run.copied(name, content) as place:
        code = ended("resume", place, "--steps", "8", codes=TOLD).code
        folder = RunFolder(place)
        chain = content if name == "commits.jsonl" else run.contents["commits.jsonl"]
        sessions = folder.commits.sessions()
        begun = [each["from"] for each in sessions if each["hash"].encode() not in chain]
        assert len(begun) == 1 or (code and not begun), begun
        assert not {0, run.step_damaged(name, content)} & set(begun), begun
        if code == 0 and name != "config.json":
            assert checkpoint_reader.fingerprint(folder.checkpoints.find("8").path) == run.trained_on


# ------------------------------------------------------------------------------------------- tests


def test_the_sound_run_is_sound(run):
    assert ended("verify", run.path).code == 0
    assert diagnosed(run.path) == 0
    ended("evaluate", run.path, "--checkpoint", "last")


def verified(run, name, content):
    with run.with_file(name, content):
        code = ended("verify", run.path, codes=(0, 2, 5, 6)).code
    assert code or not run.is_told_apart(name, content), (name, content)


@fuzzed
@given(st.data())
def test_verify_tells_every_change_of_what_was_committed(run, data):
    verified(run, *data.draw(damaged(run, tuple(COMMITTED + GROWN))))


@some(2)
@given(st.data())
def test_verify_takes_any_damage(run, data):
    verified(run, *data.draw(damaged(run)))


@some(2)
@given(st.data())
def test_verify_takes_no_forged_line_for_what_it_is_not(run, data):
    with run.with_file("commits.jsonl", data.draw(forged(run.contents["commits.jsonl"]))):
        ended("verify", run.path, codes=(0, 2, 5, 6))


@pytest.mark.parametrize("name", COMMITTED + GROWN)
def test_verify_tells_a_changed_bit_anywhere(run, name):
    content = run.contents[name]
    end = run.end if name == "metrics.jsonl" else len(content)
    for place in range(0, end, max(1, 8 * end // EXAMPLES)):
        changed = bytearray(content)
        changed[place] ^= 1 << place % 8
        with run.with_file(name, bytes(changed)):
            assert ended("verify", run.path, codes=(6,)).code == 6


@some(10)
@given(st.data())
def test_doctor_says_what_is_wrong_in_words(run, data):
    name, content = data.draw(damaged(run))
    with run.with_file(name, content):
        code = diagnosed(run.path)
    assert code or not run.is_told_apart(name, content)


@some(20)
@given(st.data())
def test_doctor_takes_forged_lines(run, data):
    with run.with_file("commits.jsonl", data.draw(forged(run.contents["commits.jsonl"]))):
        diagnosed(run.path)


@some(20)
@given(st.data())
def test_evaluate_takes_a_whole_checkpoint_or_tells(run, data):
    name, content = data.draw(damaged(run))
    with run.with_file(name, content):
        ended("evaluate", run.path, "--checkpoint", "last", codes=TOLD)


@some(50)
@given(st.data())
def test_resume_goes_on_to_the_same_bits_or_tells(run, data):
    resumed(run, *data.draw(damaged(run)))


@pytest.mark.slow
@settings(fuzzed, max_examples=EXAMPLES * 10)
@given(st.data())
def test_verify_tells_every_change_of_many(run, data):
    verified(run, *data.draw(damaged(run)))


@pytest.mark.slow
@some(1)
@given(st.data())
def test_doctor_and_evaluate_take_many_damages(run, data):
    name, content = data.draw(damaged(run))
    with run.with_file(name, content):
        diagnosed(run.path)
        ended("evaluate", run.path, "--checkpoint", "last", codes=TOLD)


@pytest.mark.slow
@some(4)
@given(st.data())
def test_resume_goes_on_from_many_damages(run, data):
    resumed(run, *data.draw(damaged(run)))
