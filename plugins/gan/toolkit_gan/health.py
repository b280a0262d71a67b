"""The health of a GAN's training, from a few numbers per record: what is wrong, and what to try.

This module works on numbers alone: no TensorFlow, no files. A rule applies to what no healthy run
shows for several records in a row. The losses of a GAN say little about it and are not used.
Legend: n images, H height, W width, C channels, K classes.
"""

from __future__ import annotations

import statistics
from collections import deque
from typing import Any, Deque, Dict, List, NamedTuple, Optional, Sequence, Set

import numpy as np

# No verdict before this step: an untrained generator makes nearly the same image from any noise.
WARM_UP = 500
# Records in a row count once they span so many steps, however frequent they are: GANs oscillate.
SPAN = 200

# Samples have collapsed if their spread is below a quarter of its maximum. In healthy runs it fell
# by up to a quarter, and real digits of a single class have half the spread of all digits, or more.
COLLAPSE_RATIO = 0.25
# A spread above that of real images is noise of the start; the maximum is limited to this.
MAX_SPREAD = 1.0
# By this step a healthy generator has left its start (slow ones needed 400 steps) ...
START_STEPS = 2000
# ... and one whose spread is below this makes a single image.
SINGLE_IMAGE_SPREAD = 0.1
# The spread of fewer images is too uncertain.
MIN_IMAGES = 8

# A class is lost if it has less than a tenth of its real share ...
LOST_SHARE = 0.1
# ... where at least so many images of it are expected: by chance one in 23 million such sets has
# less than a tenth of them.
MIN_EXPECTED = 20

# Nearly always right: all of a batch of 64 and, of larger batches, 99 in a hundred.
SATURATED_ACCURACY = 0.99
# The generator's gradient has vanished if its norm is this small (it was 0.6 to 70 with each preset
# and network on digits, and 0.004 and falling with a saturated discriminator) ...
VANISHED_NORM = 0.01
# ... or a hundredth of its usual norm, which is known after some records.
VANISHED_RATIO = 0.01
MIN_NORMS = 3
# No gradient at all, up to rounding.
ZERO_NORM = 1e-6

# Mean change of a pixel in [0, 1] between two records: one grey level. A smaller change is not
# learning, because Adam and RMSProp take steps of the same size from small gradients, too.
GREY_LEVEL = 1 / 255
# No change, up to rounding.
ZERO_CHANGE = 1e-4


class Record(NamedTuple):
    """The state of the training at one step. Unknown values are None."""

    step: int
    accuracy_real: Optional[float] = None  # share of real images the discriminator gets right
    accuracy_fake: Optional[float] = None  # the same of generated images
    discriminator_gradient_norm: Optional[float] = None
    generator_gradient_norm: Optional[float] = None
    spread: Optional[float] = None  # of samples, divided by that of real images: see `spread`
    class_counts: Optional[Sequence[int]] = None  # of samples, K numbers
    change: Optional[float] = None  # mean absolute change of a sample's pixel since the last record


class Verdict(NamedTuple):
    """What is wrong."""

    name: str  # to search for
    sentence: str  # with the numbers
    advice: str  # what to try


class Rule(NamedTuple):
    """When a verdict is given, and what it advises."""

    num_records: int  # in a row
    advice: str


RULES = {
    "total-collapse": Rule(
        2,
        "It is unlikely to recover: start again with --penalty r1, --spectral-norm or a lower "
        "--generator-rate.",
    ),
    "lost-classes": Rule(
        3,
        "Try --conditional projection, --penalty r1, --minibatch-stddev 4, or a larger "
        "--batch-size.",
    ),
    "discriminator-saturated": Rule(
        3,
        "Try a lower --discriminator-rate, --penalty r1 or --spectral-norm, or "
        "--loss non-saturating; with few images, --diff-augment auto.",
    ),
    "generator-frozen": Rule(
        2,
        "The generator cannot learn from this discriminator any more: start again with a lower "
        "--discriminator-rate, --penalty r1 or --spectral-norm.",
    ),
}


def spread(images) -> Optional[float]:
    """Mean over pixels of the standard deviation over images [n, H, W, C]; None for few images."""
    if len(images) < MIN_IMAGES:
        return None
    return float(np.mean(np.std(np.asarray(images, np.float64), axis=0)))


class Health:
    """Judges record after record. A verdict is given when it starts, and again only after it ended.

    Args:
        class_names: K names.
        class_shares: K shares of the real images, as counted by the same classifier; without them,
            all classes are expected to be equally frequent.
    """

    def __init__(self, class_names: Sequence[str] = (), class_shares: Sequence[float] = ()):
        self._class_names = [str(name) for name in class_names]
        self._class_shares = list(class_shares)
        self._streaks: Dict[str, List[int]] = {}  # verdict -> steps of its records in a row
        self._active: Set[str] = set()  # verdicts that were given and have not ended
        self._last_step = 0
        self._max_spread = 0.0
        self._usual_norms: Deque[float] = deque(maxlen=50)  # of the generator's gradient

    def state(self) -> Dict[str, Any]:
        """What it remembers, as JSON values."""
        return {
            "rows": {name: list(steps) for name, steps in self._streaks.items()},
            "given": sorted(self._active),
            "last_step": self._last_step,
            "most_spread": self._max_spread,
            "norms": list(self._usual_norms),
        }

    def set_state(self, state: Dict[str, Any]) -> None:
        """Continue from the `state` of another one."""
        self._streaks = {name: list(steps) for name, steps in state["rows"].items()}
        self._active = set(state["given"])
        self._last_step = state["last_step"]
        self._max_spread = state["most_spread"]
        self._usual_norms.extend(state["norms"])

    def judge(self, record: Record) -> List[Verdict]:
        """The verdicts that start with this record."""
        sentences = {
            "total-collapse": self._collapse_sentence(record),
            "lost-classes": self._lost_classes_sentence(record),
            "discriminator-saturated": self._saturation_sentence(record),
            "generator-frozen": self._frozen_sentence(record),
        }
        self._remember(record)
        return [
            Verdict(name, sentence, RULES[name].advice)
            for name, sentence in sentences.items()
            if self._starts(name, sentence, record.step) and sentence is not None
        ]

    # ------------------------------------------------ the rules: a sentence, or None if all is well

    def _collapse_sentence(self, record: Record) -> Optional[str]:
        bound = COLLAPSE_RATIO * min(self._max_spread, MAX_SPREAD)
        if record.step >= START_STEPS:
            bound = max(bound, SINGLE_IMAGE_SPREAD)
        if not _is_below(record.spread, bound):
            return None
        before = f" (up to {self._max_spread:.2f} before)" if self._max_spread else ""
        return (
            f"All samples look alike: in step {record.step} they vary {record.spread:.3f} times "
            f"as much as real images{before}."
        )

    def _lost_classes_sentence(self, record: Record) -> Optional[str]:
        if record.class_counts is None:
            return None
        total, num_classes = sum(record.class_counts), len(record.class_counts)
        shares = self._class_shares or [1.0 / num_classes] * num_classes
        lost = [
            f"{self._class_name(k)} ({count} of {total}, expected {share * total:.0f})"
            for k, (count, share) in enumerate(zip(record.class_counts, shares))
            if share * total >= MIN_EXPECTED and count < LOST_SHARE * share * total
        ]
        if not lost:
            return None
        return (
            f"In step {record.step} the samples lack {len(lost)} of {num_classes} classes: "
            f"{', '.join(lost)}."
        )

    def _saturation_sentence(self, record: Record) -> Optional[str]:
        is_always_right = _is_at_least(record.accuracy_real, SATURATED_ACCURACY) and _is_at_least(
            record.accuracy_fake, SATURATED_ACCURACY
        )
        is_moving = _is_at_least(record.change, GREY_LEVEL)
        if not is_always_right or is_moving or not self._has_vanished_gradient(record):
            return None
        usual = statistics.median(self._usual_norms) if self._usual_norms else None
        usually = f" (usually {usual:.1e})" if usual else ""
        return (
            f"The discriminator is right on {percent(record.accuracy_real)} of the real and "
            f"{percent(record.accuracy_fake)} of the generated images, and in step {record.step} "
            f"the generator's gradient norm is {record.generator_gradient_norm:.1e}{usually}."
        )

    def _frozen_sentence(self, record: Record) -> Optional[str]:
        is_still = _is_below(record.change, ZERO_CHANGE)
        if not is_still or not _is_below(record.generator_gradient_norm, ZERO_NORM):
            return None
        return (
            f"The generator no longer changes: since step {self._last_step} its samples changed "
            f"by {record.change:.1e} per pixel, and in step {record.step} its gradient norm is "
            f"{record.generator_gradient_norm:.1e}."
        )

    # ------------------------------------------------------------------------------ what they share

    def _has_vanished_gradient(self, record: Record) -> bool:
        """Whether the generator's gradient is small, also compared with its usual norm if known."""
        is_known = len(self._usual_norms) >= MIN_NORMS
        usual = statistics.median(self._usual_norms) if is_known else 0.0
        return _is_below(record.generator_gradient_norm, max(VANISHED_NORM, VANISHED_RATIO * usual))

    def _class_name(self, k: int) -> str:
        return f"'{self._class_names[k]}'" if k < len(self._class_names) else str(k)

    def _remember(self, record: Record) -> None:
        """Update what later records are compared with."""
        self._last_step = record.step
        norm = record.generator_gradient_norm
        if norm is not None and norm >= 0 and not self._has_vanished_gradient(record):
            self._usual_norms.append(norm)
        spread_now = record.spread
        if spread_now is not None and spread_now >= self._max_spread and record.step >= WARM_UP:
            self._max_spread = spread_now

    def _starts(self, name: str, sentence: Optional[str], step: int) -> bool:
        """Count a record for or against a verdict; return whether the verdict starts with it."""
        if sentence is None or step < WARM_UP:
            self._streaks.pop(name, None)
            self._active.discard(name)
            return False
        steps = self._streaks.setdefault(name, [])
        steps.append(step)
        is_long = len(steps) >= RULES[name].num_records and step - steps[0] >= SPAN
        if name in self._active or not is_long:
            return False
        self._active.add(name)
        return True


def describe(record: Record) -> str:
    """The record as a line: `step 500: discriminator right on 81 % of real and 77 % of ...`."""
    parts = []
    if record.accuracy_real is not None and record.accuracy_fake is not None:
        parts.append(
            f"discriminator right on {percent(record.accuracy_real)} of real and "
            f"{percent(record.accuracy_fake)} of generated images"
        )
    if record.spread is not None:
        parts.append(f"samples vary {record.spread:.2f} times as much as real ones")
    if record.class_counts is not None:
        present = sum(1 for count in record.class_counts if count)
        parts.append(f"{present} of {len(record.class_counts)} classes")
    return f"step {record.step}: {', '.join(parts) or 'nothing to report'}"


def percent(share: Optional[float]) -> str:
    """A share as text: 0.81 is `81 %`."""
    return "unknown" if share is None else f"{100 * share:.0f} %"


def _is_below(value: Any, bound: float) -> bool:
    """False if the value is unknown or NaN."""
    return value is not None and value < bound


def _is_at_least(value: Any, bound: float) -> bool:
    """False if the value is unknown or NaN."""
    return value is not None and value >= bound
