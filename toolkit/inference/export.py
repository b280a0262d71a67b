"""Write a trained model as a SavedModel, and compare what was written with its origin."""

from __future__ import annotations

import os
import secrets
import shutil
from typing import Any, Dict, Optional

import numpy as np

from ..compat import tf
from ..data.named import drawn
from ..errors import CheckFailed, UsageError
from .evaluator import Evaluator

SIGNATURE = "serving_default"
TOLERANCE = 1e-5
CHECKED_ON = 8


def export(
    evaluator: Evaluator, folder: str, inputs: Optional[Dict[str, np.ndarray]] = None
) -> Dict[str, Any]:
    """Write what the evaluator (mode "predict") holds to `folder`, which must be empty or new.

    The signature `serving_default` takes `features` [N, ...] of the data's dtype (uint8 images in
    [0, 255]), or what the plugin's hook `inputs` names, and gives each tensor of its `predict`.
    Loading it initialises its local variables. The written model is loaded again and must predict
    the same on `inputs`, by default on a few that are drawn. Raises UsageError, CheckFailed.
    """
    if os.path.exists(folder) and (not os.path.isdir(folder) or os.listdir(folder)):
        raise UsageError(f"{folder} is not empty.", hint="Name a new folder.")
    inputs = drawn(evaluator.graph.input_specs, CHECKED_ON) if inputs is None else inputs
    part = f"{os.path.abspath(folder)}.part-{secrets.token_hex(2)}"
    try:
        _write(evaluator, part)
        difference = _largest_difference(evaluator, part, inputs)
        if not difference <= TOLERANCE:
            raise CheckFailed(
                f"The exported model differs by {difference:.2g} from the trained one, "
                f"allowed {TOLERANCE:g}."
            )
        if os.path.isdir(folder):
            os.rmdir(folder)
        os.replace(part, os.path.abspath(folder))
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return {
        "folder": folder,
        "signature": SIGNATURE,
        "inputs": sorted(evaluator.graph.placeholders),
        "outputs": sorted(evaluator.graph.predictions),
        "largest_difference": difference,
        "checked_on": min(map(len, inputs.values())),
    }


def _write(evaluator: Evaluator, folder: str) -> None:
    info = tf.saved_model.utils.build_tensor_info
    graph = evaluator.graph
    signature = tf.saved_model.signature_def_utils.build_signature_def(
        inputs={name: info(placeholder) for name, placeholder in graph.placeholders.items()},
        outputs={name: info(tensor) for name, tensor in graph.predictions.items()},
        method_name=tf.saved_model.signature_constants.PREDICT_METHOD_NAME,
    )
    with graph.graph.as_default():
        builder = tf.saved_model.builder.SavedModelBuilder(folder)
        builder.add_meta_graph_and_variables(
            evaluator.session,
            [tf.saved_model.tag_constants.SERVING],
            signature_def_map={SIGNATURE: signature},
            saver=evaluator.saver,
        )
        builder.save()


def _largest_difference(evaluator: Evaluator, folder: str, inputs: Dict[str, np.ndarray]) -> float:
    expected = evaluator.predict(inputs)
    with tf.Graph().as_default(), tf.Session() as session:
        loaded = tf.saved_model.loader.load(session, [tf.saved_model.tag_constants.SERVING], folder)
        signature = loaded.signature_def[SIGNATURE]
        fetches = {name: info.name for name, info in signature.outputs.items()}
        feed = {signature.inputs[name].name: array for name, array in inputs.items()}
        found = session.run(fetches, feed)
    differences = [
        float(np.max(np.abs(expected[n].astype(np.float64) - found[n].astype(np.float64))))
        for n in expected
        if expected[n].dtype.kind in "fiu" and expected[n].size
    ]
    return max(differences, default=0.0)
