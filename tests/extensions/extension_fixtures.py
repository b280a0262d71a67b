"""Runs with extensions."""

from linear_fixtures import LINEAR

from toolkit import testing

SETTINGS = {"steps": 4, "evaluate": "no", "batch_size": 4, "best_metric": "none"}
SETTINGS["steps_per_call"] = 1


def train(data, name, extensions=(), plugin=LINEAR, **options):
    """Train a few single steps without an evaluation, and return the folder of the run."""
    testing.train(plugin, name, list(extensions), **{**SETTINGS, "data": data, **options})
    return name
