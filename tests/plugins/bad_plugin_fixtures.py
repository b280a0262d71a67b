"""Faults of plugins: the source of each, and what a command says of it."""

import textwrap
from typing import NamedTuple, Tuple

# A model plugin without a fault. The hooks that a faulty source defines replace those of this one.
GOOD = """
import numpy as np
import toolkit
from toolkit import hookimpl, tf


@hookimpl
def build(run):
    size = int(np.prod(run.data.shape))
    start = run.initializer("glorot_uniform", "w")
    return tf.get_variable("w", [size, run.data.num_classes], initializer=start)


@hookimpl
def call(model, features):
    return {"logits": tf.matmul(tf.reshape(features, [-1, int(model.shape[0])]), model)}


@hookimpl
def loss(labels, outputs):
    cross_entropy = tf.nn.sparse_softmax_cross_entropy_with_logits
    return tf.reduce_mean(cross_entropy(labels=labels, logits=outputs["logits"]))


@hookimpl
def optimize(losses, run):
    return run.minimize(losses)


@hookimpl
def predict(outputs):
    return {"label": tf.argmax(outputs["logits"], 1, output_type=tf.int32)}
"""
HEADERS = {"model": "from good import *\n", "extension": "from toolkit import hookimpl, tf\n"}
FLAGS = ["--batch-size", "4", "--steps", "4", "--checkpoint-steps", "2", "--run-dir", "run"]


class Fault(NamedTuple):
    """A faulty plugin."""

    name: str  # of the fault
    source: str  # of the plugin below HEADERS[kind]; a comment `# here` marks the line to blame
    message: str  # on stderr after "Error: "; `{here}` is file:line of the mark
    code: int = 1  # the exit code
    flags: Tuple[str, ...] = ()  # of `toolkit run`, beside FLAGS
    kind: str = "model"  # or "extension"

    def write(self, folder) -> str:
        """Write the plugin to `bad.py` beside `good.py`; return the message that is expected."""
        (folder / "good.py").write_text(GOOD)
        text = HEADERS[self.kind] + textwrap.dedent(self.source).strip("\n") + "\n"
        path = folder / "bad.py"
        path.write_text(text)
        lines = [number for number, line in enumerate(text.split("\n"), 1) if "# here" in line]
        place = f"{path}:{lines[0]}" if lines else ""
        return self.message.replace("{here}", place)

    @property
    def argv(self):
        """The arguments of the command, without its data."""
        names = ["--plugin", "./bad.py"]
        if self.kind == "extension":
            names = ["--plugin", "./good.py", "--with", "./bad.py"]
        return ["run", *names, *FLAGS, *self.flags]


def read_faults(text, kind="model"):
    """The faults of a text: blocks of a title, the source and, after "Error: ", the message.

    The title is "# NAME", "# NAME (exit code 2)" where the code is not 1, or "# NAME (--FLAG ...)".
    """
    faults = []
    for block in text.strip().split("\n\n"):
        title, _, rest = block[2:].partition("\n")
        name, _, more = title.rstrip(")").partition(" (")
        source, _, message = rest.partition("\nError: ")
        code = int(more[-1]) if more.startswith("exit code") else 1
        flags = tuple(more.split()) if more.startswith("--") else ()
        faults.append(Fault(name, source, message, code, flags, kind))
    return faults
