"""Scores of generated images, for the runs of any plugin with the hook `sample`.

`--with image-scores` compares samples with real images: in training on the validation split, and at
its end and by `toolkit evaluate` in full. Each module is imported when a hook first needs it.

Packages that depend on this one may import `ImageScorer` of `scorer`, `ImageScoresOptions` of
`options`, `even_positions` and `read_images` of `sets`, and `short` of `report`.
"""

from __future__ import annotations

from toolkit import LazyModules, hookimpl

modules = LazyModules(__name__)


@hookimpl
def options():
    return modules.options.ImageScoresOptions


@hookimpl
def session_hooks(run, splits):
    modules.scorer.check_best_metric(run.options, splits("validation"))
    modules.scorer.note_small_splits(run, splits)
    return []


@hookimpl
def scorers(run, splits):
    return [modules.scorer.ImageScorer(run, splits)]
