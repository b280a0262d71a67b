"""Contracts of what the hooks build in a graph."""

from __future__ import annotations

import itertools
import re
from typing import Any, Dict, Mapping

import numpy as np

from ...autopsy.op_traceback import plugin_lines
from ...compat import HAS_XLA, tf
from ...errors import ToolkitError, join_names
from ...graph.build import build_inference
from ...graph.run import Run
from ...training.hooks.plugin_hooks import build_plugin_hooks
from ...training.step_mode import find_random_ops
from ..steps import build_for_xla
from ..subject import STEP_OPTIONS, Subject
from .registry import Skip, contract, require

# TensorFlow numbers these within a process: functions of the graph, functions of tf.py_func, and
# custom gradients.
_NUMBERED_FUNCTION = re.compile(r"_\d+(?=\b|_)")
_NUMBERED_ATTRIBUTES = {"token", "_gradient_op_type", "shared_name", "container"}


@contract
def builds_with_the_same_variables_in_each_mode(subject: Subject) -> None:
    """It builds for training, evaluation and prediction, with the same variables."""
    expected = {name: value.shape for name, value in subject.steps().initial.items()}
    for mode in ("eval", "predict"):
        run = Run(mode, subject.options, subject.run_data.spec)
        graph = build_inference(subject.plugins, run)
        shapes = {
            v.op.name: tuple(v.shape.as_list())
            for v in graph.tf_graph.get_collection(tf.GraphKeys.GLOBAL_VARIABLES)
        }
        names = [name for name, shape in shapes.items() if expected.get(name) != shape]
        require(
            not names,
            f"The variables {join_names(names)} of mode '{mode}' do not exist in training, or have "
            "another shape there, so no checkpoint has them.",
            "Let 'build' create the same variables whatever run.mode is.",
        )


@contract
def builds_the_same_variables_in_a_loop(subject: Subject) -> None:
    """A loop of steps has the variables of a single step."""
    _require_variables(subject, _shapes(subject.loop_steps().initial), "a loop of steps")


@contract
def builds_the_same_variables_for_xla(subject: Subject) -> None:
    """A step for XLA has the variables of a single step."""
    if not HAS_XLA:
        raise Skip("XLA compiles steps on TensorFlow 2.x")
    specs = subject.loop_steps().graph.step_specs
    options = subject.resolve(**STEP_OPTIONS)
    try:
        variables = build_for_xla(subject.plugins, options, subject.run_data, specs)
    except (ToolkitError, TypeError, ValueError) as error:
        text = str(error).strip().split("\n")[0]
        raise Skip(f"XLA does not support its step, which then runs without: {text}")
    shapes = {name: tuple(v.shape.as_list()) for name, v in variables.items()}
    _require_variables(subject, shapes, "a step for XLA")


@contract
def builds_the_same_graph_twice(subject: Subject) -> None:
    """Two builds of a training step in one process have the same ops, attributes and constants."""
    with subject.open_steps() as first, subject.open_steps() as second:
        difference = _find_difference(first.graph.tf_graph, second.graph.tf_graph)
    require(
        not difference,
        f"Two builds of a step differ: {difference}.",
        "While a graph is built, use no counter, time or generator of Python: what changes from "
        "step to step follows from run.step_index or run.state, and random numbers from "
        "run.uniform, run.normal or numpy.random.RandomState(run.seed(name)).",
    )


@contract
def losses_are_finite_scalars(subject: Subject) -> None:
    """Each loss is a scalar, and finite in the first step."""
    for name, value in subject.steps().losses.items():
        require(
            np.isfinite(value),
            f"The loss '{name}' of the first step is {value}.",
            "Compute it from logits, and look for a logarithm or a division by zero.",
        )


@contract
def each_trained_variable_gets_a_gradient(subject: Subject) -> None:
    """Some loss that a step minimizes depends on each variable that can be trained."""
    steps = subject.steps()
    losses = [values.loss for values in steps.graph.step.guard_values]
    losses += list(steps.graph.step.losses.values())
    with steps.graph.tf_graph.as_default():
        variables = {v.op.name: v for v in tf.trainable_variables()}
        names = [name for name in variables if name not in steps.probe.frozen]
        for loss in losses:
            gradients = tf.gradients(loss, [variables[name] for name in names])
            names = [name for name, gradient in zip(names, gradients) if gradient is None]
            if not names:
                return
    raise AssertionError(
        f"No loss depends on {join_names(names)}, which can be trained. Use the variable in "
        "'call', or create it with trainable=False."
    )


@contract
def draws_no_numbers_that_a_resume_cannot_repeat(subject: Subject) -> None:
    """No random op of a step has a state that checkpoints lack."""
    ops = find_random_ops(subject.steps().graph.train_op)
    require(
        not ops,
        f"A step has {', '.join(ops)}, whose state is not in checkpoints.",
        "Draw with run.uniform, run.normal or run.dropout.",
    )


@contract
def session_hooks_create_no_variable(subject: Subject) -> None:
    """The hook session_hooks creates no variable, which no checkpoint would have."""
    if not subject.plugins.has_hook("session_hooks"):
        raise Skip("no plugin has the hook session_hooks")
    graph = subject.steps().graph
    with graph.tf_graph.as_default():
        before = {v.op.name for v in tf.global_variables()}
        build_plugin_hooks(subject.plugins, graph, subject.run_data)
        names = sorted({v.op.name for v in tf.global_variables()} - before)
    require(
        not names,
        f"The hook 'session_hooks' creates the variable{'s' * (len(names) > 1)} "
        f"{join_names(names)}.",
        "Create variables in 'build'; 'session_hooks' may create other ops.",
    )


def _find_difference(first: tf.Graph, second: tf.Graph) -> str:
    """The first op in which two graphs differ, and the line that creates it; "" if none does."""
    nodes = (graph.as_graph_def().node for graph in (first, second))
    for a, b in itertools.zip_longest(*nodes):
        if a == b:
            continue
        node, graph = (a, first) if b is None else (b, second)
        lines = plugin_lines(graph.get_operation_by_name(node.name))
        place = lines[-1].location if lines else "the toolkit"
        if a is None or b is None or (a.name, a.op) != (b.name, b.op):
            others = [f"{n.name} ({n.op})" if n else "no further op" for n in (a, b)]
            return f"{place} creates {others[0]}, then {others[1]}"
        facts = [{"inputs": ", ".join(n.input), **_describe_attributes(n)} for n in (a, b)]
        for name in sorted({*facts[0], *facts[1]}):
            texts = [" ".join(each.get(name, "none").split()) for each in facts]
            if texts[0] != texts[1]:
                values = ", then ".join(text[:100] for text in texts)
                return f"{place} creates {b.name} ({b.op}) with {name} {values}"
    return ""


def _describe_attributes(node: Any) -> Dict[str, str]:
    """The attributes of an op, without the numbers that TensorFlow counts within a process."""
    return {
        name: _NUMBERED_FUNCTION.sub("", str(value))
        if value.func.name or value.list.func
        else str(tf.make_ndarray(value.tensor).tolist() if value.HasField("tensor") else value)
        for name, value in node.attr.items()
        if name not in _NUMBERED_ATTRIBUTES
    }


def _require_variables(subject: Subject, actual: Mapping[str, Any], form: str) -> None:
    """Compare the shapes of variables by name with those of a single step."""
    expected = _shapes(subject.steps().initial)
    names = sorted(n for n in {*expected, *actual} if expected.get(n) != actual.get(n))
    require(
        not names,
        f"The variables {join_names(names)} of a single step and of {form} differ.",
        "Let 'build' and 'optimize' create the same variables in each call.",
    )


def _shapes(values: Dict[str, np.ndarray]) -> Dict[str, Any]:
    return {name: value.shape for name, value in values.items()}
