"""What tests of a run's folder share: plugins in a file, and damage."""

from __future__ import annotations

import glob
import hashlib
import json
import os
import sys

from toolkit.storage.run_folder import RunFolder

PLUGIN = """
from helpers import Linear
from toolkit import hookimpl, tf

class Mine(Linear):
{}

made = Mine()
for name in ("options", "build", "call", "loss", "optimize", "predict", "metrics"):
    globals()[name] = getattr(made, name)
"""
SAME = "    pass"
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
# A loss times a number of TensorFlow's own generator, which every session draws anew.
UNSEEDED = """
    @hookimpl
    def loss(self, labels, outputs):
        return tf.random.uniform([], 0.5, 1.0) * Linear.loss(self, labels, outputs)
"""


def write_plugin(body=SAME, path="mine.py"):
    """A plugin in a file of the working directory, `Linear` with the methods in `body`."""
    with open(path, "w") as file:
        file.write(PLUGIN.format(body))
    forget(path)
    return "./" + path


def forget(path="mine.py"):
    """Let the next use of a plugin's file import it anew."""
    for name, module in list(sys.modules.items()):
        if getattr(module, "__file__", None) == os.path.abspath(path):
            del sys.modules[name]


def edit(path, old, new):
    """Replace the first `old` in a text file, where it has to be."""
    with open(str(path)) as file:
        text = file.read()
    assert old in text
    with open(str(path), "w") as file:
        file.write(text.replace(old, new, 1))


def set_manifest(run, **values):
    """Give manifest.json other values."""
    path = str(run / "manifest.json")
    with open(path) as file:
        manifest = json.load(file)
    with open(path, "w") as file:
        json.dump(dict(manifest, **values), file)


def checkpoint_file(run, step, ending="data-00000-of-00001"):
    return str(run / "checkpoints" / f"model.ckpt-{step}.{ending}")


def flip_byte(path):
    with open(path, "r+b") as file:
        first = file.read(1)[0]
        file.seek(0)
        file.write(bytes([first ^ 1]))


def damage(run, *steps):
    """Change a byte of the checkpoints of these steps."""
    for step in steps:
        flip_byte(checkpoint_file(run, step))


def drop_line(path, number):
    """Remove a line, counted from 0; a negative number counts from the end."""
    with open(str(path)) as file:
        lines = file.readlines()
    del lines[number]
    with open(str(path), "w") as file:
        file.writelines(lines)


def commit_again(run, step, **values):
    """Write the chain anew so that its last line, of `step`, has other values and right hashes."""
    last = RunFolder(str(run)).commits.lines()[-1].values
    assert last["step"] == step
    drop_line(run / "commits.jsonl", -1)
    kept = {n: v for n, v in last.items() if n not in ("kind", "previous", "hash")}
    RunFolder(str(run)).commits.add("commit", **dict(kept, **values))


def sha256s(folder):
    """Path -> SHA-256 of every file below a folder."""
    found = {}
    for path in glob.glob(os.path.join(str(folder), "**"), recursive=True):
        if os.path.isfile(path):
            with open(path, "rb") as file:
                found[path] = hashlib.sha256(file.read()).hexdigest()
    return found


def sessions(run):
    """The lines of sessions in the chain of commits."""
    with open(str(run / "commits.jsonl")) as file:
        lines = [json.loads(line) for line in file]
    return [line for line in lines if line["kind"] == "session"]
