"""Checkpoints without a run, and the variables of a model or a checkpoint written as a text."""

import numpy as np

from toolkit import tf
from toolkit.storage.variables import VariableSpec


def side(text):
    """name -> VariableSpec: "linear/w:36,3 step: half:2:float16" are three variables, float32 where
    nothing is said.
    """
    specs = {}
    for word in text.split():
        name, shape, dtype = (word + "::").split(":")[:3]
        specs[name] = VariableSpec([int(n) for n in shape.split(",") if n], dtype or "float32")
    return specs


def save(path, values):
    """Let tf.train.Saver write values by name, float32 unless they have a dtype; its prefix."""
    with tf.Graph().as_default(), tf.Session() as session:
        for name, value in values.items():
            array = np.asarray(value, getattr(value, "dtype", np.float32))
            tf.get_variable(name, initializer=tf.constant(array))
        session.run(tf.global_variables_initializer())
        return tf.train.Saver().save(session, str(path), write_meta_graph=False)
