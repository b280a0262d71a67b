"""Damaged runs: reported as damaged, without a traceback; never restarted over committed work."""

import contextlib
import os
import shutil

import pytest
from fuzz_fixtures import EXAMPLES, fuzz, run_and_check
from hypothesis import given, settings
from hypothesis import strategies as st
from linear_fixtures import LINEAR, write_bars
from mutations import mutants, odd_json

from toolkit import testing
from toolkit.storage.run_folder import RunFolder

COMMITTED = [
    os.path.join("checkpoints", f"model.ckpt-{step}.{ending}")
    for step in (2, 4, 6)
    for ending in ("index", "data-00000-of-00001", "hooks.npz")
]
LOGS = ["commits.jsonl", "metrics.jsonl"]
JSON = ["manifest.json", "config.json"]
OTHERS = [os.path.join("checkpoints", "checkpoint"), "console.log"]
FILES = COMMITTED + LOGS + JSON + OTHERS
DAMAGE_CODES = (0, 2, 4, 5, 6)  # exit codes of commands on a damaged run


def fuzz_less(divisor):
    """`fuzz` with fewer examples, for commands that build graphs."""
    return settings(fuzz, max_examples=max(2, EXAMPLES // divisor))


class FuzzRun:
    """A trained run of 6 steps, in which one file at a time is replaced."""

    def __init__(self, path):
        self.path = path
        self.contents = {name: (path / name).read_bytes() for name in FILES}
        last = RunFolder(str(path)).checkpoints.list()[-1]
        self.metrics_end = last.metrics.bytes  # of the committed ones
        self.fingerprint_after_resume = ""  # of the tensors after step 8

    @contextlib.contextmanager
    def with_file(self, name, content):
        """Replace a file while the block runs."""
        (self.path / name).write_bytes(content)
        try:
            yield
        finally:
            (self.path / name).write_bytes(self.contents[name])

    @contextlib.contextmanager
    def copy_with(self, name, content):
        """A copy of the run with one file replaced, to train on."""
        path = self.path.parent / "copy"
        shutil.copytree(str(self.path), str(path))
        try:
            (path / name).write_bytes(content)
            yield str(path)
        finally:
            shutil.rmtree(str(path))

    def changes_commit(self, name, content):
        """Whether this content differs in what was committed, which `verify` must report."""
        original = self.contents[name]
        if name in COMMITTED:
            return content != original
        if name == "commits.jsonl":
            return _complete_lines(content) != _complete_lines(original)
        end = self.metrics_end
        return name == "metrics.jsonl" and _complete_lines(content)[:end] != original[:end]


def _complete_lines(content):
    """The content up to the last line feed."""
    return content[: content.rfind(b"\n") + 1]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fuzz")
    flags = ["--steps", "6", "--best-metric", "accuracy", "--eval-batch-size", "5"]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        argv = ["--plugin", LINEAR, "--data", write_bars("bars.npz"), "--run-dir", "run", *flags]
        run_and_check("run", *argv)
    run = FuzzRun(folder / "run")
    with run.copy_with("config.json", run.contents["config.json"]) as path:
        run_and_check("resume", path, "--steps", "8")
        run.fingerprint_after_resume = testing.fingerprint(path)
    shutil.copytree(str(run.path), str(folder / "other"))
    return run


@st.composite
def damaged_file(draw, run):
    """(name, content) of a file with damaged bytes, or with odd values if it is JSON."""
    is_committed = draw(st.integers(0, 3)) == 0
    name = draw(st.sampled_from(COMMITTED if is_committed else LOGS + JSON + OTHERS))
    content = run.contents[name]
    if name in JSON and draw(st.booleans()):
        return name, draw(odd_json(content))
    if name == "commits.jsonl" and draw(st.integers(0, 3)) == 0:
        return name, draw(reordered_lines(content))
    return name, draw(mutants(content, run.contents[draw(st.sampled_from(FILES))]))


@st.composite
def reordered_lines(draw, content):
    """The content with lines omitted, duplicated and moved."""
    lines = content.splitlines(True)
    return b"".join(draw(st.lists(st.sampled_from(lines), max_size=len(lines) + 1)))


@pytest.mark.parametrize("command", ["verify", "doctor"])
@fuzz
@given(st.data())
def test_every_change_of_what_was_committed_is_reported(run, command, data):
    name, content = data.draw(damaged_file(run))
    with run.with_file(name, content):
        code = run_and_check(command, run.path, codes=(0, 2, 5, 6)).code
    assert code or not run.changes_commit(name, content), (name, content)


@fuzz
@given(st.data())
def test_a_list_and_a_comparison_have_a_row_or_a_sentence(run, data):
    name, content = data.draw(damaged_file(run))
    folder = run.path.parent
    with run.with_file(name, content):
        assert len(run_and_check("runs", folder).out.splitlines()) in (2, 3)
        assert "runs" in run_and_check("runs", folder, "--json").json()
        run_and_check("compare", run.path, folder / "other", codes=(0, 2, 5))


@given(text=st.text(max_size=30) | st.from_regex(r"[a-z_]{1,8}(=|<|~|!=)\w{0,5}", fullmatch=True))
@fuzz
def test_any_condition_is_understood_or_refused(run, text):
    for flag in ("--where", "--sort"):
        argument = f"{flag}={text}".replace("\0", "")
        run_and_check("runs", run.path.parent, argument, codes=(0, 2))


@fuzz_less(8)
@given(st.data())
def test_evaluate_uses_an_intact_checkpoint_or_fails(run, data):
    name, content = data.draw(damaged_file(run))
    with run.with_file(name, content):
        run_and_check("evaluate", run.path, "--checkpoint", "last", codes=DAMAGE_CODES)


@fuzz_less(16)
@given(st.data())
def test_resume_continues_to_the_same_bits_or_fails(run, data):
    """From an intact checkpoint, or it does not start."""
    name, content = data.draw(damaged_file(run))
    with run.copy_with(name, content) as path:
        code = run_and_check("resume", path, "--steps", "8", codes=DAMAGE_CODES).code
        log = content if name == "commits.jsonl" else run.contents["commits.jsonl"]
        sessions = RunFolder(path).commits.sessions()
        starts = [each["from"] for each in sessions if each["hash"].encode() not in log]
        assert len(starts) == 1 or (code and not starts), starts
        is_damaged = name in COMMITTED and content != run.contents[name]
        damaged_step = int(name.split("-")[1].split(".")[0]) if is_damaged else None
        assert not {0, damaged_step} & set(starts), starts
        if code == 0 and name != "config.json":
            assert testing.fingerprint(path) == run.fingerprint_after_resume
