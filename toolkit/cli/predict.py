"""`toolkit predict`: apply a trained model to image files, tables, TFRecord, .npz and IDX files."""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Sequence, Tuple

import click

from ..cli_options import (
    checkpoint_option,
    json_option,
    print_json,
    resolve_output,
    trust_option,
    verbose_option,
    writing_output,
)
from ..display.escapes import escape_line, table_cell
from ..errors import DataError, UsageError
from .common import open_with_warnings, tta_option

if TYPE_CHECKING:
    import numpy as np

    Columns = Dict[str, np.ndarray]  # name -> one value or array per example
    Writer = Callable[[str, List[str], Columns, Sequence[str]], None]


@click.command()
@click.argument("run_folder", metavar="RUN")
@click.argument("files", nargs=-1, required=True, metavar="FILES...")
@checkpoint_option
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    help="Write to FILE, .json, .csv or .npz, which is overwritten.",
)
@click.option("--features", is_flag=True, help="Also print the model's features of each example.")
@click.option(
    "--invert",
    "is_inverted",
    is_flag=True,
    help="Swap light and dark in all images, if the training images are the reverse of these.",
)
@tta_option
@trust_option
@json_option
@verbose_option
def predict(
    run_folder: str,
    files: Sequence[str],
    checkpoint: Optional[str],
    output: Optional[str],
    features: bool,
    is_inverted: bool,
    tta: Optional[bool],
    as_json: bool,
) -> None:
    """Apply a trained model to image files, tables, TFRecord files, .npz files and IDX files.

    FILES may be folders of images and patterns. The files are used as the training data was; only
    images of another size are scaled. An image that cannot be read is left out, and the command
    ends with the exit code 4. A warning says if the images look inverted in comparison with the
    training images.

    A model whose input is not an example of the data, such as a generator, takes .npz files with
    an array for each of its inputs.
    """
    from ..inference.predict import best_classes, columns
    from ..inference.predict_files import expand_paths, read_files

    write = _choose_writer(output)
    path = resolve_output(output) if output is not None else ""
    files = expand_paths(files)
    _protect_files(path, files)
    with open_with_warnings(run_folder, checkpoint) as model:
        model.set_tta(tta)
        examples = read_files(model, files, is_inverted, _warn_of_file)
        class_names = model.data.class_names
        predictions = columns(model.predictor.predict(examples.inputs), class_names, features)
    if output is not None and write is not None:
        with writing_output(output):
            write(path, examples.names, predictions, class_names)
        sys.stderr.write(f"{len(examples.names)} predictions in {output}\n")
    if as_json:
        print_json(_json_rows(examples.names, predictions))
    elif output is None:
        _print(examples.names, predictions, best_classes(predictions, class_names))
    if examples.num_damaged:
        raise DataError(
            f"{examples.num_damaged} of {len(files)} files cannot be read; the predictions are "
            "those of the others."
        )


def _warn_of_file(text: str) -> None:
    sys.stderr.write(escape_line(text) + "\n")


def _choose_writer(output: Optional[str]) -> Optional[Writer]:
    """Return the function that writes the output file; refuse an unknown ending before any work."""
    if output is None:
        return None
    for ending, writer in ((".json", _write_json), (".csv", _write_csv), (".npz", _write_npz)):
        if output.endswith(ending):
            return writer
    raise click.UsageError(f"{output}: the output ends in .json, .csv or .npz.")


def _protect_files(output: str, files: Sequence[str]) -> None:
    """Refuse to overwrite a file to predict on. Raises UsageError."""
    if os.path.exists(output) and output in [os.path.realpath(path) for path in files]:
        raise UsageError(f"{output} is a file to predict on.", hint="Name another output.")


def _json_rows(names: List[str], predictions: Columns) -> List[Dict[str, Any]]:
    return [
        dict(
            {"file": name}, **{column: values[i].tolist() for column, values in predictions.items()}
        )
        for i, name in enumerate(names)
    ]


# What a line with the best classes says in another way.
_OF_CLASSES = ("label", "class", "probability", "probabilities")


def _print(
    names: List[str],
    predictions: Columns,
    classes: Optional[List[List[Tuple[str, float]]]],
) -> None:
    """Print a line per example: its best classes, other numbers in full, arrays by their shape."""
    others = {n: v for n, v in predictions.items() if classes is None or n not in _OF_CLASSES}
    for i, name in enumerate(names):
        cells = [f"{class_name} {share:.2f}" for class_name, share in classes[i]] if classes else []
        cells += [f"{column} {_format(values[i])}" for column, values in others.items()]
        sys.stdout.write(escape_line(f"{name}  {'  '.join(cells)}") + "\n")
    if any(values.ndim > 1 for values in others.values()):
        sys.stderr.write("Arrays are shown by their shape; --json or -o FILE has their values.\n")


def _format(value: Any) -> str:
    if getattr(value, "shape", ()):
        return f"[{'x'.join(map(str, value.shape))}]"
    return f"{value:.4f}" if value.dtype.kind == "f" else str(value)


def _write_json(
    path: str, names: List[str], predictions: Columns, class_names: Sequence[str]
) -> None:
    from ..files import write_json

    write_json(path, _json_rows(names, predictions))


def _write_csv(
    path: str, names: List[str], predictions: Columns, class_names: Sequence[str] = ()
) -> None:
    """Write a row per example, with a column per element of a vector: probability_CLASS, NAME3."""
    import csv

    from ..files import atomic_write

    flat = {name: values.reshape(len(names), -1) for name, values in predictions.items()}
    header = ["file"]
    for name, values in flat.items():
        is_scalar = predictions[name].ndim == 1
        if name == "probabilities" and values.shape[1] == len(class_names):
            header += [f"probability_{class_name}" for class_name in class_names]
        else:
            header += [name] if is_scalar else [f"{name}{i}" for i in range(values.shape[1])]
    with atomic_write(path) as file:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
        writer = csv.writer(text)
        writer.writerow(map(table_cell, header))
        for i, name in enumerate(names):
            cells = [cell for values in flat.values() for cell in values[i]]
            writer.writerow([table_cell(name), *map(_csv_value, cells)])
        text.detach()  # leaves the file open


def _csv_value(value: Any) -> Any:
    """A number as it is; a text without control characters and formulas."""
    return table_cell(value) if isinstance(value, str) else value


def _write_npz(
    path: str, names: List[str], predictions: Columns, class_names: Sequence[str]
) -> None:
    import numpy as np

    from ..files import atomic_write

    arrays: Dict[str, Any] = dict(predictions, files=np.array(names))  # savez has a "file" itself
    with atomic_write(path) as file:
        np.savez_compressed(file, **arrays)
