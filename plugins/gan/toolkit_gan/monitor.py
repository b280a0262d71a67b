"""The session hook that looks after a GAN's health: it makes the records, `health` judges them.

Legend: n samples, m real images, H W C of an image.
"""

from __future__ import annotations

import numpy as np

import toolkit

from .health import Health, Record, spread, words

# What is fetched -> the field of a record.
FIELDS = {
    "discriminator_accuracy_real": "accuracy_real",
    "discriminator_accuracy_fake": "accuracy_fake",
    "critic_gradient_norm": "critic_gradient_norm",
    "generator_gradient_norm": "generator_gradient_norm",
}


class HealthHook(toolkit.Hook):
    """Says a line on each due step and a warning with each new verdict, which metrics.jsonl keeps.

    scalars: tensors of the training step by the names in FIELDS, fetched together with it. samples:
    a function of the session -> float [n, H, W, C] in [0, 1], always from the same noise; called
    after the step, so that training takes no notice. reals: float [m, H, W, C] in [0, 1]. classify:
    None, or a function of such images -> labels, or None where it knows none; it is first called at
    the first look, and closed at the end where it can be. class_names: what the labels stand for.
    """

    name = "health"

    def __init__(self, every, scalars, samples, reals, classify=None, class_names=()):
        self.every = every
        self._scalars = dict(scalars)
        self._samples = samples
        self._classify = classify
        self._class_names = list(class_names)
        self._reals = reals
        self._real_spread = spread(reals)
        self.set_state({})

    def state(self):
        if self._health is None:
            return self._kept  # no look since then
        return {"health": self._health.state(), "before": self._before}

    def set_state(self, state):
        self._kept = state
        self._health = None  # made at the first look
        self._class_shares = []  # of the reals
        self._before = state.get("before")  # the samples of the last look

    def fetches(self):
        return self._scalars

    def on_stop(self, session, step, error):
        if hasattr(self._classify, "close"):
            self._classify.close()

    def on_step(self, step, values, context):
        if self._health is None:
            self._class_shares = self._shares()
            self._health = Health(self._class_names, self._class_shares)
            if self._kept:
                self._health.set_state(self._kept["health"])
        record = self._record(step, values, np.asarray(self._samples(context.session)))
        self.loop.say(words(record))
        for verdict in self._health.judge(record):
            self.loop.say(f"warning: {verdict.sentence} {verdict.advice}")
            self.loop.record(as_event(record, verdict))

    def _record(self, step, values, images):
        found = {FIELDS[name]: float(value) for name, value in values.items()}
        own, before, self._before = spread(images), self._before, images
        if own is not None and self._real_spread:
            found["spread"] = own / self._real_spread
        if before is not None:
            found["change"] = float(np.mean(np.abs(images - before)))
        found["class_counts"] = self._counts(images)
        return Record(step, **found)

    def _counts(self, images):
        labels = None if self._classify is None else self._classify(images)
        if labels is None:
            return None
        known = max(len(self._class_names), len(self._class_shares))
        return np.bincount(np.asarray(labels), minlength=known).tolist()

    def _shares(self):
        """What the classifier makes of real images: its own mistakes are then in both counts."""
        counts = self._counts(self._reals)
        return [] if counts is None else [count / len(self._reals) for count in counts]


def as_event(record, verdict):
    """A line of metrics.jsonl: the verdict, and the numbers that it was given by."""
    numbers = {name: value for name, value in record._asdict().items() if value is not None}
    event = {"kind": "event", "event": "health", "verdict": verdict.name}
    event.update(numbers, sentence=verdict.sentence, advice=verdict.advice)
    return event
