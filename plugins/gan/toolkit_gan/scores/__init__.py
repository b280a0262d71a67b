"""Scores of generated images against real ones. Few of these modules import TensorFlow."""

from __future__ import annotations


def create_scorers(run, splits):
    """The scorers of an evaluation: one, with the options' features."""
    from .scorer import GanScorer

    return [GanScorer(run, splits)]
