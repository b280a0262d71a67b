"""The health of a GAN's training, from a few numbers per record: what is wrong, and what to try.

A rule applies to what no healthy run shows for several records in a row. The losses of a GAN say
little about it and are not used. Which classes samples lack is a score: see `image-scores`.
Legend: n images, H height, W width, C channels.
"""

from __future__ import annotations

import statistics
from collections import deque
from typing import Any, Deque, Dict, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple

import numpy as np
from toolkit_image_scores.sets import even_positions

import toolkit

from . import sampling
from .architecture import GENERATOR, augmentations
from .checks import check_values
from .cluster_features import to_unit_range
from .clusters import check_clusters

SAMPLE_STEPS = 500  # by default

# ------------------------------------------------------------------------------------- thresholds

WARM_UP = 500  # no verdict before this step: an untrained generator makes nearly one image
SPAN = 200  # records in a row count once they span so many steps: GANs oscillate
# Samples have collapsed if their spread is below a quarter of its maximum. In healthy runs it fell
# by up to a quarter, and real digits of a single class have half the spread of all digits, or more.
COLLAPSE_RATIO = 0.25
MAX_SPREAD = 1.0  # the maximum's limit: a spread above that of real images is noise of the start
START_STEPS = 2000  # by this step a generator has left its start (slow ones needed 400 steps) ...
SINGLE_IMAGE_SPREAD = 0.1  # ... and one whose spread is below this makes a single image
MIN_IMAGES = 8  # the spread of fewer images is too uncertain
SATURATED_ACCURACY = 0.99  # nearly always right: all of a batch of 64, 99 in 100 of larger ones
# The generator's gradient has vanished if its norm is this small (it was 0.6 to 70 with each preset
# and network on digits, and 0.004 and falling with a saturated discriminator) ...
VANISHED_NORM = 0.01
VANISHED_RATIO = 0.01  # ... or a hundredth of its usual norm, ...
MIN_NORMS = 3  # ... which is known after some records
ZERO_NORM = 1e-6  # no gradient at all, up to rounding
# Mean change of a pixel in [0, 1] between two records: one grey level. A smaller change is not
# learning, because Adam and RMSProp take steps of the same size from small gradients, too.
GREY_LEVEL = 1 / 255
ZERO_CHANGE = 1e-4  # no change, up to rounding

NUM_REALS = 500  # real images that the samples' spread is compared with

# A verdict is given after so many records in a row.
NUM_RECORDS = {"total-collapse": 2, "discriminator-saturated": 3, "generator-frozen": 2}


# ----------------------------------------------------------------------------------------- verdicts


class Record(NamedTuple):
    """The state of the training at one step. Unknown values are None."""

    step: int
    accuracy_real: Optional[float] = None  # share of real images the discriminator gets right
    accuracy_fake: Optional[float] = None  # the same of generated images
    generator_gradient_norm: Optional[float] = None
    spread: Optional[float] = None  # of samples, divided by that of real images: see `spread`
    change: Optional[float] = None  # mean absolute change of a sample's pixel since the last record


class Verdict(NamedTuple):
    """What is wrong."""

    name: str  # to search for
    sentence: str  # with the numbers
    advice: str  # what to try


def advise(options: Any, data: Any) -> Dict[str, str]:
    """What each verdict advises: only what the options do not have yet, and do not refuse."""
    milder = ["a lower --discriminator-rate"]
    if options.penalty != "none":
        milder.append("a higher --penalty-weight")
    elif options.network == "r3gan" or options.discriminator_norm != "batch":
        milder.append("--penalty r1")
    if options.network != "r3gan" and not options.spectral_norm:
        milder.append("--spectral-norm")
    loss = [] if options.loss == "non-saturating" else ["--loss non-saturating"]
    has_unchanged_images = len(data.shape) == 3 and not augmentations(options, data)
    few = "; with few images, --diff-augment auto" if has_unchanged_images else ""
    return {
        "total-collapse": "It is unlikely to recover: start again with "
        f"{_list_choices([*milder[1:], 'a lower --generator-rate'])}.",
        "discriminator-saturated": f"Try {_list_choices(milder + loss)}{few}.",
        "generator-frozen": "The generator cannot learn from this discriminator any more: start "
        f"again with {_list_choices(milder)}.",
    }


def _list_choices(texts: Sequence[str]) -> str:
    """The texts as `a, b or c`."""
    return " or ".join(([", ".join(texts[:-1])] if texts[1:] else []) + [texts[-1]])


def spread(images) -> Optional[float]:
    """Mean over pixels of the standard deviation over images [n, H, W, C]; None for few images."""
    if len(images) < MIN_IMAGES:
        return None
    return float(np.mean(np.std(np.asarray(images, np.float64), axis=0)))


class Health:
    """Judges record after record. A verdict is given when it starts, and again only after it ended.
    The advice is that of `advise`; the state is that of the one that this one continues.
    """

    def __init__(self, advice: Mapping[str, str], state: Optional[Mapping[str, Any]] = None):
        self._advice, state = advice, state or {}
        self._streaks: Dict[str, List[int]] = {  # verdict -> steps of its records in a row
            name: list(steps) for name, steps in state.get("rows", {}).items()
        }
        self._active: Set[str] = set(state.get("given", ()))  # given, and not ended since
        self._last_step: int = state.get("last_step", 0)
        self._max_spread: float = state.get("most_spread", 0.0)
        # Of the generator's gradient.
        self._usual_norms: Deque[float] = deque(state.get("norms", ()), maxlen=50)

    def state(self) -> Dict[str, Any]:
        """What it remembers, as JSON values."""
        return {
            "rows": {name: list(steps) for name, steps in self._streaks.items()},
            "given": sorted(self._active),
            "last_step": self._last_step,
            "most_spread": self._max_spread,
            "norms": list(self._usual_norms),
        }

    def judge(self, record: Record) -> List[Verdict]:
        """The verdicts that start with this record."""
        sentences = {
            "total-collapse": self._collapse_sentence(record),
            "discriminator-saturated": self._saturation_sentence(record),
            "generator-frozen": self._frozen_sentence(record),
        }
        self._remember(record)
        return [
            Verdict(name, sentence, self._advice[name])
            for name, sentence in sentences.items()
            if self._starts(name, sentence, record.step)
        ]

    # ------------------------------------------------ the rules: a sentence, or "" if all is well

    def _collapse_sentence(self, record: Record) -> str:
        bound = COLLAPSE_RATIO * min(self._max_spread, MAX_SPREAD)
        if record.step >= START_STEPS:
            bound = max(bound, SINGLE_IMAGE_SPREAD)
        if not _is_below(record.spread, bound):
            return ""
        before = f" (up to {self._max_spread:.2f} before)" if self._max_spread else ""
        return (
            f"All samples look alike: in step {record.step} they vary {record.spread:.3f} times "
            f"as much as real images{before}."
        )

    def _saturation_sentence(self, record: Record) -> str:
        is_always_right = _is_at_least(record.accuracy_real, SATURATED_ACCURACY) and _is_at_least(
            record.accuracy_fake, SATURATED_ACCURACY
        )
        is_moving = _is_at_least(record.change, GREY_LEVEL)
        if not is_always_right or is_moving or not self._has_vanished_gradient(record):
            return ""
        usual = statistics.median(self._usual_norms) if self._usual_norms else None
        usually = f" (usually {usual:.1e})" if usual else ""
        return (
            f"The discriminator is right on {percent(record.accuracy_real)} of the real and "
            f"{percent(record.accuracy_fake)} of the generated images, and in step {record.step} "
            f"the generator's gradient norm is {record.generator_gradient_norm:.1e}{usually}."
        )

    def _frozen_sentence(self, record: Record) -> str:
        is_still = _is_below(record.change, ZERO_CHANGE)
        if not is_still or not _is_below(record.generator_gradient_norm, ZERO_NORM):
            return ""
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

    def _remember(self, record: Record) -> None:
        """Update what later records are compared with."""
        self._last_step = record.step
        norm = record.generator_gradient_norm
        if norm is not None and norm >= 0 and not self._has_vanished_gradient(record):
            self._usual_norms.append(norm)
        if record.spread is not None and record.step >= WARM_UP:
            self._max_spread = max(self._max_spread, record.spread)

    def _starts(self, name: str, sentence: str, step: int) -> bool:
        """Count a record for or against a verdict; return whether the verdict starts with it."""
        if not sentence or step < WARM_UP:
            self._streaks.pop(name, None)
            self._active.discard(name)
            return False
        steps = self._streaks.setdefault(name, [])
        steps.append(step)
        is_long = len(steps) >= NUM_RECORDS[name] and step - steps[0] >= SPAN
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


# --------------------------------------------------------------------------------- session hooks


class HealthHook(toolkit.SessionHook):
    """Logs a record on each due step, and each new verdict as a warning and in metrics.jsonl.

    The scalars are tensors of the training step, by the names of `Record`'s fields. The images, a
    tensor [n, H, W, C] in [0, 1], always from the same noise, are run on their own after the step,
    so they do not affect training. The reals are float [m, H, W, C] in [0, 1].
    """

    name = "health"

    def __init__(
        self,
        every: toolkit.Every,
        scalars: Mapping[str, Any],
        images: Any,
        reals: np.ndarray,
        advice: Mapping[str, str],
    ):
        self.every, self._advice = every, advice
        self._scalars, self._images = dict(scalars), images
        self._real_spread = spread(reals)
        self.set_state({})

    def state(self) -> Dict[str, Any]:
        return {"health": self._health.state(), "before": self._last_images}

    def set_state(self, state: Dict[str, Any]) -> None:
        self._health = Health(self._advice, state.get("health"))
        self._last_images = state.get("before")  # the samples of the last record

    def fetches(self) -> Dict[str, Any]:
        return self._scalars

    def on_step(self, step, values, context) -> None:
        record = self._record(step, values, np.asarray(context.session.run(self._images)))
        self.loop.log(describe(record))
        for verdict in self._health.judge(record):
            self.loop.log(f"warning: {verdict.sentence} {verdict.advice}")
            self.loop.record(to_event(record, verdict))

    def _record(self, step: int, values: Mapping[str, Any], images: np.ndarray) -> Record:
        scalars: Dict[str, Any] = {name: float(value) for name, value in values.items()}
        record = Record(step, **scalars)
        image_spread, before, self._last_images = spread(images), self._last_images, images
        if image_spread is not None and self._real_spread:
            record = record._replace(spread=image_spread / self._real_spread)
        if before is not None and before.shape == images.shape:  # a resume may change their number
            record = record._replace(change=float(np.mean(np.abs(images - before))))
        return record


def to_event(record: Record, verdict: Verdict) -> Dict[str, Any]:
    """A record of metrics.jsonl: the verdict, and the numbers that led to it."""
    event = {"kind": "event", "event": "health", "verdict": verdict.name}
    event.update((name, x) for name, x in record._asdict().items() if x is not None)
    event.update(sentence=verdict.sentence, advice=verdict.advice)
    return event


def choose_sample_steps(run: toolkit.Run) -> Tuple[int, int]:
    """After how many steps each the health is checked, whose rules count checks, and a grid is
    written.
    """
    if run.options.sample_steps is not None:
        return run.options.sample_steps, run.options.sample_steps
    total = run.total_steps or 10 * SAMPLE_STEPS
    return SAMPLE_STEPS, min(SAMPLE_STEPS, -(-total // 10))


def create_hooks(model, losses, run, splits) -> List[toolkit.SessionHook]:
    """The hooks of a training: grids of samples and, unless the generator is frozen, `HealthHook`;
    none with sample_steps=0.
    """
    train = splits("train")
    steps, grid_steps = choose_sample_steps(run)
    check_clusters(run.options, run.data, train)
    # Evenly spaced: a folder of images is read class after class.
    reals = to_unit_range(train.take(even_positions(len(train), NUM_REALS))[0])
    check_values(reals)
    if not steps or run.folder is None:
        return []
    inputs, columns = sampling.class_row_inputs(
        run.options, run.data, run.options.sample_count, run.seed("samples")
    )
    images = sampling.sample_fixed_inputs(model.average, inputs, run)
    values = {**losses, **run.logged}  # of several updates the last, as in metrics.jsonl
    scalars = {
        "accuracy_real": values["d_accuracy_real"],
        "accuracy_fake": values["d_accuracy_fake"],
        "generator_gradient_norm": values[GENERATOR + "/gradient_norm"],
    }
    advice = advise(run.options, run.data)
    hooks: List[toolkit.SessionHook] = []
    if len(run.data.shape) == 3 and run.data.shape[2] in (1, 3, 4):  # others make no picture
        shown = sampling.real_rows(train, len(inputs["z"]), run)
        hooks.append(toolkit.SampleGrids(run.folder, grid_steps, images, columns, shown))
    if any(name.startswith(f"{GENERATOR}/learning_rate") for name in values):  # it is not frozen
        hooks.append(HealthHook(toolkit.Every(steps), scalars, images, reals, advice))
    return hooks
