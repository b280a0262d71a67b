"""Write a trained model as a SavedModel and check it against the original."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from typing import Any, Callable, Dict, Iterator, Optional, Sequence

import numpy as np

from ..cli_options import writing_output
from ..compat import VERSION, tf
from ..data.named_arrays import random_arrays
from ..errors import CheckFailed, ToolkitError, UsageError
from ..files import plain_folder
from .evaluator import Evaluator

SIGNATURE = "serving_default"
TOLERANCE = 1e-5  # the largest `difference` allowed between any two outputs
NUM_CHECKED = 8  # random examples that the outputs are compared on


def export(
    evaluator: Evaluator, folder: str, read_inputs: Optional[Callable[[], Any]] = None
) -> Dict[str, Any]:
    """Write the evaluator's model to `folder`, load it again and compare its predictions.

    The signature `serving_default` takes `features` [N, ...] of the data's dtype (uint8 images in
    [0, 255]), the features by their names, or the inputs that the plugin's hook `inputs` names. It
    returns each tensor of the hook `predict`. The SavedModel begins behind the hooks `filter` and
    `convert`, which are Python. TensorFlow from the version that wrote it on can load it.

    The evaluator is in mode "predict", with a loaded checkpoint; the folder is new or empty.
    `read_inputs` returns examples to compare on, arrays by name, or None if there are none. It is
    called where the model is fed more than images and floats. Returns JSON values. Raises
    UsageError if the folder is not empty or may not be written, or the model refuses random inputs
    and no example can be read; and, where nothing is written, CheckFailed if the predictions
    differ, RetryError if the disk is full.
    """
    inputs = _choose_inputs(evaluator, read_inputs)
    return {
        "folder": folder,
        "signature": SIGNATURE,
        "inputs": sorted(evaluator.graph.placeholders),
        "outputs": sorted(evaluator.graph.predictions),
        "largest_difference": _write_and_check(evaluator, folder, inputs),
        "checked_on": min(map(len, inputs.values())),
        "tensorflow": VERSION,
        "input_hooks": evaluator.input_hooks,
    }


def _choose_inputs(
    evaluator: Evaluator, read_inputs: Optional[Callable[[], Any]]
) -> Dict[str, np.ndarray]:
    """Arrays to compare on, by name: random ones, or examples where these may be no inputs."""
    specs = evaluator.graph.input_specs
    is_plain = all(dtype in ("uint8", "float32") for dtype, _ in specs.values())
    read = read_inputs if evaluator.graph.takes_examples else None
    arrays = None if is_plain or read is None else read()
    arrays = arrays or random_arrays(specs, NUM_CHECKED)
    try:
        evaluator.predict(arrays)
    except ToolkitError as error:
        # Of an embedding: an id that does not exist.
        if not isinstance(error.__cause__, tf.errors.InvalidArgumentError):
            raise
        arrays = read() if is_plain and read is not None else None
        if arrays:
            return arrays
        raise UsageError(
            f"The model refuses made-up inputs, on which it would be compared: {error.message}",
            hint="Put the data of the run back, so that its examples can be read.",
        ) from error
    return arrays


def describe_input_hooks(hooks: Sequence[str]) -> str:
    """What a caller of the SavedModel has to do before it, with one hook or more."""
    names = " and ".join(f"'{name}'" for name in hooks)
    return (
        f"The SavedModel begins behind the plugin's {names}: give it examples as "
        f"{'these hooks return' if len(hooks) > 1 else 'this hook returns'} them."
    )


def _write_and_check(evaluator: Evaluator, folder: str, inputs: Dict[str, np.ndarray]) -> float:
    """Write the folder beside its place, and move it there if the predictions are the same."""
    folder = os.path.realpath(folder)  # in the place of a link
    if os.path.exists(folder) and (not os.path.isdir(folder) or os.listdir(folder)):
        raise UsageError(f"{folder} is not empty.", hint="Name a new folder.")
    temporary = f"{folder}.part-{secrets.token_hex(2)}"
    try:
        with _writing(folder):
            os.makedirs(temporary)
        with plain_folder(temporary) as plain:
            with _writing(folder):
                _write(evaluator, plain)
            largest = _largest_difference(evaluator, plain, inputs)
        if not largest <= TOLERANCE:
            raise CheckFailed(
                f"The exported model differs by {largest:.2g} from the trained one; "
                f"{TOLERANCE:g} is allowed."
            )
        with _writing(folder):
            if os.path.isdir(folder):
                os.rmdir(folder)
            os.replace(temporary, folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return largest


@contextlib.contextmanager
def _writing(folder: str) -> Iterator[None]:
    """As `writing_output`, also where TensorFlow says `PATH/FILE; File too large`."""
    with writing_output(folder):
        try:
            yield
        except tf.errors.OpError as error:
            line = str(error.message).partition("\n")[0]
            if "; " not in line:
                raise
            raise OSError(line.rpartition("; ")[2].rstrip(".")) from error


def _write(evaluator: Evaluator, folder: str) -> None:
    info = tf.saved_model.utils.build_tensor_info
    graph = evaluator.graph
    signature = tf.saved_model.signature_def_utils.build_signature_def(
        inputs={name: info(placeholder) for name, placeholder in graph.placeholders.items()},
        outputs={name: info(tensor) for name, tensor in graph.predictions.items()},
        method_name=tf.saved_model.signature_constants.PREDICT_METHOD_NAME,
    )
    with graph.tf_graph.as_default():
        builder = tf.saved_model.builder.SavedModelBuilder(folder)
        builder.add_meta_graph_and_variables(
            evaluator.session,
            [tf.saved_model.tag_constants.SERVING],
            signature_def_map={SIGNATURE: signature},
            saver=evaluator.saver,
            strip_default_attrs=True,
        )
        builder.save()


def _largest_difference(evaluator: Evaluator, folder: str, inputs: Dict[str, np.ndarray]) -> float:
    """The largest absolute difference between predictions of the original and the SavedModel."""
    expected = evaluator.predict(inputs)
    with tf.Graph().as_default(), tf.Session() as session:
        tags = [tf.saved_model.tag_constants.SERVING]
        signature = tf.saved_model.loader.load(session, tags, folder).signature_def[SIGNATURE]
        fetches = {name: info.name for name, info in signature.outputs.items()}
        feeds = {signature.inputs[name].name: array for name, array in inputs.items()}
        outputs = session.run(fetches, feeds)
    return max((difference(expected[n], outputs[n]) for n in expected), default=0.0)


def difference(expected: np.ndarray, actual: np.ndarray) -> float:
    """The largest difference of two arrays, of floats as a share of the largest one if that is
    beyond 1; infinite where it is that of no two finite numbers.
    """
    if expected.dtype.kind not in "fiu":
        return 0.0 if np.array_equal(expected, actual) else float("inf")
    is_float = expected.dtype.kind == "f"
    expected, actual = expected.astype(np.float64), actual.astype(np.float64)
    scale = np.max(np.abs(expected[np.isfinite(expected)]), initial=1.0) if is_float else 1.0
    is_equal = (expected == actual) | (np.isnan(expected) & np.isnan(actual))
    with np.errstate(invalid="ignore"):  # an infinite number less another one
        sizes = np.abs(expected - actual) / scale
    return float(
        np.max(np.where(is_equal, 0.0, np.where(np.isnan(sizes), np.inf, sizes)), initial=0.0)
    )
