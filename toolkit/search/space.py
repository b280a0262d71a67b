"""The options that vary: from the texts of `--vary` to dimensions, or to one sentence that says why
not.

    learning_rate=1e-4..1e-2:log    a range; also :step=0.1
    network=mlp,cnn                 a list, separated by commas
    hidden=128|256,128              a list of values with commas, separated by |
    group=["a:freeze=1|2", "b"]     a list in JSON, for any text
"""

from __future__ import annotations

import functools
import json
import math
import operator
import re
from typing import Any, Callable, Dict, List, NamedTuple, Sequence, Type

from typing_extensions import get_args, get_origin

from ..errors import UsageError, suggest
from ..options import (
    CoreOptions,
    Options,
    describe,
    flag_name,
    result_options,
)
from .definition import CHOICE, FLOAT, INT, Dimension, value_text

_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_RANGE = re.compile(rf"\s*({_NUMBER})\s*\.\.\s*({_NUMBER})\s*((?::[^:]*)*)$", re.ASCII)
_LIKE_RANGE = re.compile(r"[^,|]*\.\.[^,|]*")
_EXAMPLE = "Write --vary NAME=1e-4..1e-2:log for a range, or --vary NAME=a,b,c for a list."
MAX_CHOICES = 1000  # of one option
MAX_STEPS = 100_000  # of a range of floats with a step, whose values are computed one by one

_OTHER_EXAMPLES = "it chooses which examples are tested, so that the values of trials with other "
_OTHER_EXAMPLES += "ones cannot be compared"
_OTHER_LENGTH = "the budget sets the length of all trials"
_OTHER_MEANING = "it changes what the value of a trial means, so that trials cannot be compared"
# Options that affect the result of a run and still cannot vary, with the reason and the way out.
_FIXED: Dict[str, Sequence[str]] = {
    "seed": ("a seed is no choice", "For several seeds per configuration, set --seeds N."),
    **dict.fromkeys(("steps", "epochs"), (_OTHER_LENGTH, "Set --steps, --examples or --epochs.")),
    **dict.fromkeys(
        ("best_metric", "evaluate", "evaluate_steps", "eval_batch_size", "early_stopping"),
        (_OTHER_MEANING, "Set it for all trials, as a flag."),
    ),
    **dict.fromkeys(
        ("data", "validation_share", "test_share", "folds", "fold", "split_seed", "split_column")
        + ("label_column", "label_kind", "missing"),
        (_OTHER_EXAMPLES, "Set it for all trials, as a flag, and search once for each."),
    ),
}

Check = Callable[[str, Any], Any]  # name, text or value -> the value as JSON has it; or UsageError


class _Spec(NamedTuple):
    """The two sides of a `--vary`."""

    name: str
    text: str

    @property
    def flag(self) -> str:
        return f"--vary {self.name}={self.text}"


def parse_space(texts: Sequence[str], options: Type[CoreOptions], check: Check) -> List[Dimension]:
    """Return the dimensions that the texts of `--vary` describe.

    Args:
        texts: of the form NAME=SPEC.
        options: the merged class of the run's options.
        check: resolves the run's options with one of them set, by name and text or value, and
            returns its value as JSON has it; raises UsageError.

    Raises:
        UsageError: one sentence on the first text that is wrong.
    """
    space: Dict[str, Dimension] = {}
    for text in texts:
        spec = _split(text, options)
        if spec.name in space:
            raise UsageError(
                f"--vary {spec.name} is set twice.", hint="Write all of its values in one --vary."
            )
        _refuse_fixed(spec.name, options)
        space[spec.name] = _parse(spec, options, check)
    return list(space.values())


def _split(text: str, options: Type[CoreOptions]) -> _Spec:
    """Return the name of an option and what its values are."""
    name, equals, values = text.partition("=")
    name = name.strip().lstrip("-").replace("-", "_")
    if name == "plugin" or name == "with":
        raise UsageError(
            f"--vary {text}: a study has one plugin.",
            hint="Search once for each; 'toolkit compare' compares the best runs.",
        )
    if name not in options.model_fields:
        raise UsageError(
            f"--vary {text}: there is no option '{name}'.", hint=suggest(name, options.model_fields)
        )
    if not equals or not values.strip():
        raise UsageError(f"--vary {text} has no values.", hint=_example(name, options))
    return _Spec(name, values.strip())


def _example(name: str, options: Type[Options]) -> str:
    """Return how the values of an option are written."""
    annotation = options.model_fields[name].annotation
    kind = next(field.type for field in describe(options) if field.name == name)
    if kind == "bool":
        return f"Write --vary {name}=yes,no."
    if get_origin(_without_none(annotation)) in (list, tuple, dict):
        return f"Write --vary '{name}=A|B|C'; each of them may contain commas."
    if "|" in kind:
        return f"Write --vary {name}={kind.replace('|', ',')}."
    if _without_none(annotation) in (int, float):
        return _EXAMPLE.replace("NAME", name)
    return f"Write --vary {name}=A,B, or '{name}=A|B' where values have commas."


def _refuse_fixed(name: str, options: Type[CoreOptions]) -> None:
    """Raise UsageError if an option cannot vary."""
    if name in _FIXED:
        reason, hint = _FIXED[name]
        raise UsageError(f"{flag_name(name)} cannot vary: {reason}.", hint=hint)
    if name not in result_options(options):
        raise UsageError(
            f"{flag_name(name)} cannot vary: it changes no number of a run, so that all trials "
            "would be equal.",
            hint="Set it for all trials, as a flag.",
        )


def _parse(spec: _Spec, options: Type[CoreOptions], check: Check) -> Dimension:
    """Return the dimension that one `--vary` describes."""
    annotation = _without_none(options.model_fields[spec.name].annotation)
    match = None if "..." in spec.text else _RANGE.match(spec.text)
    if match and annotation in (int, float):
        return _parse_range(spec, annotation, match, check)
    if not spec.text.startswith("[") and _LIKE_RANGE.fullmatch(spec.text):
        if annotation in (int, float):
            raise UsageError(
                f"{spec.flag} is no range of numbers.", hint=_example(spec.name, options)
            )
        if match:
            raise UsageError(
                f"{spec.flag} is a range, but {spec.name} is not one number.",
                hint=_example(spec.name, options),
            )
    return _parse_list(spec, annotation, options, check)


# ------------------------------------------------------------------------------------------ ranges


def _parse_range(spec: _Spec, kind: Any, match: Any, check: Check) -> Dimension:
    low, high = (_read_number(spec, text, kind) for text in match.group(1, 2))
    is_log, step = _read_suffixes(spec, match.group(3), kind)
    if low >= high:
        reason = "has one value" if low == high else f"begins above its end: {low:g} > {high:g}"
        hint = "Set it for all trials, as a flag." if low == high else "Write LOW..HIGH."
        raise UsageError(f"{spec.flag} {reason}.", hint=hint)
    if is_log and low <= 0:
        raise UsageError(
            f"{spec.flag} is logarithmic, but begins at {low:g}.",
            hint="Begin above 0, or leave out :log.",
        )
    if step and step > high - low:
        raise UsageError(f"{spec.flag} has one value: its step is longer than the range.")
    if kind is float and step and (high - low) / step >= MAX_STEPS:
        raise UsageError(
            f"{spec.flag} has {(high - low) / step:.3g} values, at most {MAX_STEPS:,}.",
            hint="Leave out the step: a range has all values between its ends.",
        )
    for limit in (low, high):
        check(spec.name, limit)
    return Dimension(spec.name, INT if kind is int else FLOAT, low, high, step, is_log)


def _read_number(spec: _Spec, text: str, kind: Any) -> Any:
    number = float(text)
    if not math.isfinite(number):
        raise UsageError(f"{spec.flag}: {text} is too large.")
    if kind is float:
        return number
    if number != int(number):
        raise UsageError(f"{spec.flag}: {spec.name} takes whole numbers, and {text} is none.")
    return int(text) if re.fullmatch(r"[+-]?\d+", text) else int(number)


def _read_suffixes(spec: _Spec, text: str, kind: Any) -> Any:
    """Return whether a range is logarithmic, and its step."""
    is_log, step = False, 1 if kind is int else 0
    for suffix in text.split(":")[1:]:
        name, equals, value = suffix.strip().partition("=")
        if name == "log" and not equals:
            is_log = True
        elif name == "step" and re.fullmatch(_NUMBER, value.strip(), re.ASCII):
            step = _read_number(spec, value.strip(), kind)
            if step <= 0:
                raise UsageError(f"{spec.flag}: the step should be above 0.")
        elif not (name == "int" and kind is int and not equals):
            raise UsageError(
                f"{spec.flag}: ':{suffix.strip()}' is unknown.",
                hint="A range may end with :log or with :step=NUMBER; whether its values are whole "
                "numbers follows from the option.",
            )
    if is_log and "step" in text:
        raise UsageError(
            f"{spec.flag} has both a step and :log.", hint="Leave one out, or write a list."
        )
    return is_log, 0 if is_log else step


# ------------------------------------------------------------------------------------------- lists


def _parse_list(
    spec: _Spec, annotation: Any, options: Type[CoreOptions], check: Check
) -> Dimension:
    choices: List[Any] = []
    for part in _split_choices(spec, annotation, options):
        value = check(spec.name, part)
        if any(_is_same(value, other) for other in choices):
            raise UsageError(f"{spec.flag} has the value {value_text(value)} twice.")
        choices.append(value)
    if len(choices) == 1:
        raise UsageError(
            f"{spec.flag} has one value.",
            hint=f"{_example(spec.name, options)} A single value is a flag for all trials.",
        )
    if len(choices) > MAX_CHOICES:
        raise UsageError(f"{spec.flag:.60}... has {len(choices)} values, at most {MAX_CHOICES}.")
    return Dimension(spec.name, CHOICE, choices=tuple(choices))


def _split_choices(spec: _Spec, annotation: Any, options: Type[CoreOptions]) -> Sequence[Any]:
    """Return the texts, or the values of a JSON list, between which an option varies."""
    if spec.text.startswith("["):
        try:
            values = json.loads(spec.text)
        except (ValueError, RecursionError) as error:
            raise UsageError(f"{spec.flag} is no list in JSON: {error}.") from None
        if not values:
            raise UsageError(f"{spec.flag} has no values.")
        return list(values)
    is_list = get_origin(annotation) in (list, tuple, dict)
    separator = "|" if is_list or "|" in spec.text else ","
    parts = [part.strip() for part in spec.text.split(separator)]
    if not all(parts):
        raise UsageError(
            f"{spec.flag} has nothing between two separators.", hint=_example(spec.name, options)
        )
    return parts


def _is_same(value: Any, other: Any) -> bool:
    """Whether two JSON values are the same; True is not 1."""
    return json.dumps(value, sort_keys=True) == json.dumps(other, sort_keys=True)


def _without_none(annotation: Any) -> Any:
    """Return the type of an optional value that is not none."""
    parts = [part for part in get_args(annotation) if part is not type(None)]
    is_optional = type(None) in get_args(annotation) and len(parts) == 1
    return parts[0] if is_optional else annotation


def count_configurations(space: Sequence[Dimension]) -> float:
    """Return how many configurations a space has; infinite if a range of floats has no step."""
    return functools.reduce(operator.mul, [dimension.size for dimension in space], 1)
