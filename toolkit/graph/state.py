"""Variables for what plugins carry from step to step; see `Run.state`."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from ..compat import tf
from ..errors import ToolkitError

SCOPE = "state/"  # of the variables, for their names in checkpoints


def create_state(name: str, initial: Any) -> tf.Variable:
    """Create the variable `state/NAME`, which is not trained. See `Run.state`."""
    full_name = SCOPE + name
    if any(v.op.name == full_name for v in tf.global_variables()):
        raise ToolkitError(
            f"Two plugins, or one plugin twice, create the state '{name}'.",
            hint="Begin its name with that of the plugin.",
        )
    if not re.match(r"[A-Za-z0-9.][A-Za-z0-9_.\\/-]*$", name):
        raise ToolkitError(
            f"'{name}' is no name of a state.",
            hint="Use letters, digits and the characters _ . / -, a letter or digit first.",
        )
    if isinstance(initial, (float, list, np.ndarray)):
        initial = np.asarray(initial)
        initial = initial.astype(np.float32) if initial.dtype == np.float64 else initial
    with tf.init_scope(), tf.name_scope(None):
        return tf.Variable(initial, trainable=False, name=full_name, use_resource=True)
