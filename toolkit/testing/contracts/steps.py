"""Contracts of what training steps change."""

from __future__ import annotations

from typing import Any, Dict, List, Set, Tuple

import numpy as np

from ...compat import tf
from ...graph.run import Run, step_builder_of
from ...inference.scorer_set import read_directions
from ..steps import GLOBAL_STEP, Poison
from ..subject import NUM_STEPS, Subject
from .registry import Skip, contract, join_names, require

NO_GUARD_REMEDY = (
    "Let 'optimize' minimize the losses that it gets, through run.minimize, run.apply or "
    "run.adopt, and let other state change through run.update_state."
)
LOOP_REMEDY = (
    "Let a step depend on variables, run.step_index and draws of run alone, not on Python."
)
ROUNDING = 1e-4  # a difference that is larger, as a share of the largest value, has another cause
ROUNDING_REMEDY = (
    "The cause may be an op that TensorFlow fuses in one of the two, such as tf.nn.swish: write "
    "x * tf.sigmoid(x). A resume is exact in spite of it, but --steps-per-call 1, or a session "
    f"hook that is called on every step, changes the last bits. If it is no such op: {LOOP_REMEDY}"
)
COUNTERS = "toolkit/"  # begins the names of the guard's counters
NUM_EXAMPLES = 8  # that a model has to learn
PATIENCE = (40, 100, 200)  # steps after which the loss may have fallen
LEAST_FALL = 0.05  # of a loss, as a share of its first value


@contract
def a_step_changes_what_is_trained(subject: Subject) -> None:
    """Steps change each variable that can be trained and that is not frozen."""
    steps = subject.steps()
    if not np.isfinite(list(steps.losses.values())).all():
        raise Skip("its loss is not finite, see above")
    trained = {name for names in steps.probe.trained.values() for name in names}
    trained.update(step_builder_of(steps.graph.run).own_variables)
    expected = set(steps.probe.trainable) - steps.probe.frozen
    forgotten = expected - trained
    require(
        not forgotten,
        f"No update trains {join_names(forgotten)}, which can be trained.",
        "Pass it to run.minimize, freeze it with a toolkit.Group, or create it with "
        "trainable=False.",
    )
    unchanged = expected - _differences(steps.initial, steps.last)
    stuck = _with_gradient(subject, unchanged) if unchanged else set()
    require(
        not stuck,
        f"{NUM_STEPS} steps do not change {join_names(stuck)}, although its gradient is not zero.",
        "Let 'optimize' return an op that runs all updates of the step.",
    )


@contract
def a_step_changes_nothing_else(subject: Subject) -> None:
    """Steps change no variable that can be trained and that no update trains."""
    steps = subject.steps()
    trained = {name for names in steps.probe.trained.values() for name in names}
    trained.update(step_builder_of(steps.graph.run).own_variables)
    others = set(steps.probe.trainable) - trained
    names = others & _differences(steps.initial, steps.last)
    require(
        not names,
        f"{NUM_STEPS} steps change {join_names(names)}, which no update trains.",
        "Create what the step writes by itself with trainable=False.",
    )


@contract
def the_global_step_advances_by_one(subject: Subject) -> None:
    """A step adds 1 to the global step."""
    step = subject.steps()
    difference = int(step.first[GLOBAL_STEP]) - int(step.initial[GLOBAL_STEP])
    require(
        difference == 1,
        f"One step moves the global step by {difference}.",
        "Return what run.minimize returns; of several updates only the last advances the step.",
    )


@contract
def steps_in_a_loop_have_the_same_bits(subject: Subject) -> None:
    """Several steps in one call change the variables exactly as single steps do."""
    single, loop = subject.steps().last, subject.loop_steps().last
    size = _largest_difference(single, loop)
    is_rounding = size < ROUNDING
    _require_same(
        single,
        loop,
        f"after {NUM_STEPS} steps one by one and in a loop of the graph"
        + f", by up to {size:.1g} of the largest value" * is_rounding,
        ROUNDING_REMEDY if is_rounding else LOOP_REMEDY,
    )


@contract
def the_same_seed_has_the_same_bits(subject: Subject) -> None:
    """Two runs of one seed are equal, to the bit."""
    _require_same(
        subject.steps().last,
        _train(subject),
        "in two runs of the same seed",
        "Draw with run.uniform and run.normal, and create weights with run.initializer.",
    )


@contract
def another_seed_has_other_weights(subject: Subject) -> None:
    """A run of another seed differs."""
    other = _train(subject, seed=subject.options.seed + 1)
    require(
        _differences(subject.steps().last, other),
        f"{NUM_STEPS} steps with two different seeds have the same tensors.",
        "Let initial weights follow from run.initializer, which depends on the seed.",
    )


@contract
def a_step_that_is_not_finite_is_skipped(subject: Subject) -> None:
    """With --on-nonfinite skip, a step whose loss is NaN changes no variable."""
    names, _ = _poison(subject, "skip")
    require(
        any(name.startswith(COUNTERS) for name in names),
        "A step whose loss is NaN is not counted as skipped.",
        NO_GUARD_REMEDY,
    )


@contract
def a_step_that_is_not_finite_stops_the_run(subject: Subject) -> None:
    """With --on-nonfinite stop, a step whose loss is NaN fails and changes no variable."""
    _, has_failed = _poison(subject, "stop")
    require(has_failed, "A step whose loss is NaN does not stop the training.", NO_GUARD_REMEDY)


@contract
def gradients_accumulate(subject: Subject) -> None:
    """With --accumulate 2, the first step changes no trained variable, and the second does."""
    with subject.open_steps(accumulate=2) as steps:
        trainable = [v.op.name for v in steps.graph.tf_graph.get_collection("trainable_variables")]
        initial = steps.values()
        steps.step()
        first = steps.values()
        steps.step()
        second = steps.values()
    too_early = _differences(initial, first) & set(trainable)
    steps_without = subject.steps()
    expected = set(trainable) & _differences(steps_without.initial, steps_without.first)
    unchanged = expected - _differences(first, second)
    remedy = "Update through run.minimize or run.apply, under one name for each set of variables."
    require(
        not too_early,
        f"With --accumulate 2 the first step changes {join_names(too_early)}.",
        remedy,
    )
    require(
        not unchanged,
        f"With --accumulate 2 the second step does not change {join_names(unchanged)}.",
        remedy,
    )


@contract
def learns_eight_examples(subject: Subject) -> None:
    """The loss falls on eight examples that it sees again and again."""
    names = _losses_to_minimize(subject)
    split = subject.run_data.prepare_split("train")
    assert split is not None
    count = max(NUM_EXAMPLES, subject.options.batches_per_step)
    split = split.subset(np.arange(min(count, len(split))))
    history: List[float] = []
    changes: Dict[str, Any] = {"batch_size": len(split) // subject.options.batches_per_step}
    with subject.open_steps(split=split, **changes) as steps:
        tensors = [steps.graph.losses[name] for name in names]
        for limit in PATIENCE:
            while len(history) < limit:
                history.append(float(np.sum(steps.step_and_read(tensors))))
            if _has_fallen(history):
                return
    raise AssertionError(
        f"In {len(history)} steps on {len(split)} examples the loss went from "
        f"{np.mean(history[:5]):.4g} to {np.mean(history[-10:]):.4g}. Check the loss and the "
        "labels that it compares with; or the default --learning-rate is too low or too high."
    )


# --------------------------------------------------------------------------------------- helpers


def _train(subject: Subject, **changes: Any) -> Dict[str, np.ndarray]:
    """The variables after some steps with other options."""
    with subject.open_steps(**changes) as steps:
        steps.step(NUM_STEPS)
        return steps.values()


def _differences(first: Dict[str, np.ndarray], second: Dict[str, np.ndarray]) -> Set[str]:
    """The names of the variables whose bits differ, or that one side lacks."""
    return {
        name
        for name in {*first, *second}
        if name not in first
        or name not in second
        or np.asarray(first[name]).tobytes() != np.asarray(second[name]).tobytes()
    }


def _largest_difference(first: Dict[str, np.ndarray], second: Dict[str, np.ndarray]) -> float:
    """The largest difference of a variable's values, as a share of its largest; inf for others.

    A difference of integers, shapes or names, or one that is not finite, is infinite.
    """
    sizes = [0.0]
    for name in _differences(first, second):
        a, b = (np.asarray(values.get(name, "")) for values in (first, second))
        if a.shape != b.shape or a.dtype.kind != "f" or b.dtype.kind != "f":
            return float("inf")
        size = np.max(np.abs(a.astype(float) - b)) / max(np.max(np.abs(a)), np.finfo(float).tiny)
        sizes.append(float(size) if np.isfinite(size) else float("inf"))
    return max(sizes)


def _with_gradient(subject: Subject, names: Set[str]) -> Set[str]:
    """Those of the variables whose gradient of a loss that trains them is not zero at the start."""
    probe = subject.steps().probe
    with subject.open_steps() as steps, steps.graph.tf_graph.as_default():
        variables = {v.op.name: v for v in tf.trainable_variables()}
        gradients = [
            (name, gradient)
            for values in steps.graph.step.guard_values
            for name in names & probe.trained.get(values.name, names)
            for gradient in tf.gradients(values.loss, [variables[name]])
            if gradient is not None
        ]
        arrays = steps.read([tf.convert_to_tensor(gradient) for _, gradient in gradients])
    return {name for (name, _), array in zip(gradients, arrays) if np.any(array)}


def _require_same(
    first: Dict[str, np.ndarray], second: Dict[str, np.ndarray], event: str, remedy: str
) -> None:
    names = _differences(first, second)
    require(not names, f"The variables {join_names(names)} differ {event}.", remedy)


def _poison(subject: Subject, reaction: str) -> Tuple[Set[str], bool]:
    """Make a step whose loss is NaN; return the variables that it changes, none of the model, and
    whether it failed.
    """
    with subject.open_steps(more=[Poison(1)], on_nonfinite=reaction) as steps:
        steps.step()
        before = steps.values()
        has_failed = False
        try:
            steps.step()
        except tf.errors.InvalidArgumentError:
            has_failed = True
        names = _differences(before, steps.values())
    changed = names
    if reaction == "skip":
        changed = {n for n in names if n != GLOBAL_STEP and not n.startswith(COUNTERS)}
    text = f"A step whose loss is NaN changes {join_names(changed)}."
    require(not changed, text, NO_GUARD_REMEDY)
    return names, has_failed


def _losses_to_minimize(subject: Subject) -> List[str]:
    """The names of the losses that are known to be better if they are lower."""
    names = list(subject.steps().losses)
    run = Run("eval", subject.options, subject.run_data.spec)
    directions = read_directions(subject.plugins, run, names, [])
    chosen_names = [name for name in names if directions.get(name) == "min"]
    if not chosen_names:
        raise Skip(f"no direction is declared for its losses {', '.join(names)}")
    return chosen_names


def _has_fallen(history: List[float]) -> bool:
    """Whether the last losses are clearly lower than the first, noise considered."""
    first, last = np.array(history[:5]), np.array(history[-10:])
    if not np.isfinite(last).all():
        return False
    noise = np.sqrt(first.var() / len(first) + last.var() / len(last))
    fall = first.mean() - last.mean()
    return bool(fall > max(2 * noise, LEAST_FALL * abs(first.mean())))
