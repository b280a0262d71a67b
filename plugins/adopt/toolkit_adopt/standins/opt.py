"""`tf.contrib.opt.ScipyOptimizerInterface`: a loss that SciPy minimizes by calls of a session."""

from __future__ import annotations

import importlib
from typing import Any, Callable, List

import numpy as np

from toolkit import tf


class ScipyOptimizerInterface:
    """Minimizes a scalar by `scipy.optimize.minimize`, whose arguments are the last ones.

    Equalities are tensors to hold zero, inequalities not below; `var_to_bounds` has for a variable
    its least and its largest values.
    """

    def __init__(
        self, loss, var_list=None, equalities=None, inequalities=None, var_to_bounds=None, **options
    ):
        self._variables = list(tf.trainable_variables() if var_list is None else var_list)
        self._shapes = [each.shape.as_list() for each in self._variables]
        self._ends = np.cumsum([int(np.prod(shape)) for shape in self._shapes])
        self._new = [tf.placeholder(each.dtype.base_dtype, each.shape) for each in self._variables]
        self._updates = [tf.assign(*each) for each in zip(self._variables, self._new)]
        self._start = self._pack(self._variables)
        self._loss, self._gradient = loss, self._gradient_of(loss)
        self._constraints = [
            (kind, each, self._gradient_of(each))
            for kind, tensors in (("eq", equalities), ("ineq", inequalities))
            for each in tensors or ()
        ]
        self.optimizer_kwargs = {"method": "L-BFGS-B", **options}
        if var_to_bounds is not None:
            bounds: List[Any] = []
            for each, shape in zip(self._variables, self._shapes):
                sides = var_to_bounds.get(each, (-np.inf, np.inf))
                bounds += zip(*(np.broadcast_to(side, shape).ravel() for side in sides))
            self.optimizer_kwargs["bounds"] = bounds

    @staticmethod
    def _pack(tensors: Any) -> Any:
        return tf.concat([tf.reshape(each, [-1]) for each in tensors], 0)

    def _gradient_of(self, tensor: Any) -> Any:
        found = zip(tf.gradients(tensor, self._variables), self._variables)
        return self._pack([tf.zeros_like(var) if g is None else g for g, var in found])

    def _unpack(self, values: Any) -> Any:
        parts = zip(np.split(values, self._ends[:-1]), self._shapes)
        return [part.reshape(shape) for part, shape in parts]

    def minimize(
        self,
        session=None,
        feed_dict=None,
        fetches=None,
        step_callback=None,
        loss_callback=None,
        **run_kwargs,
    ):
        """Give the variables the values that minimize the loss, in the last call of the session.

        `loss_callback` gets the fetches at each evaluation of the loss, `step_callback` all values
        of the variables, in a row, after each step.
        """
        session, fetches = session or tf.get_default_session(), list(fetches or [])

        def compute(tensors: Any, callback: Any = None) -> Callable[[Any], Any]:
            def evaluate(values: Any) -> Any:
                feeds = {**dict(zip(self._variables, self._unpack(values))), **(feed_dict or {})}
                found = session.run([*tensors, *fetches], feeds)
                if callback is not None:
                    callback(*found[len(tensors) :])
                found = [np.asarray(each, np.float64) for each in found[: len(tensors)]]
                return found if len(tensors) > 1 else found[0]

            return evaluate

        constraints = [
            {"type": kind, "fun": compute([each]), "jac": compute([gradient])}
            for kind, each, gradient in self._constraints
        ]
        result = importlib.import_module("scipy.optimize").minimize(
            compute([self._loss, self._gradient], loss_callback),
            np.asarray(session.run(self._start), np.float64),
            jac=True,
            callback=step_callback,
            constraints=constraints,
            **self.optimizer_kwargs,
        )
        tf.logging.info("Optimization terminated with: %s", result.message)
        session.run(self._updates, dict(zip(self._new, self._unpack(result.x))), **run_kwargs)
