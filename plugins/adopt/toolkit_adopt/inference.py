"""Predict and export with an adopted run: what a tensor of its graph is, given another one.

A commit leaves the graph whose session trained last, `graph.pb`. Its variables become constants,
those of the newest checkpoint, and what else the output needs is fed by `--feed`.
"""

from __future__ import annotations

import os
import re
import sys
from typing import Any, Dict, Sequence, Tuple

import click
import numpy as np
from google.protobuf.message import DecodeError

from toolkit import DataError, DrivenRun, UsageError, cli_options, tf

from .calls import reach
from .variables import find_places, write_values

GRAPH = "graph.pb"  # the file of the run


def open_function(path: str, source: str, output: str, feeds: Sequence[str]) -> Tuple[Any, ...]:
    """Cut a function out of the graph of the adopted run in a folder: from one tensor to another.

    The tensors are named `x` or `x:0`; `feeds` has NAME=NUMBER for each other placeholder that the
    output needs. Returned are a placeholder, the tensor that depends on it alone, in a graph
    without variables, and the train call of the checkpoint. Raises UsageError if the run has no
    graph yet, or the graph no such tensor or function.
    """
    run = DrivenRun.reopen(path)
    restart, file = run.newest(), os.path.join(run.folder, GRAPH)
    if restart is None or not os.path.isfile(file):
        raise UsageError(
            f"{run} has no commit with its graph yet.", hint=f"toolkit resume {run.argument}"
        )
    given = dict(map(_feed, feeds))
    with tf.Graph().as_default() as whole, tf.Session() as session:
        try:
            with open(file, "rb") as stream:
                tf.import_graph_def(tf.GraphDef.FromString(stream.read()), name="")
        except (ValueError, tf.errors.OpError, DecodeError) as error:
            reason = re.split(r"[;.] ", str(error))[0]
            raise DataError(
                f"TensorFlow {tf.version.VERSION} cannot read {file}: {reason}.",
                hint="Use the TensorFlow on which the run trained.",
            ) from error
        tensors = {name: _tensor(whole, name) for name in (source, output, *given)}
        places, start = find_places(whole), restart.values.get("graph", "")
        named = {n[len(start) :]: x for n, x in restart.tensors.items() if n.startswith(start)}
        write_values(
            lambda session, targets, fetches, fed: session.run([targets, fetches], fed)[1],
            session,
            {name: value for name, value in named.items() if name in places},
        )
        frozen = tf.graph_util.convert_variables_to_constants(
            session, whole.as_graph_def(), [tensors[output].op.name]
        )
    known = {node.name for node in frozen.node}
    with tf.Graph().as_default():
        fed = tf.placeholder(tensors[source].dtype, tensors[source].shape, name="given")
        replaced = {source: fed}
        for name, number in given.items():
            kind, shape = tensors[name].dtype.base_dtype, tensors[name].shape
            value = np.asarray(number, kind.as_numpy_dtype)  # also a bool
            is_rounded = not kind.is_floating and value != number
            if is_rounded or not shape.is_compatible_with([]):
                raise UsageError(f"--feed {name}={number:g} does not fit {kind.name} {shape}.")
            replaced[name] = tf.constant(value)
        inputs = {tensors[n].name: x for n, x in replaced.items() if tensors[n].op.name in known}
        (result,) = tf.import_graph_def(frozen, inputs, [tensors[output].name], name="adopted")
    needed = reach([result.op], (), ())
    if fed.op not in needed:
        raise UsageError(f"The tensor '{output}' does not depend on '{source}'.")
    others = [op for op in needed if op.type == "Placeholder" and op is not fed.op]
    if others:
        name = others[0].name.partition("/")[2]
        raise UsageError(
            f"The tensor '{output}' depends on the placeholder '{name}' besides '{source}'.",
            hint=f"Give it a value: --feed {name}=1",
        )
    return fed, result, restart.step


def _feed(text: str) -> Tuple[str, float]:
    """The name and the number of NAME=NUMBER."""
    name, _, number = text.rpartition("=")
    try:
        return name or text, float({"true": "1", "false": "0"}.get(number.lower(), number))
    except ValueError:
        hint = "Write --feed keep_prob=1"
        raise UsageError(f"--feed {text} gives no number.", hint=hint) from None


def _tensor(graph: Any, name: str) -> Any:
    """The tensor of a name, with or without the number of the output."""
    try:
        return graph.get_tensor_by_name(name if ":" in name else name + ":0")
    except (KeyError, ValueError):
        placeholders = [op.name for op in graph.get_operations() if op.type == "Placeholder"]
        raise UsageError(
            f"The graph has no tensor '{name}'.",
            hint=f"Its placeholders are {', '.join(placeholders[:8]) or 'none'}; "
            "'toolkit adopt SCRIPT --dry-run' lists what its calls feed and fetch.",
        ) from None


def _of_function(command: Any) -> Any:
    """Add what names a function, and the flags of each command."""
    for option in (
        cli_options.verbose_option,
        cli_options.json_option,
        click.option(
            "--feed",
            "feeds",
            multiple=True,
            metavar="NAME=NUMBER",
            help="The value of a further placeholder; may be repeated.",
        ),
        click.option("--output", required=True, metavar="NAME", help="The tensor to fetch."),
        click.option(
            "--input", "source", required=True, metavar="NAME", help="The tensor to feed."
        ),
    ):
        command = option(command)
    return command


@click.command("predict")
@click.argument("run_folder", metavar="RUN")
@click.argument("file", metavar="FILE.npy")
@click.option("--out", required=True, metavar="OUT.npy", help="Where to write the output.")
@_of_function
def predict(run_folder: str, file: str, out: str, as_json: bool, **names: Any) -> int:
    """Compute a tensor of an adopted run's graph from an array: FILE.npy to OUT.npy."""
    try:
        array = np.asarray(np.load(file, allow_pickle=False))
    except OSError as error:
        raise DataError(f"{file}: {error.strerror or error}.") from None
    except (ValueError, EOFError):
        raise DataError(f"{file}: expected an array as numpy.save writes it.") from None
    fed, output, step = open_function(run_folder, **names)
    with tf.Session(graph=output.graph) as session:
        try:
            result = session.run(output, {fed: array})
        except (ValueError, TypeError, tf.errors.OpError):
            raise DataError(
                f"The array of shape {list(array.shape)} and dtype {array.dtype} does not fit the "
                "input.",
                hint=f"It takes {fed.dtype.name} {fed.shape}.",
            ) from None
    with cli_options.writing_output(out), open(cli_options.resolve_output(out), "wb") as stream:
        np.save(stream, result)
    facts = {"out": out, "shape": list(result.shape), "dtype": str(result.dtype), "step": step}
    return _report(f"{out}  step {step}: {facts['dtype']} {facts['shape']}", facts, as_json)


@click.command("export")
@click.argument("run_folder", metavar="RUN")
@click.argument("folder", metavar="DIR")
@_of_function
def export(run_folder: str, folder: str, as_json: bool, **names: Any) -> int:
    """Write a function of an adopted run's graph as a SavedModel in DIR, a new folder.

    Its signature `serving_default` has one input, `input`, and one output, `output`.
    """
    path = cli_options.resolve_output(folder, is_folder=True)
    if os.path.exists(path):
        raise UsageError(f"{folder} exists.", hint="Name a new folder.")
    fed, output, step = open_function(run_folder, **names)
    with cli_options.writing_output(folder), output.graph.as_default(), tf.Session() as session:
        tf.saved_model.simple_save(session, path, {"input": fed}, {"output": output})
    facts = {"folder": folder, "step": step, "inputs": ["input"], "outputs": ["output"]}
    return _report(f"{folder}  step {step}, serving_default: input -> output", facts, as_json)


def _report(line: str, facts: Dict[str, Any], as_json: bool) -> int:
    if as_json:
        cli_options.print_json(facts)
    else:
        sys.stdout.write(line + "\n")
    return 0
