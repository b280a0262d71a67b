"""The options that vary: from the texts of `--vary` to dimensions, or to one sentence that says why
not.

    learning_rate=1e-4..1e-2:log    a range; also :step=0.1
    network=mlp,cnn                 a list, separated by commas
    hidden=128|256,128              a list of values with commas, separated by |
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, Callable, Dict, Match, Sequence, Tuple, Type

from ..errors import UsageError, suggest
from ..options import CoreOptions, describe, flag_name, result_options
from .definition import CHOICE, FLOAT, INT, Dimension, value_text

_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_RANGE = re.compile(
    rf"({_NUMBER})\s*(?<!\.)\.\.(?!\.)\s*({_NUMBER})\s*(:log|:step=({_NUMBER}))?$", re.ASCII
)
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


def parse_space(
    texts: Sequence[str], options: Type[CoreOptions], check: Check
) -> Tuple[Dimension, ...]:
    """The dimensions that the texts of `--vary`, NAME=VALUES, describe.

    `check` resolves the run's options with one of them set, and returns its value as JSON has it.
    Raises UsageError on the first text that is wrong.
    """
    space: Dict[str, Dimension] = {}
    for text in texts:
        name, _, values = text.partition("=")
        name, values = name.strip().lstrip("-").replace("-", "_"), values.strip()
        _refuse_name(name, text, options)
        if name in space:
            raise UsageError(
                f"--vary {name} is set twice.", hint="Write all of its values in one --vary."
            )
        kind = next(field.type for field in describe(options) if field.name == name)
        space[name] = _Vary(name, values, kind).parse(check)
    return tuple(space.values())


def _refuse_name(name: str, text: str, options: Type[CoreOptions]) -> None:
    """Raise UsageError if there is no such option, or if it cannot vary."""
    if name in ("plugin", "with"):
        raise UsageError(
            f"--vary {text}: a study has one plugin.",
            hint="Search once for each; 'toolkit compare' compares the best runs.",
        )
    if name not in options.model_fields:
        hint = suggest(name, options.model_fields)
        raise UsageError(f"--vary {text}: there is no option '{name}'.", hint=hint)
    reason, hint = _FIXED.get(name, ("", ""))
    if name not in result_options(options):
        reason = "it changes no number of a run, so that all trials would be equal"
        hint = "Set it for all trials, as a flag."
    if reason:
        raise UsageError(f"{flag_name(name)} cannot vary: {reason}.", hint=hint)


class _Vary:
    """One `--vary`: the name of an option, the text of its values, and the name of their type."""

    def __init__(self, name: str, text: str, kind: str):
        self._name = name
        self._text = text
        self._kind = kind
        self._is_list = kind.endswith(",...")

    def parse(self, check: Check) -> Dimension:
        if not self._text:
            raise self._fault("has no values")
        match = _RANGE.match(self._text)
        if self._kind not in ("int", "float"):
            if match:
                raise self._fault(f"is a range, but {self._name} is not one number")
        elif match:
            return self._parse_range(match, check)
        elif ".." in self._text:
            raise self._fault(
                "is no range of numbers", "Write LOW..HIGH, :log or :step=X after it."
            )
        return self._parse_list(check)

    def _fault(self, fault: str, hint: str = "") -> UsageError:
        """The error; by default, its hint is how the values of the option are written."""
        texts = {
            **{"bool": "yes,no", "int": "16..256 for a range, or --vary NAME=16,32 for a list"},
            "float": "1e-4..1e-2:log for a range, or --vary NAME=0.1,0.2 for a list",
        }
        others = "A,B, or 'NAME=A|B' where values have commas"
        others = self._kind.replace("|", ",") if "|" in self._kind else others
        example = f"Write --vary NAME={texts.get(self._kind, others)}."
        if self._is_list:
            example = "Write --vary 'NAME=A|B|C'; each of them may contain commas."
        hint = hint.replace("EXAMPLE", example) or example
        place = f"--vary {self._name}={self._text}"
        return UsageError(f"{place} {fault}.", hint=hint.replace("NAME", self._name))

    # --------------------------------------------------------------------------------------- ranges

    def _parse_range(self, match: Match[str], check: Check) -> Dimension:
        low, high = map(self._read_number, match.group(1, 2))
        is_log = match.group(3) == ":log"
        step = 1 if self._kind == "int" and not is_log else 0
        if match.group(4):
            step = self._read_number(match.group(4))
            if step <= 0:
                raise self._fault(f"has the step {step:g}: a step should be above 0")
        if low == high:
            raise self._fault("has one value", "Set it for all trials, as a flag.")
        if low > high:
            raise self._fault(f"begins above its end: {low:g} > {high:g}", "Write LOW..HIGH.")
        if is_log and low <= 0:
            hint = "Begin above 0, or leave out :log."
            raise self._fault(f"is logarithmic, but begins at {low:g}", hint)
        if step > high - low:
            raise self._fault("has one value: its step is longer than the range")
        if self._kind == "float" and step and (high - low) / step >= MAX_STEPS:
            raise self._fault(
                f"has {(high - low) / step:.3g} values, at most {MAX_STEPS:,}",
                "Leave out the step: a range has all values between its ends.",
            )
        for limit in (low, high):
            check(self._name, limit)
        kind = INT if self._kind == "int" else FLOAT
        return Dimension(self._name, kind, low, high, step, is_log)

    def _read_number(self, text: str) -> Any:
        """Return a number of the type of the option."""
        number = float(text)
        if not math.isfinite(number):
            raise self._fault(f"has {text}, which is too large")
        if self._kind == "float":
            return number
        if number != int(number):
            raise self._fault(f"has {text}, but {self._name} takes whole numbers")
        return int(text) if re.fullmatch(r"[+-]?\d+", text) else int(number)

    # ---------------------------------------------------------------------------------------- lists

    def _parse_list(self, check: Check) -> Dimension:
        separator = "|" if self._is_list or "|" in self._text else ","
        parts = [part.strip() for part in self._text.split(separator)]
        if not all(parts):
            raise self._fault("has nothing between two separators")
        choices = [check(self._name, part) for part in parts]
        texts = [json.dumps(choice, sort_keys=True) for choice in choices]  # True is not 1
        if len(choices) == 1:
            raise self._fault("has one value", "EXAMPLE A single value is a flag for all trials.")
        for place, (text, choice) in enumerate(zip(texts, choices)):
            if text in texts[:place]:
                raise self._fault(f"has the value {value_text(choice)} twice")
        return Dimension(self._name, CHOICE, choices=tuple(choices))
