"""`toolkit predict`: apply a trained model to image, .npz and IDX files."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Sequence

import click

from ..cli_options import checkpoint_option, json_option, print_json, verbose_option

if TYPE_CHECKING:
    import numpy as np

    from ..api import Trained
    from ..inference.predict import Examples

    Columns = Dict[str, np.ndarray]  # name -> one value or array per example
    Writer = Callable[[str, List[str], Columns], None]


@click.command()
@click.argument("run_folder", metavar="RUN")
@click.argument("files", nargs=-1, required=True, metavar="FILES...")
@checkpoint_option
@click.option("-o", "--output", metavar="FILE", help="Write to FILE: .json, .csv or .npz.")
@click.option("--features", is_flag=True, help="Also print the model's features of each example.")
@click.option(
    "--invert",
    type=click.Choice(["auto", "yes", "no"]),
    default="auto",
    help="Invert image files; auto: if they are dark on light and the training images are not, or"
    " the reverse.",
)
@json_option
@verbose_option
def predict(
    run_folder: str,
    files: Sequence[str],
    checkpoint: Optional[str],
    output: Optional[str],
    features: bool,
    invert: str,
    as_json: bool,
) -> None:
    """Apply a trained model to image files, .npz files and IDX files.

    A model whose input is not an example of the data, such as a generator, takes .npz files with
    an array for each of its inputs.
    """
    from ..inference.predict import columns
    from .common import open_with_warnings

    write = _choose_writer(output)
    with open_with_warnings(run_folder, checkpoint) as trained:
        examples = _read(trained, list(files), invert)
        predictions = columns(trained.predict(examples.inputs), trained.data.class_names, features)
    if output is not None and write is not None:
        write(output, examples.names, predictions)
        sys.stderr.write(f"{len(examples.names)} predictions in {output}\n")
    if as_json:
        print_json(_json_rows(examples.names, predictions))
    elif output is None:
        _print(examples.names, predictions)


def _read(trained: Trained, files: List[str], invert: str) -> Examples:
    """Read the examples in the files, or the arrays for the inputs of the model."""
    from ..data.examples import DataSpec
    from ..inference.predict import read_examples, read_inputs
    from ..run_data import example_hook

    graph = trained.predictor.graph
    if trained.plugins.has_hook("inputs") and not graph.takes_examples:
        return read_inputs(files, graph.input_specs)
    data = trained.manifest["data"]
    return read_examples(
        files,
        DataSpec.from_json(data["stored"]),
        data["ink"],
        invert,
        example_hook(trained.plugins, "convert"),
        lambda text: print(text, file=sys.stderr),
    )


def _choose_writer(output: Optional[str]) -> Optional[Writer]:
    """Return the function that writes the output file; refuse an unknown ending before any work."""
    if output is None:
        return None
    for ending, writer in ((".json", _write_json), (".csv", _write_csv), (".npz", _write_npz)):
        if output.endswith(ending):
            return writer
    raise click.UsageError(f"{output}: the output ends in .json, .csv or .npz.")


def _json_rows(names: List[str], predictions: Columns) -> List[Dict[str, Any]]:
    return [
        dict(
            {"file": name}, **{column: values[i].tolist() for column, values in predictions.items()}
        )
        for i, name in enumerate(names)
    ]


def _print(names: List[str], predictions: Columns) -> None:
    """Print a line per example, with numbers in full and arrays by their shape."""
    for i, name in enumerate(names):
        cells = [f"{column} {_format(values[i])}" for column, values in predictions.items()]
        sys.stdout.write(f"{name}  {'  '.join(cells)}\n")
    if any(values.ndim > 1 for values in predictions.values()):
        sys.stderr.write("Arrays are shown by their shape; --json or -o FILE has their values.\n")


def _format(value: Any) -> str:
    if getattr(value, "shape", ()):
        return f"[{'x'.join(map(str, value.shape))}]"
    return f"{value:.4f}" if value.dtype.kind == "f" else str(value)


def _write_json(path: str, names: List[str], predictions: Columns) -> None:
    from ..files import write_json

    write_json(path, _json_rows(names, predictions))


def _write_csv(path: str, names: List[str], predictions: Columns) -> None:
    """Write a row per example, with a column per element of a vector."""
    import csv

    flat = {name: values.reshape(len(names), -1) for name, values in predictions.items()}
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        header = ["file"]
        for name, values in flat.items():
            is_scalar = predictions[name].ndim == 1
            header += [name] if is_scalar else [f"{name}{i}" for i in range(values.shape[1])]
        writer.writerow(header)
        for i, name in enumerate(names):
            writer.writerow([name] + [cell for values in flat.values() for cell in values[i]])


def _write_npz(path: str, names: List[str], predictions: Columns) -> None:
    import numpy as np

    arrays: Dict[str, Any] = dict(predictions, files=np.array(names))  # savez has a "file" itself
    np.savez_compressed(path, **arrays)
