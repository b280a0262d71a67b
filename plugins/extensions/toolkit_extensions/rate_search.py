"""The arithmetic of lr-finder, without TensorFlow: rates, the smoothed loss, the proposal."""

from __future__ import annotations

import math
from typing import List, NamedTuple, Optional, Sequence

import numpy as np

MEMORY = 0.9  # decay of the loss's moving average
LAG = 9  # records: MEMORY / (1 - MEMORY), the mean age of what is in the average
MIN_RECORDS = 10  # before the loss can diverge, and for a proposal


class Proposal(NamedTuple):
    """What the losses of a search say."""

    learning_rate: Optional[float]  # where the smoothed loss falls most steeply; None: nowhere
    lowest: float  # the rate of the lowest smoothed loss
    last: float  # the rate of the last step


def rate_at(step: int, low: float, high: float, total_steps: int) -> float:
    """The learning rate of a step; the first is step 1."""
    return low * math.exp(math.log(high / low) * (step - 1) / (total_steps - 1))


def smooth(losses: Sequence[float]) -> List[float]:
    """The moving average of the losses so far, without bias to zero.

    A loss that is not finite makes it infinite.
    """
    average, values = 0.0, []
    for count, loss in enumerate(losses, 1):
        average = MEMORY * average + (1 - MEMORY) * loss
        value = average / (1 - MEMORY**count)
        values.append(value if math.isfinite(value) else math.inf)
    return values


def has_diverged(losses: Sequence[float], limit: float) -> bool:
    """Whether the last smoothed loss exceeds the first or the lowest one by too much.

    It does where it has risen above the lowest by `limit` times the fall from the first to the
    lowest and the size of the lowest, whichever is more. Losses may be negative.
    """
    if losses and not math.isfinite(losses[-1]):
        return True
    if len(losses) < MIN_RECORDS:
        return False
    values = smooth(losses)
    lowest = min(values)
    return values[-1] > lowest + (limit - 1) * max(abs(lowest), values[0] - lowest)


def propose(rates: Sequence[float], losses: Sequence[float]) -> Optional[Proposal]:
    """The proposal for the losses at rising rates; None for too few of them.

    The slope of the smoothed loss is taken over a tenth of the records, since single steps are
    noisy, and belongs to the rate of `LAG` records before, by which the average is late.
    """
    count = next((i for i, loss in enumerate(losses) if not math.isfinite(loss)), len(losses))
    if count < MIN_RECORDS:
        return None
    values = np.array(smooth(losses[:count]))
    lowest = int(values.argmin())
    width = max(2, count // 10)
    first = MIN_RECORDS  # before, the average has seen too few losses
    falls = [values[i] - values[i + width] for i in range(first, lowest + 1 - width)]
    rate = None
    if falls and max(falls) > 0:
        middle = first + int(np.argmax(falls)) + width // 2
        rate = float(rates[max(0, middle - LAG)])
    return Proposal(rate, float(rates[lowest]), float(rates[count - 1]))
