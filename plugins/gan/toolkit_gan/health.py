"""How a GAN is doing, from a few numbers per look: what is wrong in a sentence, and what to try.

Pure logic on numbers: no TensorFlow, no files. A rule speaks only of what a healthy run never
shows for several looks in a row; what a GAN's losses do tells little and is not asked.
Legend: n images, H height, W width, C channels, K classes.
"""

from __future__ import annotations

import statistics
from collections import deque
from typing import Any, Dict, List, NamedTuple, Optional, Sequence

import numpy as np

# No verdict before: an untrained generator draws nearly the same for any noise.
WARM_UP = 500
# A row of looks counts once it spans so many steps, however often one looks: GANs swing.
SPAN = 200

# Samples collapsed where they vary by less than a quarter of what they did: healthy ones were seen
# to fall by a quarter, and real digits of one class alone vary half as much as all, or more.
FALLEN = 0.25
# More than the reals vary is noise of the start, and no measure to fall from.
MOST_SPREAD = 1.0
# By this step a healthy generator has left its start (slow ones took 400 steps) ...
STARTED = 2000
# ... and one that varies by less than this draws a single image.
ALIKE = 0.1
# Fewer images tell too little of how much they vary.
FEWEST_IMAGES = 8

# A class is lost with less than a tenth of its real share ...
LOST = 0.1
# ... where one would expect so many images of it: by chance one in e^20 such sets has none.
FEWEST_EXPECTED = 20

# All of a batch of 64 and, of larger batches, all but one image in a hundred.
SURE = 0.99
# The generator's gradient is lost where its norm is this small: it was 0.6 to 70 with each preset
# and network on digits, and 0.004 and falling with a saturated discriminator ...
LOST_NORM = 0.01
# ... or a hundredth of its usual norm, which takes some looks to know.
FADED = 0.01
FEWEST_NORMS = 3
# No gradient at all, up to rounding.
NO_NORM = 1e-6

# Counts of so many classes are told one by one.
MOST_TOLD = 20

# Mean change of a pixel in [0, 1] between two looks. One grey level: what does not change by more
# is not learning, as Adam and RMSProp make steps of one size out of small gradients too.
GREY_LEVEL = 1 / 255
# Nothing changes, up to rounding.
UNMOVED = 1e-4


class Record(NamedTuple):
    """One look. A value that is not known is None.

    accuracy_*: shares of a batch that the discriminator judged rightly. spread: see `spread`, of samples
    divided by that of real images. class_counts: of the samples, K numbers. change: mean absolute
    change of a pixel of the fixed-noise samples since the last look.
    """

    step: int
    accuracy_real: Optional[float] = None
    accuracy_fake: Optional[float] = None
    critic_gradient_norm: Optional[float] = None
    generator_gradient_norm: Optional[float] = None
    spread: Optional[float] = None
    class_counts: Optional[Sequence[int]] = None
    change: Optional[float] = None


class Verdict(NamedTuple):
    """What is wrong: a name to search for, a sentence with the numbers, and what to try."""

    name: str
    sentence: str
    advice: str


class Rule(NamedTuple):
    """After how many looks in a row a verdict is given, and what it advises."""

    looks: int
    advice: str


RULES = {
    "total-collapse": Rule(
        2,
        "It will hardly recover: start anew with --penalty r1, --spectral-norm or a lower "
        "--generator-rate.",
    ),
    "lost-classes": Rule(
        3, "Try --conditional projection, --penalty r1, or a larger --batch-size."
    ),
    "critic-saturated": Rule(
        3,
        "Try a lower --critic-rate, --penalty r1 or --spectral-norm, or --loss non-saturating.",
    ),
    "generator-frozen": Rule(
        2,
        "Start anew with a lower --critic-rate, --penalty r1 or --spectral-norm; the generator "
        "learns nothing more from this discriminator.",
    ),
}


def spread(images) -> Optional[float]:
    """Mean over pixels of the standard deviation over images, [n, H, W, C]; None of too few."""
    if len(images) < FEWEST_IMAGES:
        return None
    return float(np.mean(np.std(np.asarray(images, np.float64), axis=0)))


class Health:
    """Judges look after look. A verdict is given when it begins, and again only after it ended.

    class_names: K texts. class_shares: K shares of the real images, as the same classifier counts
    them; without them all classes are taken for equally frequent.
    """

    def __init__(self, class_names: Sequence[str] = (), class_shares: Sequence[float] = ()):
        self._class_names = [str(name) for name in class_names]
        self._class_shares = list(class_shares)
        self._rows: Dict[str, List[int]] = {}  # name -> steps of the looks in a row that showed it
        self._given: set = set()
        self._last_step = 0
        self._most_spread = 0.0
        self._norms: deque = deque(maxlen=50)  # of the generator's gradient, while it was usual

    def state(self) -> Dict[str, Any]:
        """What it remembers, as JSON values."""
        return {
            "rows": {name: list(row) for name, row in self._rows.items()},
            "given": sorted(self._given),
            "last_step": self._last_step,
            "most_spread": self._most_spread,
            "norms": list(self._norms),
        }

    def set_state(self, state: Dict[str, Any]) -> None:
        """Go on with what another one remembered."""
        self._rows = {name: list(row) for name, row in state["rows"].items()}
        self._given = set(state["given"])
        self._last_step = state["last_step"]
        self._most_spread = state["most_spread"]
        self._norms.extend(state["norms"])

    def judge(self, record: Record) -> List[Verdict]:
        """The verdicts that begin with this look."""
        sentences = {
            "total-collapse": self._collapsed(record),
            "lost-classes": self._lost(record),
            "critic-saturated": self._saturated(record),
            "generator-frozen": self._frozen(record),
        }
        self._remember(record)
        return [
            Verdict(name, sentence, RULES[name].advice)
            for name, sentence in sentences.items()
            if self._begins(name, sentence, record.step)
        ]

    def _remember(self, record: Record) -> None:
        """What later looks are compared with."""
        self._last_step = record.step
        if _from(record.generator_gradient_norm, 0) and not self._faded(record):
            self._norms.append(record.generator_gradient_norm)
        if _from(record.spread, self._most_spread) and record.step >= WARM_UP:
            self._most_spread = record.spread

    def _begins(self, name: str, sentence: Optional[str], step: int) -> bool:
        if sentence is None or step < WARM_UP:
            self._rows.pop(name, None)
            self._given.discard(name)
            return False
        row = self._rows.setdefault(name, [])
        row.append(step)
        if name in self._given or len(row) < RULES[name].looks or step - row[0] < SPAN:
            return False
        self._given.add(name)
        return True

    # -------------------------------------------------------- the rules: a sentence where they hold

    def _collapsed(self, record: Record) -> Optional[str]:
        bound = FALLEN * min(self._most_spread, MOST_SPREAD)
        if record.step >= STARTED:
            bound = max(bound, ALIKE)
        if not _below(record.spread, bound):
            return None
        before = f" (up to {self._most_spread:.2f} before)" if self._most_spread else ""
        return (
            f"All samples look alike: in step {record.step} they vary {record.spread:.3f} "
            "times as much as real images"
            f"{before}."
        )

    def _lost(self, record: Record) -> Optional[str]:
        if record.class_counts is None:
            return None
        total, classes = sum(record.class_counts), len(record.class_counts)
        shares = self._class_shares or [1.0 / classes] * classes
        lost = [
            f"{self._class_name(k)} ({count} of {total}, expected {share * total:.0f})"
            for k, (count, share) in enumerate(zip(record.class_counts, shares))
            if share * total >= FEWEST_EXPECTED and count < LOST * share * total
        ]
        if not lost:
            return None
        return (
            f"In step {record.step} the samples lack {len(lost)} of {classes} classes: "
            f"{', '.join(lost)}."
        )

    def _saturated(self, record: Record) -> Optional[str]:
        sure = _from(record.accuracy_real, SURE) and _from(record.accuracy_fake, SURE)
        moves = _from(record.change, GREY_LEVEL)
        if not sure or moves or not self._faded(record):
            return None
        usual = statistics.median(self._norms) if self._norms else None
        usually = f" (usually {usual:.1e})" if usual else ""
        return (
            f"The discriminator judges {percent(record.accuracy_real)} of the real and "
            f"{percent(record.accuracy_fake)} of the generated images rightly, and in step "
            f"{record.step} the generator's gradient norm is "
            f"{record.generator_gradient_norm:.1e}{usually}."
        )

    def _frozen(self, record: Record) -> Optional[str]:
        still = _below(record.change, UNMOVED)
        if not still or not _below(record.generator_gradient_norm, NO_NORM):
            return None
        return (
            f"The generator stands still: since step {self._last_step} its samples changed "
            f"by {record.change:.1e} per pixel, "
            f"and in step {record.step} its gradient norm is {record.generator_gradient_norm:.1e}."
        )

    # ------------------------------------------------------------------------------ what they share

    def _faded(self, record: Record) -> bool:
        """Whether the generator's gradient is lost, also by its own past where there is one."""
        known = len(self._norms) >= FEWEST_NORMS
        usual = statistics.median(self._norms) if known else 0.0
        return _below(record.generator_gradient_norm, max(LOST_NORM, FADED * usual))

    def _class_name(self, k: int) -> str:
        return f"'{self._class_names[k]}'" if k < len(self._class_names) else str(k)


def words(record: Record) -> str:
    """The look in a line: `step 500: the discriminator is right on 81 % of real and 77 % of ...`."""
    parts = []
    if record.accuracy_real is not None and record.accuracy_fake is not None:
        right = percent(record.accuracy_real), percent(record.accuracy_fake)
        parts.append(
            "the discriminator is right on {} of real and {} of generated images".format(*right)
        )
    if record.spread is not None:
        parts.append(f"samples vary {record.spread:.2f} times as much as real images")
    if record.change is not None:
        parts.append(f"they changed by {record.change:.4f} per pixel")
    if record.class_counts is not None:
        parts.append(histogram(record.class_counts))
    return f"step {record.step}: {', '.join(parts) or 'nothing to tell'}"


def histogram(counts: Sequence[int]) -> str:
    """`9 of 10 classes are seen (25 31 0 ...)`; of many classes the number alone."""
    told = f"{sum(1 for count in counts if count)} of {len(counts)} classes are seen"
    if len(counts) > MOST_TOLD:
        return told
    return f"{told} ({' '.join(str(count) for count in counts)})"


def percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _below(value: Any, bound: float) -> bool:
    """False where the value is unknown or no number."""
    return value is not None and value < bound


def _from(value: Any, bound: float) -> bool:
    return value is not None and value >= bound
