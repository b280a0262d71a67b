"""Contracts of extensions and of the plugin that they extend."""

from __future__ import annotations

import os
from typing import Any, Dict, Mapping, Optional

import numpy as np

from ...api import load_plugins
from ...errors import join_names
from ...plugins import Plugin, Plugins, hook_names
from ...storage.checkpoint_reader import first_difference
from ..runs import tensors
from ..steps import Intruder
from ..subject import Subject
from .registry import Skip, contract, require, require_same

# Hooks of an extension that change no training.
HARMLESS_HOOKS = {
    *("options", "metrics", "example_metrics", "metric_directions", "session_hooks", "scorers"),
    *("checkpoint_saved", "evaluated", "run_finished", "run_ended"),
}

ZERO_REMEDY = (
    "Let it return what it wraps unchanged at these values, or declare others as "
    "Options.zero_strength."
)


@contract
def initial_weights_ignore_other_ops(subject: Subject) -> None:
    """Initial weights stay the same where an extension adds ops and variables."""
    with subject.open_steps(more=[Intruder()]) as steps:
        actual = steps.values()
    expected = subject.steps().initial
    require_same(
        expected,
        {name: value for name, value in actual.items() if name in expected},
        "at the start where an extension creates an op and a variable before them",
        "Create weights with run.initializer, a function of (seed, name).",
    )


@contract
def extensions_keep_the_initial_weights(subject: Subject) -> None:
    """Initial weights are the same with the extensions and without."""
    if not subject.extensions:
        raise Skip("no extension is checked")
    plain = Subject(subject.plugin, subject.folder, **_values_without(subject, subject.extensions))
    with plain, plain.open_steps() as steps:
        expected, actual = steps.values(), subject.steps().initial
        require_same(
            expected,
            {name: value for name, value in actual.items() if name in expected},
            "at the start with the extensions and without",
            "Give each variable of an extension an initial value that draws no random number, or "
            "draw it with run.initializer.",
        )


@contract
def an_extension_at_zero_strength_changes_nothing(subject: Subject) -> None:
    """A run with an extension at zero strength has the tensors and results of one without it."""
    extensions = dict(zip(subject.extensions, subject.plugins.extensions))
    if not extensions:
        raise Skip("no extension is checked")
    zeros = {reference: find_zero_strength(plugin) for reference, plugin in extensions.items()}
    for reference, zero in zeros.items():
        if zero is not None:
            _compare_with_plain_run(subject, reference, extensions[reference].name, zero)
    unknown = [extensions[reference].name for reference in zeros if zeros[reference] is None]
    if unknown:
        raise Skip(f"the Options of {', '.join(unknown)} declare no zero_strength")


def find_zero_strength(extension: Plugin) -> Optional[Mapping[str, Any]]:
    """The options at which an extension changes nothing, by name; None if they are not known.

    An extension whose hooks change no training has no such options: {}.
    """
    names = set(hook_names(extension))
    classes = [cls for _, cls in Plugins(extension).options()] if "options" in names else []
    declared = [cls.zero_strength for cls in classes if cls.zero_strength is not None]
    if declared:
        return {name: value for zero in declared for name, value in zero.items()}
    return {} if names <= HARMLESS_HOOKS else None


def _compare_with_plain_run(
    subject: Subject, reference: Any, name: str, zero: Mapping[str, Any]
) -> None:
    """Compare a run at zero strength with one without the extension."""
    others = [extension for extension in subject.extensions if extension is not reference]
    with_it, without = (os.path.join(subject.folder, f"{k}-{name}") for k in ("zero", "without"))
    subject.train(with_it, **zero)
    text = ", ".join(f"{n}={value}" for n, value in zero.items()) or "any options"
    values = _values_without(subject, [reference])
    with Subject(subject.plugin, subject.folder, others, **values) as plain:
        plain.train(without)
        expected = tensors(without)
        actual = {n: value for n, value in tensors(with_it).items() if n in expected}
        difference = first_difference(expected, actual)
        require(
            not difference, f"With {text}, '{name}' changes the run: {difference}.", ZERO_REMEDY
        )
        plain_results, results = plain.apply(without), subject.apply(with_it, **zero)
        for noun, first, second in (
            ("predicts", plain_results[0], results[0]),
            ("measures", plain_results[1], results[1]),
        ):
            names = [n for n in first if n not in second or not _is_same(first[n], second[n])]
            require(
                not names,
                f"With {text}, '{name}' changes what the model {noun}: {join_names(names)}.",
                ZERO_REMEDY,
            )


def _is_same(expected: Any, actual: Any) -> bool:
    """Whether two values of a prediction or a metric are equal, but for rounding in floats."""
    first, second = np.asarray(expected), np.asarray(actual)
    if first.shape != second.shape or first.dtype.kind != "f":
        return bool(np.array_equal(first, second))
    return bool(np.allclose(first, second, rtol=1e-5, atol=1e-6, equal_nan=True))


def _values_without(subject: Subject, extensions: Any) -> Dict[str, Any]:
    """The options of a subject, without those of some of its extensions."""
    others = [each for each in subject.extensions if each not in extensions]
    classes = load_plugins(subject.plugin, others).options()
    known = {name for _, cls in classes for name in cls.model_fields}
    removed = {name for _, cls in subject.plugins.options() for name in cls.model_fields} - known
    return {name: value for name, value in subject.values.items() if name not in removed}
