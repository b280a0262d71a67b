"""Random ops as functions of seed, name and call: the same call draws the same numbers again.

While the graph is built, the functions of TensorFlow's `gen_random_ops` that make stateful ops are
replaced by ones that make stateless ops. Their seed is a hash of the run's seed, of the op's name
and of the seeds that the script gave, with the number of the session call, which a hidden
placeholder has. In a loop the turn belongs to the seed: `WhileContext.BuildLoop` is replaced by one
that counts. An op of a function of `tf.data`, or without a stateless form, stays as it is; there
`random_seed.get_seed` never takes a seed from the system. All is put back when the script ends.
"""

from __future__ import annotations

import hashlib
import weakref
from typing import Any, Dict, List, Mapping, Tuple

import numpy as np
from tensorflow.python.framework import ops, random_seed
from tensorflow.python.ops import control_flow_ops, gen_random_ops
from tensorflow.python.ops import gen_stateless_random_ops as stateless

from toolkit import tf

from .patches import Patches

CALL = "toolkit_adopt_call"  # the name of the hidden placeholder
STATEFUL = (  # ops whose kernels remember how much they drew
    *("RandomStandardNormal", "RandomUniform", "RandomUniformInt", "TruncatedNormal"),
    *("RandomGamma", "RandomPoisson", "RandomPoissonV2", "Multinomial", "RandomShuffle"),
    *("ParameterizedTruncatedNormal", "SampleDistortedBoundingBoxV2", "RandomCrop"),
    *("LogUniformCandidateSampler", "UniformCandidateSampler", "FixedUnigramCandidateSampler"),
    *("LearnedUnigramCandidateSampler", "ThreadUnsafeUnigramCandidateSampler"),
)


def _shuffle(numbers: Any, name: Any, value: Any) -> Any:
    value = tf.convert_to_tensor(value)
    keys = stateless.stateless_random_uniform(tf.shape(value)[:1], numbers, tf.float32)
    return tf.gather(value, tf.argsort(keys), name=name)


# A function of `gen_random_ops`: the stateless form, of a seed int32 [2], a name and its arguments.
_FORMS = {
    "random_standard_normal": lambda numbers, name, shape, dtype: stateless.stateless_random_normal(
        shape, numbers, dtype, name
    ),
    "truncated_normal": lambda numbers, name, shape, dtype: stateless.stateless_truncated_normal(
        shape, numbers, dtype, name
    ),
    "random_uniform": lambda numbers, name, shape, dtype: stateless.stateless_random_uniform(
        shape, numbers, dtype, name
    ),
    "random_uniform_int": lambda numbers, name, *args: stateless.stateless_random_uniform_int(
        args[0], numbers, *args[1:], name=name
    ),
    "multinomial": lambda numbers, name, *args, output_dtype=tf.int64: (
        stateless.stateless_multinomial(*args, numbers, output_dtype, name)
    ),
    "random_shuffle": _shuffle,
}


def make_stateless(patches: Patches, seed: int) -> None:
    """Patch the functions that make random ops.

    Args:
        patches: puts them back.
        seed: of the run.
    """
    fix_op_seeds(patches, seed)
    turns: Any = weakref.WeakKeyDictionary()  # the context of a loop -> its turn, int32 []
    patches.wrap(control_flow_ops.WhileContext, "BuildLoop", _counting(turns))
    for function, form in _FORMS.items():
        patches.wrap(gen_random_ops, function, _drawing(function, form, seed, turns))


def fix_op_seeds(patches: Patches, seed: int) -> None:
    """Let an op without a seed get one that follows from the run's seed and its place in the graph.

    Args:
        patches: puts the function back.
        seed: of the run.
    """

    def get_seed(original: Any, op_seed: Any) -> Tuple[Any, Any]:
        graph = ops.get_default_graph()
        if op_seed is None and graph.seed is None:
            place = graph.version & 0x7FFFFFFF or 0x7FFFFFFF  # two zeros: a seed from the system
            return seed & 0x7FFFFFFF, place
        pair: Tuple[Any, Any] = original(op_seed)
        return pair

    for module in (random_seed, tf):
        patches.wrap(module, "get_seed", get_seed)
    patches.wrap(tf.random, "get_seed", get_seed)


def _counting(turns: Any) -> Any:
    """What is called in place of the method that builds a loop: one more variable has its turn."""

    def build(original, context, pred, body, values, shapes, return_same_structure):
        made: List[Any] = []  # what the body returns

        def counted(*values_and_turn):
            *values, turns[context] = values_and_turn
            result = body(*values)
            made.append(result if isinstance(result, (list, tuple)) else [result])
            return [*made[0], turns[context] + 1]

        results = original(
            context,
            lambda *values_and_turn: pred(*values_and_turn[:-1]),
            counted,
            [*values, tf.constant(0)],
            None if shapes is None else [*shapes, tf.TensorShape([])],
            True,
        )[:-1]
        if len(tf.nest.flatten(results, expand_composites=True)) == 1 and not return_same_structure:
            return results[0]
        return getattr(made[0], "_make", type(made[0]))(results)

    return build


def _drawing(function: str, form: Any, run_seed: int, turns: Any) -> Any:
    """What is called in place of a function that makes a stateful op."""

    def draw(original, *args, seed=0, seed2=0, name=None, **more):
        graph = ops.get_default_graph()
        loops = _loops_around(graph._get_control_flow_context())
        if type(graph) is not ops.Graph or any(loop not in turns for loop in loops):
            return original(*args, seed=seed, seed2=seed2, name=name, **more)
        numbers = _seed_of(graph, name or function, (run_seed, seed, seed2))
        turn: Any = 0
        for loop in loops:
            turn = turn * 0x1000193 + turns[loop]
        return form(numbers + [turn, 0] if loops else numbers, name, *args, **more)

    return draw


def _loops_around(context: Any) -> List[Any]:
    """The contexts of the loops around an op, the outermost first."""
    loop = context and context.GetWhileContext()
    return [*_loops_around(loop.outer_context), loop] if loop else []


def _seed_of(graph: Any, name: str, seeds: Tuple[Any, ...]) -> Any:
    """The seed of a stateless op, int32 [2]: a number of its own, and that of the call."""
    scope = graph.unique_name(name, mark_as_used=False)
    text = f"{scope} {seeds}"
    number = int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "little") & 0x7FFFFFFF
    with graph.control_dependencies(None):
        return tf.stack([tf.constant(number, tf.int32), call_placeholder(graph)])


def with_number(graph: Any, feeds: Mapping[Any, Any], number: int) -> Dict[Any, Any]:
    """The feeds of a call, and its number where random ops of the graph need it."""
    call = _find_placeholder(graph)
    value = np.asarray(number & 0x7FFFFFFF, np.int32)
    return dict(feeds) if call is None else {**feeds, call: value}


def _find_placeholder(graph: Any) -> Any:
    try:
        return graph.get_tensor_by_name(CALL + ":0")
    except KeyError:
        return None


def call_placeholder(graph: Any) -> Any:
    """The hidden placeholder of a graph, int32 [].

    Its default is 0, so that a graph which the script exports runs elsewhere, too.
    """
    found = _find_placeholder(graph)
    if found is not None:
        return found
    with graph.control_dependencies(None), graph.name_scope(None):
        return tf.placeholder_with_default(tf.constant(0, tf.int32), [], name=CALL)
