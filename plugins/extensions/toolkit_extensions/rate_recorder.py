"""The session hook of lr-finder: it records the loss of each step, and ends the run."""

from __future__ import annotations

import csv
import io
import json
import os
from typing import Any, Dict, List, Optional, Tuple

import toolkit

from . import rate_search


class RateRecorder(toolkit.SessionHook):
    """Records the loss, a float32 scalar, of each step; writes rates.csv, .png and .json at the
    end.

    The rates are the first, the last, and the number of steps between them. The loss has diverged
    above `limit` times its minimum.
    """

    name = "lr-finder"
    every = toolkit.Every(1)

    def __init__(
        self, folder: str, name: str, loss: Any, rates: Tuple[float, float, int], limit: float
    ):
        self._folder, self._loss_name, self._loss = folder, name, loss
        self._rates, self._limit = rates, limit
        self._losses: List[float] = []

    def state(self) -> Dict[str, Any]:
        losses = [repr(loss) for loss in self._losses]  # JSON has no nan
        return {"losses": losses, "rates": list(self._rates)}

    def set_state(self, state: Dict[str, Any]) -> None:
        low, high, steps = rates = tuple(state.get("rates", self._rates))
        if rates != self._rates:
            raise toolkit.UsageError(
                f"The rates of this search rise from {low:g} to {high:g} over {steps} steps.",
                hint="Begin a new run.",
            )
        self._losses = [float(text) for text in state.get("losses", [])]

    def fetches(self) -> Any:
        return self._loss

    def on_step(self, step: int, values: Any, context: Any) -> None:
        self._losses.append(float(values))
        if rate_search.has_diverged(self._losses, self._limit):
            text = f"the loss diverged at the learning rate {self._rate(step):.2g}"
            self.loop.log(f"lr-finder: {text}")
            self.loop.request_stop(text)

    def on_stop(self, session: Any, step: int, error: Any) -> None:
        has_ended = step == self._rates[2] or rate_search.has_diverged(self._losses, self._limit)
        if error is None and has_ended:  # and was not paused
            self._write()

    def _rate(self, step: int) -> float:
        return rate_search.rate_at(step, *self._rates)

    def _write(self) -> None:
        from matplotlib import style

        rates = [self._rate(step) for step in range(1, len(self._losses) + 1)]
        smoothed = rate_search.smooth(self._losses)
        proposal = rate_search.propose(rates, self._losses)
        write_text(self._file("rates.csv"), table(rates, self._losses, smoothed))
        record = {} if proposal is None else proposal._asdict()
        write_text(self._file("rates.json"), json.dumps({"loss": self._loss_name, **record}) + "\n")
        with style.context("default"):  # anybody can put a matplotlibrc in the working directory
            draw(self._file("rates.png"), rates, smoothed, proposal, self._loss_name)
        self.loop.log(sentence(proposal, self._file("rates.png")))

    def _file(self, name: str) -> str:
        os.makedirs(self._folder, exist_ok=True)
        return os.path.join(self._folder, name)


def sentence(proposal: Optional[rate_search.Proposal], path: str) -> str:
    """What the run says at its end."""
    if proposal is None:
        text = f"the loss diverged within {rate_search.MIN_RECORDS} steps, so no learning rate is "
        text += "proposed: set a lower --lr-low"
    elif proposal.learning_rate is None:
        text = "the loss never falls, so no learning rate is proposed"
    else:
        text = f"--learning-rate {proposal.learning_rate:.2g} is where the loss falls most steeply"
    return f"lr-finder: {text}; see {path}"


def write_text(path: str, text: str) -> None:
    with toolkit.atomic_write(path) as file:
        file.write(text.encode("utf-8"))


def table(rates: List[float], losses: List[float], smoothed: List[float]) -> str:
    """The text of a CSV file with a row for each step."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["step", "learning_rate", "loss", "smoothed_loss"])
    rows = zip(range(1, len(rates) + 1), rates, losses, smoothed)
    writer.writerows([step, *(f"{value:.6g}" for value in values)] for step, *values in rows)
    return file.getvalue()


def draw(path: str, rates: List[float], smoothed: List[float], proposal: Any, name: str) -> None:
    """Draw the smoothed loss over the logarithm of the rate, as a PNG."""
    from matplotlib.figure import Figure  # without pyplot, which keeps figures

    figure = Figure(figsize=(6, 4))
    axes = figure.subplots()
    axes.plot(rates, smoothed)
    axes.set_xscale("log")
    axes.set_xlabel("learning rate")
    axes.set_ylabel(f"{name}, smoothed")
    finite = [value for value in smoothed if value < float("inf")]
    if finite:  # the divergence would flatten the rest
        height = max(finite[0] - min(finite), 1e-12)
        axes.set_ylim(min(finite) - 0.1 * height, finite[0] + height)
    if proposal is not None and proposal.learning_rate is not None:
        axes.axvline(proposal.learning_rate, linestyle="--", color="grey")
        axes.set_title(f"proposal: {proposal.learning_rate:.2g}")
    with toolkit.atomic_write(path) as file:
        figure.savefig(file, format="png", dpi=100)
