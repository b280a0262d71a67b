"""Seeds of what a graph draws while it is built, so that a resume builds the same graph.

Initial values of variables are a function of (run seed, name of the variable) alone. TensorFlow's
initializers without a seed, those of Keras and tf.layers included, take one from the number of ops
in the graph: an extension that adds an op would change all weights. Draws of numpy's and Python's
global generators are constants of the graph. The generators are seeded for each build, and set back
behind it; where a step draws, the run notes that its numbers are the same in every step.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import random
import re
import sys
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Sequence, Tuple

import numpy as np

from ..compat import tf
from .ops import upstream
from .randomness import seed_of

_DRAW = re.compile(r"\b(?:np|numpy)\.random\.\w|\brandom\.\w+\(")
_UNSET = (0, 0)  # the seeds of a random op where neither the graph nor the op has one


class InitialFit(NamedTuple):
    """Variables, and the function that computes their initial values from the training data."""

    variables: List[Any]
    function: Callable[[Any], Sequence[Any]]  # from the training `Split` to an array for each
    is_of_data: bool = False  # whether they replace those of weights that a run starts with


@contextlib.contextmanager
def seed_initial_values(seed: int) -> Iterator[None]:
    """Give each random op without a seed that the block creates one of its own.

    It follows from the run's seed and the name of the first variable whose initial value needs the
    op, or else from the op's name. Seeds that the user set stay.
    """
    graph = tf.get_default_graph()
    graph_seed, graph.seed = graph.seed, None  # without it, an op shows whether it has a seed
    explicit_seed = tf.get_seed(0)[0]  # the graph's seed in ops that have one of their own
    num_ops, variables_before = len(graph.get_operations()), {v.op.name for v in _variables()}
    try:
        with tf.variable_creator_scope(_keras_creator(seed)):
            yield
    finally:
        if graph.seed is None:
            graph.seed = graph_seed
    new = graph.get_operations()[num_ops:]
    one_of_type = {op.type: op for op in new}  # a definition of each op would take time
    types = {name for name, op in one_of_type.items() if "seed2" in op.node_def.attr}
    ops = [op for op in new if op.type in types]
    unset = {op.name for op in ops if _seeds(op) == _UNSET}
    names: Dict[str, str] = {}  # of an op -> of its seed, for the ops that initial values need
    for variable in _variables():
        if variable.op.name not in variables_before:
            needs = upstream([variable.initializer], with_control=False)
            of_variable = sorted({op.name for op in needs} & unset - set(names))
            for number, op_name in enumerate(of_variable):
                suffix = f"/{number}" if number else ""
                names[op_name] = f"initializer/{variable.op.name}{suffix}"
    for op in ops:
        if op.name in unset:
            _set_seeds(op, graph_seed, seed_of(seed, names.get(op.name, f"op/{op.name}")))
        elif _seeds(op)[0] == explicit_seed:
            _set_seeds(op, graph_seed, _seeds(op)[1])


def _keras_creator(seed: int) -> Callable[..., Any]:
    """A variable creator for initializers of Keras that have a generator of their own.

    Without a seed, they take one from Python's `random` when they are created.
    """

    def make_value(initializer, *args, **kwargs):
        # The seed is from the name of the variable whose value is being built.
        name = tf.get_default_graph().get_name_scope().rpartition("/")[0]
        config = dict(initializer.get_config(), seed=seed_of(seed, f"initializer/{name}"))
        return type(initializer).from_config(config)(*args, **kwargs)

    def create(next_creator, **kwargs):
        value = kwargs.get("initial_value")
        initializer: Any = getattr(value, "func", None)  # of a functools.partial
        if hasattr(initializer, "_random_generator") and initializer.get_config()["seed"] is None:
            assert isinstance(value, functools.partial)
            kwargs["initial_value"] = functools.partial(
                make_value, initializer, *value.args, **value.keywords
            )
        return next_creator(**kwargs)

    return create


def _variables() -> List[Any]:
    return tf.global_variables() + tf.local_variables()


def _seeds(op: Any) -> Tuple[int, int]:
    return op.get_attr("seed"), op.get_attr("seed2")


def _set_seeds(op: Any, seed: int, seed2: int) -> None:
    for name, value in (("seed", seed), ("seed2", seed2)):
        op._set_attr(name, tf.AttrValue(i=value))  # no public way changes an op


# ------------------------------------------------------------------------------ global generators


@contextlib.contextmanager
def seeded_generators(seed: int) -> Iterator[None]:
    """Seed the global generators in the block, and set them back behind it."""
    states = np.random.get_state(), random.getstate()
    np.random.seed(seed)
    random.seed(seed)
    try:
        yield
    finally:
        np.random.set_state(states[0])
        random.setstate(states[1])


@contextlib.contextmanager
def noted_draws(plugins: Any, hook: str, note: Callable[[str], None]) -> Iterator[None]:
    """Call `note` with one sentence if the hook that the block calls draws from a generator."""

    def positions() -> Any:
        _, keys, position, *_ = np.random.get_state()
        return position, int(keys[0]), int(keys[-1]), hash(random.getstate())

    before = positions()
    yield
    for function in [] if positions() == before else plugins.hook_functions(hook):
        with contextlib.suppress(OSError, TypeError):  # a module without a source
            source = inspect.getsource(sys.modules[function.function.__module__])
            if _DRAW.search(source):  # else a library drew, Keras for a seed for example
                note(
                    f"random numbers of numpy or Python in the hook '{hook}' of plugin "
                    f"'{function.plugin.name}' are drawn once, for all steps; use run.uniform, "
                    "run.normal or run.dropout"
                )
                return
