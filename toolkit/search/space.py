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
from typing import Any, Callable, Dict, List, Match, Sequence, Tuple, Type

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
        + ("label_column", "label_kind", "missing")
        # Rows are held out by the content of their features.
        + ("feature_columns", "ignore_columns", "image_column", "categories"),
        (_OTHER_EXAMPLES, "Set it for all trials, as a flag, and search once for each."),
    ),
}

# How the values of a type are written; those of options with a few words are these words.
_EXAMPLES = {
    "bool": "NAME=yes,no",
    "int": "NAME=16..256 for a range, or --vary NAME=16,32 for a list",
    "float": "NAME=1e-4..1e-2:log for a range, or --vary NAME=0.1,0.2 for a list",
}
_LIST_EXAMPLE = "'NAME=A|B|C'; each of them may contain commas"
_OTHER_EXAMPLE = "NAME=A,B, or 'NAME=A|B' where values have commas"

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
        space[name] = _parse_values(name, values, kind, check)
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


def _parse_values(name: str, text: str, kind: str, check: Check) -> Dimension:
    """The dimension of an option, from the text of its values and the name of their type."""
    example = "NAME=" + kind.replace("|", ",") if "|" in kind else _OTHER_EXAMPLE
    is_list, match = kind.endswith(",..."), _RANGE.match(text)
    example = _LIST_EXAMPLE if is_list else _EXAMPLES.get(kind, example)
    usual = f"Write --vary {example}.".replace("NAME", name)

    def fault(words: str, hint: str = "") -> UsageError:
        return UsageError(f"--vary {name}={text} {words}.", hint=hint or usual)

    if not text:
        raise fault("has no values")
    if match and kind not in ("int", "float"):
        raise fault(f"is a range, but {name} is not one number")
    if match:
        return _parse_range(name, kind, match, check, fault)
    if ".." in text and kind in ("int", "float"):
        raise fault("is no range of numbers", "Write LOW..HIGH, :log or :step=X after it.")
    parts = [part.strip() for part in text.split("|" if is_list or "|" in text else ",")]
    if not all(parts):
        raise fault("has nothing between two separators")
    choices = [check(name, part) for part in parts]
    texts = [json.dumps(choice, sort_keys=True) for choice in choices]  # True is not 1
    if len(choices) == 1:
        raise fault("has one value", f"{usual} A single value is a flag for all trials.")
    for place, (choice, known) in enumerate(zip(choices, texts)):
        if known in texts[:place]:
            raise fault(f"has the value {value_text(choice)} twice")
    return Dimension(name, CHOICE, choices=tuple(choices))


def _parse_range(
    name: str, kind: str, match: Match[str], check: Check, fault: Callable[..., UsageError]
) -> Dimension:
    texts = [match.group(1), match.group(2), match.group(4) or "0"]
    numbers: List[Any] = [float(text) for text in texts]
    if not all(map(math.isfinite, numbers)):
        raise fault("has a number that is too large")
    if kind == "int":
        if any(number != int(number) for number in numbers):
            raise fault(f"is no range of integers, but {name} takes whole numbers")
        numbers = [int(t) if t.lstrip("+-").isdigit() else int(float(t)) for t in texts]
    (low, high, step), is_log = numbers, match.group(3) == ":log"
    if not low < high:
        hint = "Write LOW..HIGH; a single value is a flag for all trials."
        raise fault("does not begin below its end", hint)
    if match.group(4) and not 0 < step <= high - low:
        raise fault(f"has the step {step:g}, expected one above 0 and no longer than the range")
    if is_log and low <= 0:
        hint = "Begin above 0, or leave out :log."
        raise fault(f"is logarithmic, but begins at {low:g}", hint)
    if kind == "float" and step and (high - low) / step >= MAX_STEPS:
        raise fault(
            f"has {(high - low) / step:.3g} values, at most {MAX_STEPS:,}",
            "Leave out the step: a range has all values between its ends.",
        )
    dimension = Dimension(name, FLOAT, low, high, step, is_log)
    if kind == "int":
        dimension = Dimension(name, INT, low, high, step or int(not is_log), is_log)
    for value in dimension.ends:
        check(name, value)
    return dimension
