"""Choose how a run makes its steps, and build the graph for it.

SINGLE: one step per session call. LOOP: several steps per call, in a loop of the graph. XLA: that
loop compiled. The first two give the same bits. Those of XLA differ, so a run keeps the mode with
which it began.
"""

from __future__ import annotations

import functools
import math
import time
from typing import Any, Callable, List, Mapping, NamedTuple, Optional, Tuple

from ..autopsy.op_traceback import plugin_lines
from ..compat import HAS_XLA, tf
from ..data.structure import describe_key
from ..display.numbers import format_count
from ..errors import ToolkitError, UsageError
from ..graph.build import TrainingGraph, build_compiled, build_training
from ..graph.model_size import check_model_size
from ..graph.ops import nodes_within, upstream
from ..graph.run import step_builder_of
from ..graph.session_config import choose_threads, fill_queues, session_config
from ..graph.step_strategy import PLAIN, XLA
from ..options import CoreOptions
from ..run_data import RunData
from .hooks.plugin_hooks import build_plugin_hooks, refused_variables
from .hooks.runner import RunHook
from .peers import Place
from .setup import Job, begin_graph
from .step_runner import MAX_STEPS, StepRunner

# XLA has to compile, here and again in the session of the run, which takes seconds.
MIN_RUN_SECS = 60.0
MIN_STEPS = 20000
TRIAL_SECS = 0.4
MIN_SPEEDUP = 1.1
COMPILED_STEPS = 50
_READS = ("IteratorGetNext", "QueueDequeue", "ReaderRead")  # begin types of ops


class TrainingPlan(NamedTuple):
    """What a session trains. Saver and hooks are there once the plan is complete."""

    graph: TrainingGraph  # of one step, or of a loop of steps
    reader: Any  # of the examples, in that graph
    options: CoreOptions  # with the number of threads chosen
    is_compiled: bool = False  # by XLA
    note: str = ""  # what a user should know of the mode
    saver: Any = None  # of the variables
    plugin_hooks: List[RunHook] = []  # of the hook `session_hooks`
    random_ops: List[str] = []  # those of a step whose state is not in checkpoints

    @property
    def mode(self) -> str:
        """How a call of the session makes steps: "single", "loop" or "xla"."""
        if self.is_compiled:
            return "xla"
        return "single" if self.graph.loop is None else "loop"

    @property
    def total_steps(self) -> int:
        """The step at which training stops."""
        total = self.graph.run.total_steps
        assert total is not None  # --epochs or --steps always gives one
        return total


class PlanBuilder:
    """Builds the plan that the options ask for, or that is fastest, for the replica at a place;
    without `has_hooks`, which a follower has not, the plugins are asked for no session hooks.
    """

    def __init__(self, job: Job, run_data: RunData, place: Place, has_hooks: bool = True):
        self._plugins, self._run_data = job.plugins, run_data
        self._options, self._replica, self._strategy = place
        self._has_hooks = has_hooks
        # A new graph, with its reader and its run, from a strategy.
        self._begin: Callable[..., Any] = functools.partial(
            begin_graph, job.options, run_data, job.folder.path, self._replica
        )

    def build(self, step: int = 0, was_compiled: Optional[bool] = None) -> TrainingPlan:
        """Build the complete plan after so many steps, which XLA compiled if `was_compiled`; None
        for a new run. Raises UsageError if the options ask for a mode that is not possible.
        """
        # Whether XLA must compile the steps; None: a timing trial decides.
        use_xla = {"on": True, "off": False, "auto": was_compiled}[self._options.xla]
        if self._replica.count > 1 or not HAS_XLA:
            if self._options.xla == "on":
                reason = f"XLA cannot compile a step of {self._replica.count} replicas"
                if self._replica.count == 1:
                    reason = "XLA compiles steps on TensorFlow 2.x, not on this version"
                raise UsageError(f"--xla is on, and {reason}.", hint="Set --xla off.")
            use_xla = False
        if self._options.steps_per_call == 1 and not use_xla:
            return self._complete(self.build_plain(in_loop=False))
        # Before XLA, because only this shows whether the plugins' hooks support a loop.
        plain = self._build_loop()
        compiled: Optional[TrainingPlan] = None
        if use_xla:
            compiled = self._try_xla(plain, 0.0)[0]
        elif use_xla is None and plain.graph.loop is not None:
            compiled = self._compare_with_xla(plain, plain.total_steps - step)
        return plain if compiled is None else self._complete(compiled)

    # --------------------------------------------------------------------------------------- modes

    def build_plain(self, in_loop: bool) -> TrainingPlan:
        """Build a plan without XLA, saver and hooks: that of another replica than the first."""
        tf_graph, reader, run = self._begin(self._strategy)
        graph = build_training(self._plugins, run, reader, tf_graph, in_loop)
        with tf_graph.as_default():
            check_model_size(tf.global_variables())
        check_accumulation(self._options, run.total_steps, step_builder_of(run).update_counts)
        random_ops = find_random_ops(graph.train_op)
        options = choose_threads(self._options, tf_graph)
        return TrainingPlan(graph, reader, options, random_ops=random_ops)

    def _build_loop(self) -> TrainingPlan:
        """Build a loop of steps, or else one step per call."""
        try:
            return self._complete(self.build_plain(in_loop=True))
        except Exception as error:
            # Where the loop is not its cause, a single step raises it again.
            plan = self._complete(self.build_plain(in_loop=False))
            reason = f"a loop of steps cannot be built: {_first_line(error)}"
            steps_per_call = self._options.steps_per_call
            if steps_per_call is not None:
                raise UsageError(
                    f"--steps-per-call is {steps_per_call}, but {reason}.",
                    hint="Leave it at auto, or set it to 1.",
                ) from error
            if self._options.xla == "on":
                raise UsageError(f"--xla is on, but {reason}.", hint="Set --xla off.") from error
            return plan._replace(note="one step per call; " + reason)

    def _build_xla(self, plain: TrainingPlan) -> TrainingPlan:
        if plain.graph.loop is None:
            raise UsageError(plain.note)
        if plain.graph.step.summaries:
            raise UsageError("a plugin makes tf.summary ops in its step, which are texts")
        own_variables = step_builder_of(plain.graph.run).own_variables
        if own_variables:
            raise UsageError(f"the plugin updates '{own_variables[0]}' by an op of its own")
        for key, component in plain.reader.form.components.items():
            if component.kind == "text":
                raise UsageError(f"{describe_key(key)} is text, which XLA does not support")
        specs = plain.graph.step_specs
        if not all(spec.shape.is_fully_defined() for spec in specs):  # sequences of one length
            tf_graph, reader, run = self._begin(PLAIN, pads_to_longest=True)
            specs = build_training(self._plugins, run, reader, tf_graph, in_loop=True).step_specs
        tf_graph, reader, run = self._begin(XLA, pads_to_longest=True)
        # Independent of --steps-per-call: XLA's code, and so its rounding, depends on it.
        max_steps = min(COMPILED_STEPS, reader.max_chunk_steps)
        graph = build_compiled(self._plugins, run, reader, tf_graph, specs, max_steps)
        note = "the step is compiled by XLA"
        return plain._replace(graph=graph, reader=reader, is_compiled=True, note=note)

    def _complete(self, plan: TrainingPlan) -> TrainingPlan:
        """Add the saver and the plugins' session hooks."""
        # On the device, since TensorFlow 1.15 may choose a parameter server, which has other files.
        with plan.graph.tf_graph.as_default(), tf.device(self._strategy.input_device):
            # A Saver's own retention deletes the old before the new is committed, and is forgotten
            # on restart.
            saver = tf.train.Saver(max_to_keep=0, save_relative_paths=True)
            plan = plan._replace(saver=saver)
            if self._has_hooks:
                with refused_variables("the hook 'session_hooks'"):
                    hooks = build_plugin_hooks(self._plugins, plan.graph, self._run_data)
                plan = plan._replace(plugin_hooks=hooks)
            return plan

    # --------------------------------------------------------------------------------------- trial

    def _try_xla(self, plain: TrainingPlan, secs: float) -> Tuple[TrainingPlan, float]:
        """Build the plan with XLA and time its step."""
        try:
            plan = self._build_xla(plain)
            return plan, self._time_step(plan, secs)
        except (ToolkitError, tf.errors.OpError, TypeError, ValueError) as error:
            raise UsageError(
                f"XLA cannot compile the step: {_first_line(error)}.", hint="Set --xla off."
            ) from error

    def _compare_with_xla(self, plain: TrainingPlan, steps_left: int) -> Optional[TrainingPlan]:
        """The plan with XLA if a trial, on steps that do not count, shows that it is faster."""
        if steps_left < MIN_STEPS:
            return None
        try:
            plain_secs = self._time_step(plain, TRIAL_SECS)
            run_secs = min(plain_secs * steps_left, self._options.max_secs or math.inf)
            if run_secs < MIN_RUN_SECS:
                return None
            plan, xla_secs = self._try_xla(plain, TRIAL_SECS)
        except (UsageError, tf.errors.OpError):  # training reports a fault of the step itself
            return None
        if xla_secs * MIN_SPEEDUP >= plain_secs:
            return None
        choice = "a timing chose this, so another run of this seed may have other bits"
        return plan._replace(note=f"{plan.note}; {choice} (--xla on or off: the same each time)")

    def _time_step(self, plan: TrainingPlan, secs: float) -> float:
        """The seconds of a step, in a session of its own, after the first calls."""
        tf_graph = plan.graph.tf_graph
        with tf.Session(graph=tf_graph, config=session_config(plan.options)) as session:
            with tf_graph.as_default():
                session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
            fill_queues(session)
            plan.reader.initialize(session, 0)
            in_memory, steps_per_call = plan.reader.in_memory, self._options.steps_per_call
            runner = StepRunner(session, plan.graph, in_memory, steps_per_call)
            runner.run(1)
            times: List[float] = []
            end = time.perf_counter() + secs
            while time.perf_counter() < end or len(times) < min(3, secs * 100):
                start = time.perf_counter()
                result = runner.run(MAX_STEPS)
                times.append((time.perf_counter() - start) / result.num_steps)
        times = sorted(times[len(times) // 2 :])
        return times[len(times) // 4] if times else 0.0  # of two ways in turn the faster one's


def _first_line(error: BaseException) -> str:
    text = getattr(error, "message", None) or str(error)
    return (text.strip().split("\n") or [""])[0].rstrip(".")


def check_accumulation(options: CoreOptions, total: int, update_counts: Mapping[str, int]) -> None:
    """Refuse a run of `total` steps that is too short for one update by accumulated gradients.
    `update_counts` has by name how many updates of it a step has; each adds a gradient to its sums.
    """
    if update_counts and options.accumulate > total * max(update_counts.values()):
        raise UsageError(
            f"--accumulate is {options.accumulate}, but the run has "
            f"{format_count(total, 'step')}: no weight would change.",
            hint="Set a smaller --accumulate, or a larger --steps or --epochs.",
        )


# ---------------------------------------------------------------------------- random ops of a step


def find_random_ops(train_op: tf.Operation) -> List[str]:
    """The stateful random ops that a step runs, also those in its loops and functions, and what
    reads a plugin's own iterators and queues: `TYPE at file:line in function` of a plugin, or `TYPE
    at NAME` if the core created the op.

    Their state is not in checkpoints: a resume draws other numbers, and reads the first examples
    again. Each place is listed once. Ops that only initialise variables are not part of a step.
    """
    graph = train_op.graph
    graph_def = graph.as_graph_def()
    functions = {f.signature.name: f.node_def for f in graph_def.library.function}
    nodes = {node.name: node for node in graph_def.node}
    iterators = [op for op in graph.get_operations() if op.type == "MakeIterator"]
    found: List[str] = []
    for op in sorted(upstream([train_op, *iterators]), key=lambda op: op.name):
        # A node with a second seed draws from a stream of the session, which starts again in the
        # next one. Stateless ops get their seeds as inputs, and the state of tf.random.Generator is
        # a variable. The ops of cuDNN draw only for a dropout, which layers of Keras make outside.
        inner = [n for n in nodes_within(nodes[op.name], functions, set()) if "seed2" in n.attr]
        types = {node.op for node in inner if not node.op.startswith("Cudnn")}
        is_read = op.type.startswith(_READS)
        lines = plugin_lines(op) if types or is_read else []
        types |= {op.type} if is_read and lines else set()  # the run's own reader is placed again
        location = lines[-1].location if lines else op.name
        found += [f"{op_type} at {location}" for op_type in sorted(types)]
    return list(dict.fromkeys(found))
