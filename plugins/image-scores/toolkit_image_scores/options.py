"""The options of the scores: names, types, defaults and limits. Imports no TensorFlow."""

from __future__ import annotations

from toolkit import Options, option

WORDS = ("auto", "self", "classifier", "pixels")  # of the option `features`


class ImageScoresOptions(Options):
    """Which features the scores use, and how many samples."""

    features: str = option(
        "auto",
        "the scores' features: auto (classifier if it is good, else self), classifier, self "
        "(trained without labels), pixels, or RUN",
        group="Evaluation",
        path=True,
        words=WORDS,
        resume_may_change=True,
    )
    quick_samples: int = option(
        2000,
        "samples for the scores during training",
        unit="samples",
        group="Evaluation",
        resume_may_change=True,
        ge=100,
    )
    score_samples: int = option(
        10000,
        "samples for the scores of 'toolkit evaluate'",
        unit="samples",
        group="Evaluation",
        resume_may_change=True,
        ge=100,
    )
    two_sample: bool = option(
        True,
        "let a network tell samples from real images in 'toolkit evaluate' (two-sample test)",
        group="Evaluation",
        resume_may_change=True,
    )
