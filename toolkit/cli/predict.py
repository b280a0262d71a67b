"""`toolkit predict`: apply a trained model to image files, tables, TFRecord, .npz and IDX files."""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Sequence, Tuple

import click

from .. import cli_options as shared
from ..display.escapes import escape_line, table_cell
from ..errors import DataError, UsageError
from ..files import atomic_write, write_json
from ..storage.run_folder import open_run
from .common import flag, model_flags, say, switch, tta_option

if TYPE_CHECKING:
    import numpy as np

    Columns = Dict[str, np.ndarray]  # name -> one value or array per example


@click.command()
@click.argument("run_folder", metavar="RUN")
@click.argument("files", nargs=-1, required=True, metavar="FILES...")
@shared.checkpoint_option
@flag("-o --output", "FILE", "Write to FILE, .json, .csv or .npz, which is overwritten.")
@switch("--features", "Also print the model's features.")
@switch("--invert is_inverted", "Swap light and dark, if the training images are the reverse.")
@tta_option
@model_flags
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

    FILES may be patterns, and folders of images. The files are used as the training data was; only
    images of another size are scaled. An image that cannot be read is left out, and the command
    ends with the exit code 4. A warning says if the images look inverted in comparison with the
    training images.

    A model whose input is not an example of the data, such as a generator, takes .npz files with
    an array for each of its inputs.
    """
    if output is not None and not output.endswith(tuple(_WRITERS)):
        raise click.UsageError(f"{output}: the output ends in .json, .csv or .npz.")
    path = "" if output is None else shared.resolve_output(output)
    open_run(run_folder)  # a mistake is said before the import of TensorFlow
    from ..api import open_trained
    from ..inference.predict import best_classes, columns, expand_paths, read_examples

    files = expand_paths(files)
    if os.path.exists(path) and path in map(os.path.realpath, files):
        raise UsageError(f"{path} is a file to predict on.", hint="Name another output.")
    with open_trained(run_folder, checkpoint, shared.warn) as model:
        model.set_tta(tta)
        examples = read_examples(model, files, is_inverted, lambda text: say(escape_line(text)))
        class_names = model.data.class_names
        arrays = columns(model.predictor.predict(examples.inputs), class_names, features)
        predictions = {name: _decode(array) for name, array in arrays.items()}
    if output is not None:
        with shared.writing_output(output):
            _WRITERS[output[output.rindex(".") :]](path, examples.names, predictions, class_names)
        sys.stderr.write(f"{len(examples.names)} predictions in {output}\n")
    if as_json:
        shared.print_json(_json_rows(examples.names, predictions))
    elif output is None:
        _print(examples.names, predictions, best_classes(predictions, class_names))
    if examples.faults:
        raise DataError(
            f"{len(examples.faults)} of {len(files)} files cannot be read; the predictions are "
            "those of the others."
        )


def _decode(array: Any) -> Any:
    """The texts of an array of bytes; another array as it is."""
    import numpy as np

    is_text = array.dtype == object
    return np.char.decode(array.astype(bytes), "utf-8", "replace") if is_text else array


def _json_rows(names: List[str], predictions: Columns) -> List[Dict[str, Any]]:
    return [
        {"file": name, **{column: values[i].tolist() for column, values in predictions.items()}}
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
    return str(value)


def _write_csv(
    path: str, names: List[str], predictions: Columns, class_names: Sequence[str] = ()
) -> None:
    """Write a row per example, with a column per element of a vector: probability_CLASS, NAME3."""
    import csv

    import numpy as np

    flat = {n: x.reshape(len(names), int(np.prod(x.shape[1:]))) for n, x in predictions.items()}
    header = ["file"]
    for name, values in flat.items():
        if name == "probabilities" and values.shape[1] == len(class_names):
            header += [f"probability_{class_name}" for class_name in class_names]
        elif predictions[name].ndim == 1:
            header.append(name)
        else:
            header += [f"{name}{i}" for i in range(values.shape[1])]
    rows = ([name, *(cell for v in flat.values() for cell in v[i])] for i, name in enumerate(names))
    with atomic_write(path) as file:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
        for row in (header, *rows):  # texts without control characters and formulas
            cells = [table_cell(cell) if isinstance(cell, str) else cell for cell in row]
            csv.writer(text).writerow(cells)
        text.detach()  # leaves the file open


def _write_npz(path: str, names: List[str], predictions: Columns, *_: Any) -> None:
    import numpy as np

    arrays: Dict[str, Any] = dict(predictions, files=np.array(names))  # savez has a "file" itself
    with atomic_write(path) as file:
        np.savez_compressed(file, **arrays)


_WRITERS: Dict[str, Callable[..., None]] = {
    ".json": lambda path, names, columns, *_: write_json(path, _json_rows(names, columns)),
    ".csv": _write_csv,
    ".npz": _write_npz,
}
