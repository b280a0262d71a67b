"""The session hook that checks a GAN's health: it makes the records that `health` judges.

Legend: n samples, m real images, H W C of an image.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence

import numpy as np

import toolkit

from .health import Health, Record, Verdict, describe, spread


class HealthHook(toolkit.SessionHook):
    """Logs a record on each due step, and each new verdict as a warning and in metrics.jsonl.

    Args:
        every: when it is due.
        scalars: tensors of the training step, by the names of `Record`'s fields.
        samples: a function of the session that returns float [n, H, W, C] in [0, 1], always from
            the same noise. It is called after the step, so it does not affect training.
        reals: float [m, H, W, C] in [0, 1].
        classify: a function of such images that returns labels, or None if it has no classes. It
            is first called with the first record. If it has a method `close`, that is called at
            the end.
        class_names: the names of the labels.
    """

    name = "health"

    def __init__(
        self,
        every: toolkit.Every,
        scalars: Mapping[str, Any],
        samples: Callable[[Any], np.ndarray],
        reals: np.ndarray,
        classify: Optional[Callable[[np.ndarray], Optional[np.ndarray]]] = None,
        class_names: Sequence[str] = (),
    ):
        self.every = every
        self._scalars = dict(scalars)
        self._samples = samples
        self._classify = classify
        self._class_names = list(class_names)
        self._reals = reals
        self._real_spread = spread(reals)
        self.set_state({})

    def state(self) -> Dict[str, Any]:
        if self._health is None:
            return self._restored_state  # no record since then
        return {"health": self._health.state(), "before": self._last_images}

    def set_state(self, state: Dict[str, Any]) -> None:
        self._restored_state = state
        self._health: Optional[Health] = None  # created with the first record
        self._class_shares: List[float] = []  # of the reals
        self._last_images = state.get("before")  # the samples of the last record

    def fetches(self) -> Dict[str, Any]:
        return self._scalars

    def on_stop(self, session, step, error) -> None:
        close = getattr(self._classify, "close", None)
        if close is not None:
            close()

    def on_step(self, step, values, context) -> None:
        if self._health is None:
            self._health = self._restored_health()
        record = self._record(step, values, np.asarray(self._samples(context.session)))
        self.loop.log(describe(record))
        for verdict in self._health.judge(record):
            self.loop.log(f"warning: {verdict.sentence} {verdict.advice}")
            self.loop.record(to_event(record, verdict))

    def _restored_health(self) -> Health:
        # The classifier's own mistakes are in the counts of samples and of reals alike.
        counts = self._count_classes(self._reals)
        self._class_shares = [] if counts is None else [n / len(self._reals) for n in counts]
        health = Health(self._class_names, self._class_shares)
        if self._restored_state:
            health.set_state(self._restored_state["health"])
        return health

    def _record(self, step: int, values: Mapping[str, Any], images: np.ndarray) -> Record:
        scalars: Dict[str, Any] = {name: float(value) for name, value in values.items()}
        record = Record(step, **scalars)
        image_spread, before, self._last_images = spread(images), self._last_images, images
        if image_spread is not None and self._real_spread:
            record = record._replace(spread=image_spread / self._real_spread)
        if before is not None and before.shape == images.shape:  # a resume may change their number
            record = record._replace(change=float(np.mean(np.abs(images - before))))
        return record._replace(class_counts=self._count_classes(images))

    def _count_classes(self, images: np.ndarray) -> Optional[List[int]]:
        labels = None if self._classify is None else self._classify(images)
        if labels is None:
            return None
        num_classes = max(len(self._class_names), len(self._class_shares))
        return np.bincount(np.asarray(labels), minlength=num_classes).tolist()


def to_event(record: Record, verdict: Verdict) -> Dict[str, Any]:
    """A record of metrics.jsonl: the verdict, and the numbers that led to it."""
    event = {"kind": "event", "event": "health", "verdict": verdict.name}
    for name, value in record._asdict().items():
        if value is not None:
            event[name] = value
    event.update(sentence=verdict.sentence, advice=verdict.advice)
    return event
