"""Random ops as functions of seed and call: the same call draws the same numbers again.

While the graph is built, the functions of TensorFlow's `gen_random_ops` that make stateful ops are
replaced by ones that make stateless ops. Their seed is a hash of the run's seed and of the op's
two, with the number of the session call, which a hidden placeholder has: ops with the same seeds
draw the same numbers, as in TensorFlow, and one without a seed gets one that no other has. In a
loop the turn belongs to the seed: the loop gets a counter, as for gradients.
An op of a function of `tf.data`, or without a stateless form, stays as it is; there
`random_seed.get_seed` never takes a seed from the system. All is put back when the script ends.
"""

from __future__ import annotations

import hashlib
import weakref
from typing import Any, Dict, List, Mapping, Tuple

import numpy as np
from tensorflow.python.framework import ops, random_seed
from tensorflow.python.ops import gen_image_ops, gen_random_ops
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


def _shuffle(value: Any, numbers: Any, name: Any) -> Any:
    value = tf.convert_to_tensor(value)
    keys = stateless.stateless_random_uniform(tf.shape(value)[:1], numbers, tf.float32)
    return tf.gather(value, tf.argsort(keys), name=name)


_FORMS = {  # a function of `gen_random_ops`: the stateless form, how many arguments precede a seed
    "random_standard_normal": (stateless.stateless_random_normal, 1),
    "truncated_normal": (stateless.stateless_truncated_normal, 1),
    "random_uniform": (stateless.stateless_random_uniform, 1),
    "random_uniform_int": (stateless.stateless_random_uniform_int, 1),
    "multinomial": (stateless.stateless_multinomial, 2),
    "random_shuffle": (_shuffle, 1),
}


def make_stateless(patches: Patches, seed: int) -> None:
    """Patch the functions that make random ops, whose numbers follow from the seed of a run."""
    fix_op_seeds(patches, seed)
    turns: Any = weakref.WeakKeyDictionary()  # the context of a loop -> its turn, int32 []
    for function in _FORMS:
        patches.wrap(gen_random_ops, function, _drawing(function, seed, turns))


def fix_op_seeds(patches: Patches, seed: int) -> None:
    """Let an op without a seed get one that follows from the graph's or the run's and its place."""

    def get_seed(original: Any, op_seed: Any) -> Tuple[Any, Any]:
        graph, place = ops.get_default_graph(), 0
        if op_seed is not None:
            pair: Tuple[Any, Any] = original(op_seed)
            return pair
        first = seed if graph.seed is None else graph.seed
        while graph is not None:  # a function has a graph of its own
            place = place * 0x1000193 + graph.version
            graph = getattr(graph, "outer_graph", None)
        return first & 0x7FFFFFFF, place & 0x3FFFFFFF | 0x40000000  # above those of a script

    for module in (random_seed, tf, tf.random):
        patches.wrap(module, "get_seed", get_seed)

    def sample_box(original: Any, *args: Any, seed: Any = 0, seed2: Any = 0, **more: Any) -> Any:
        if not seed and not seed2:  # which its callers give it without a look at `get_seed`
            seed, seed2 = random_seed.get_seed(None)
        return original(*args, seed=seed, seed2=seed2, **more)

    patches.wrap(gen_image_ops, "sample_distorted_bounding_box_v2", sample_box)


def _drawing(function: str, run_seed: int, turns: Any) -> Any:
    """What is called in place of a function that makes a stateful op."""
    form, place = _FORMS[function]

    def draw(original, *args, seed=0, seed2=0, name=None, **more):
        graph = ops.get_default_graph()
        loops = _loops_around(graph._get_control_flow_context())
        if type(graph) is not ops.Graph or any(loop._pivot is None for loop in loops):
            return original(*args, seed=seed, seed2=seed2, name=name, **more)
        if not seed and not seed2:  # as in TensorFlow, numbers that no other op draws
            seed, seed2 = random_seed.get_seed(None)
        text = str((run_seed, seed, seed2)).encode()
        number = int.from_bytes(hashlib.sha256(text).digest()[:4], "little") & 0x7FFFFFFF
        with graph.control_dependencies(None):
            numbers = tf.stack([tf.constant(number, tf.int32), call_placeholder(graph)])
        turn: Any = 0
        for loop in loops:
            if loop not in turns:
                turns[loop] = _count_turns(graph, loop)
            turn = turn * 0x1000193 + turns[loop]
        numbers = numbers + [turn, 0] if loops else numbers
        return form(*args[:place], numbers, *args[place:], name=name, **more)

    return draw


def _count_turns(graph: Any, loop: Any) -> Any:
    """The number of a loop's turn, int32 []: the counter that gradients of loops have, too."""
    with graph.control_dependencies(None):
        graph._set_control_flow_context(loop.outer_context)
        _, following = loop.AddForwardLoopCounter(None)
    return following.op.inputs[0].op.inputs[0]  # before 1 is added


def _loops_around(context: Any) -> List[Any]:
    """The contexts of the loops around an op, the outermost first."""
    loop = context and context.GetWhileContext()
    return [*_loops_around(loop.outer_context), loop] if loop else []


def with_number(graph: Any, feeds: Mapping[Any, Any], number: int) -> Dict[Any, Any]:
    """The feeds of a call, and its number where random ops of the graph need it."""
    call = call_placeholder(graph, is_made=False)
    value = np.asarray(number & 0x7FFFFFFF, np.int32)
    return dict(feeds) if call is None else {**feeds, call: value}


def call_placeholder(graph: Any, is_made: bool = True) -> Any:
    """The hidden placeholder of a graph, int32 []; None if there is none and it is not to be made.

    Its default is 0, so that a graph which the script exports runs elsewhere, too.
    """
    try:
        return graph.get_tensor_by_name(CALL + ":0")
    except KeyError:
        if not is_made:
            return None
    with graph.control_dependencies(None), graph.name_scope(None):
        return tf.placeholder_with_default(tf.constant(0, tf.int32), [], name=CALL)
