"""Plugins in a file, and changes to the files of a run."""

import json
import os
import sys
from pathlib import Path

from file_fixtures import drop_line, flip_byte

from toolkit.storage.run_folder import RunFolder

PLUGIN = """
from linear_fixtures import Linear
from toolkit import hookimpl, tf

class Mine(Linear):
{}

plugin = Mine()
for name in (
    "options", "build", "call", "loss", "optimize", "predict", "metrics", "metric_directions"
):
    globals()[name] = getattr(plugin, name)
"""
UNCHANGED = "    pass"
EXTRA = """
    @hookimpl
    def build(self, run):
        tf.get_variable("extra", [2], initializer=tf.constant_initializer(5.0))
        return Linear.build(self, run)
"""
RENAMED = """
    @hookimpl
    def build(self, run):
        start = run.initializer("glorot_uniform", "linear/w")
        w = tf.get_variable("dense/w", [36, 3], initializer=start)
        return w, tf.get_variable("dense/b", [3], initializer=tf.zeros_initializer())
"""
# The loss times a number from TensorFlow's unseeded generator, which differs in each session.
UNSEEDED = """
    @hookimpl
    def loss(self, labels, outputs):
        return tf.random.uniform([], 0.5, 1.0) * Linear.loss(self, labels, outputs)
"""


def write_plugin(body=UNCHANGED, path="mine.py"):
    """A plugin in a file of the working directory, `Linear` with the methods in `body`."""
    Path(path).write_text(PLUGIN.format(body))
    forget(path)
    return "./" + path


def forget(path="mine.py"):
    """Drop the module, so that the next use of the plugin imports the file again."""
    for name, module in list(sys.modules.items()):
        if getattr(module, "__file__", None) == os.path.abspath(path):
            del sys.modules[name]


def set_state(run, **values):
    """Let the commit log say so of a run, as if its session had ended once more."""
    kind = "evaluated" if {"best", "validation"} & set(values) else "end"
    RunFolder(os.path.abspath(str(run))).record(kind, **values)


def checkpoint_file(run, step, ending="data-00000-of-00001"):
    return str(run / "checkpoints" / f"model.ckpt-{step}.{ending}")


def damage(run, *steps):
    """Change a byte of the checkpoints of these steps."""
    for step in steps:
        flip_byte(checkpoint_file(run, step))


def cut_log(run, step):
    """Remove the commit of a step and the entries after it."""
    path = run / "commits.jsonl"
    number = RunFolder(str(run)).commits.current_commits()[step].number
    path.write_text("".join(path.read_text().splitlines(True)[: number - 1]))


def rewrite_last_commit(run, step, **values):
    """Replace the last commit, that of `step`, by one with other values and a correct hash; the
    entries after it get correct hashes too.
    """
    entries = [entry.values for entry in RunFolder(str(run)).commits.entries()]
    last = max(n for n, entry in enumerate(entries) if entry["kind"] == "commit")
    assert entries[last]["step"] == step
    entries[last].update(values)
    os.remove(str(run / "commits.jsonl"))
    commits = RunFolder(str(run)).commits
    for entry in entries:
        commits.add(entry["kind"], **_free_values(entry))


def unseal(run):
    """Remove the seal, the last entry of a finished run, and what says that it was trained."""
    assert RunFolder(str(run)).commits.seal()
    for _ in range(2):
        drop_line(run / "commits.jsonl", -1)


def _free_values(entry):
    """The values of an entry that its place in the log does not determine."""
    return {n: v for n, v in entry.items() if n not in ("kind", "previous", "hash")}


def sessions(run):
    """The session entries of commits.jsonl."""
    lines = map(json.loads, (run / "commits.jsonl").read_text().splitlines())
    return [line for line in lines if line["kind"] == "session"]


def records(run, kind="train"):
    """The records of a kind in metrics.jsonl."""
    return [record for record in RunFolder(str(run)).metrics.read() if record["kind"] == kind]


def steps_of(run):
    """The steps of the checkpoints of a run."""
    return [checkpoint.step for checkpoint in RunFolder(str(run)).checkpoints.list()]
