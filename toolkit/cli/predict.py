"""`toolkit predict`: apply a trained model to image, .npz and IDX files."""

from __future__ import annotations

import sys
from typing import Any, Dict, List

import click

from .common import checkpoint_option, json_option, opened, print_json, verbose_option


@click.command()
@click.argument("run_folder", metavar="RUN")
@click.argument("files", nargs=-1, required=True, metavar="FILES...")
@checkpoint_option
@click.option("-o", "--output", metavar="FILE", help="Write to FILE: .json, .csv or .npz.")
@click.option("--features", is_flag=True, help="Also give the model's features of each example.")
@click.option(
    "--invert",
    type=click.Choice(["auto", "yes", "no"]),
    default="auto",
    help="Invert image files; auto: where ink and paper are the other way round than in training.",
)
@json_option
@verbose_option
def predict(run_folder, files, checkpoint, output, features, invert, as_json):
    """Apply a trained model to image files, .npz and IDX files.

    A model that is fed something else than examples takes .npz files with arrays by name.
    """
    from ..inference.predict import columns

    writer = _writer(output)
    with opened(run_folder, checkpoint) as trained:
        examples = _read(trained, list(files), invert)
        predictions = trained.predict(examples.inputs)
        shown = columns(predictions, trained.data.class_names, features)
    if writer is not None:
        writer(output, examples.names, shown)
        sys.stderr.write(f"{len(examples.names)} predictions in {output}\n")
    if as_json:
        print_json(_rows(examples.names, shown))
    elif writer is None:
        _print(examples.names, shown)


def _read(trained, files: List[str], invert: str):
    """The examples in the files, or the arrays by name that the model is fed."""
    from ..data.examples import DataSpec
    from ..inference.predict import read_examples, read_inputs
    from ..run_data import example_hook

    if trained.plugins.has_hook("inputs") and not trained.predictor.graph.takes_examples:
        return read_inputs(files, trained.predictor.graph.input_specs)
    data = trained.manifest["data"]
    return read_examples(
        files,
        DataSpec.from_json(data["stored"]),
        data["ink"],
        invert,
        example_hook(trained.plugins, "convert"),
        lambda text: sys.stderr.write(text + "\n"),
    )


def _writer(output):
    """How to write the output file; a wrong ending is told before anything is computed."""
    if output is None:
        return None
    for ending, writer in ((".json", _write_json), (".csv", _write_csv), (".npz", _write_npz)):
        if output.endswith(ending):
            return writer
    raise click.UsageError(f"{output}: the output ends in .json, .csv or .npz.")


def _rows(names: List[str], shown: Dict[str, Any]) -> List[Dict[str, Any]]:
    return [
        dict({"file": name}, **{column: values[i].tolist() for column, values in shown.items()})
        for i, name in enumerate(names)
    ]


def _print(names: List[str], shown: Dict[str, Any]) -> None:
    """A line per example: numbers as they are, arrays by their shape."""
    for i, name in enumerate(names):
        cells = [f"{n} {_cell(values[i])}" for n, values in shown.items()]
        sys.stdout.write(f"{name}  {'  '.join(cells)}\n")
    if any(values.ndim > 1 for values in shown.values()):
        sys.stderr.write("Arrays are shown by their shape; --json or -o FILE gives them.\n")


def _cell(value) -> str:
    if getattr(value, "shape", ()):
        return f"[{'x'.join(map(str, value.shape))}]"
    return f"{value:.4f}" if value.dtype.kind == "f" else str(value)


def _write_json(path: str, names: List[str], shown: Dict[str, Any]) -> None:
    from ..files import write_json

    write_json(path, _rows(names, shown))


def _write_csv(path: str, names: List[str], shown: Dict[str, Any]) -> None:
    """One row per example; a vector takes a column per element."""
    import csv

    flat = {n: v.reshape(len(names), -1) for n, v in shown.items()}
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        header = ["file"]
        for name, values in flat.items():
            one = shown[name].ndim == 1
            header += [name] if one else [f"{name}{i}" for i in range(values.shape[1])]
        writer.writerow(header)
        for i, name in enumerate(names):
            writer.writerow([name] + [cell for values in flat.values() for cell in values[i]])


def _write_npz(path: str, names: List[str], shown: Dict[str, Any]) -> None:
    import numpy as np

    np.savez_compressed(path, files=np.array(names), **shown)  # savez owns "file"
