"""Runs that are folders alone, begun and committed to without any training."""

import os

from toolkit.storage.run_folder import reserve

SPEC = {"shape": [4], "dtype": "uint8"}
DATA = {"sha256": {}, "stored": SPEC, "spec": SPEC, "ink": None}
ENDINGS = ("data-00000-of-00001", "index")


def begin(path, **values):
    """A locked run without a commit, whose first entry has these values besides."""
    folder = reserve(str(path))
    folder.create({"plugin": "p"})
    folder.record("run", **dict({"created": "now", "plugins": {}, "data": DATA}, **values))
    folder.checkpoints.begin_session(None)
    return folder


def write(text, *path):
    with open(os.path.join(*map(str, path)), "w") as file:
        file.write(text)


def damage(folder, step):
    with open(folder.checkpoints.prefix(step) + ".index", "a") as file:
        file.write("more")


def fill_disk(*_, **__):
    """What the writing of a file is replaced by."""
    raise OSError(28, "No space left on device")


def save(folder, step):
    """Write two files, as a Saver does."""
    for ending in ENDINGS:
        write(f"{ending} of step {step}", f"{folder.checkpoints.prefix(step)}.{ending}")


def commit(folder, step, keep=99, tensors="tensors"):
    """Commit a step with a record of metrics."""
    folder.metrics.append({"step": step})
    save(folder, step)
    folder.checkpoints.commit(step, 100.0 + step, tensors, keep)
