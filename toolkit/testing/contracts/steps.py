"""Contracts of what training steps change."""

from __future__ import annotations

from typing import Any, Dict, List, Set, Tuple

import numpy as np

from ...compat import tf
from ...errors import join_names
from ...graph.run import Run, step_builder_of
from ...inference.scorer_set import read_directions
from ..steps import GLOBAL_STEP, Poison
from ..subject import NUM_STEPS, Steps, Subject
from .registry import Skip, contract, find_differences, require, require_same

NO_GUARD_REMEDY = (
    "Let 'optimize' minimize the losses that it gets, through run.minimize, run.apply or "
    "run.adopt, and let other state change through run.update_state."
)
LOOP_REMEDY = (
    "Let a step depend on variables, run.step_index and draws of run alone, not on Python. If it "
    "does, the cause may be an op that TensorFlow fuses in one of the two, such as tf.nn.swish: "
    "write x * tf.sigmoid(x). A resume is exact in spite of such an op, but --steps-per-call 1, or "
    "a session hook that is called on every step, changes the last bits."
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
    expected = set(steps.probe.trainable) - steps.probe.frozen
    forgotten = expected - _trained(steps)
    require(
        not forgotten,
        f"No update trains {join_names(forgotten)}, which can be trained.",
        "Pass it to run.minimize, freeze it with a toolkit.Group, or create it with "
        "trainable=False.",
    )
    unchanged = expected - find_differences(steps.initial, steps.last)
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
    others = set(steps.probe.trainable) - _trained(steps)
    names = others & find_differences(steps.initial, steps.last)
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
    require_same(
        subject.steps().last,
        subject.loop_steps().last,
        f"after {NUM_STEPS} steps one by one and in a loop of the graph",
        LOOP_REMEDY,
    )


@contract
def the_same_seed_has_the_same_bits(subject: Subject) -> None:
    """Two runs of one seed are equal, to the bit."""
    require_same(
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
        find_differences(subject.steps().last, other),
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
    too_early = find_differences(initial, first) & set(trainable)
    steps_without = subject.steps()
    expected = set(trainable) & find_differences(steps_without.initial, steps_without.first)
    unchanged = expected - find_differences(first, second)
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
        tensors = [steps.graph.step.losses[name] for name in names]
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


def _trained(steps: Steps) -> Set[str]:
    """The names of the variables that some update trains."""
    trained = {name for names in steps.probe.trained.values() for name in names}
    return trained.union(step_builder_of(steps.graph.run).own_variables)


def _train(subject: Subject, **changes: Any) -> Dict[str, np.ndarray]:
    """The variables after some steps with other options."""
    with subject.open_steps(**changes) as steps:
        steps.step(NUM_STEPS)
        return steps.values()


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


def _poison(subject: Subject, reaction: str) -> Tuple[Set[str], bool]:
    """The variables that a step changes whose loss is NaN, and whether it failed."""
    with subject.open_steps(more=[Poison(1)], on_nonfinite=reaction) as steps:
        steps.step()
        before = steps.values()
        has_failed = False
        try:
            steps.step()
        except tf.errors.InvalidArgumentError:
            has_failed = True
        names = find_differences(before, steps.values())
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
