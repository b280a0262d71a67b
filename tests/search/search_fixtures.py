"""A small definition of a study, for the tests of the room."""

from __future__ import annotations

import json
import os
from typing import Any

from toolkit.search.definition import LAST, STEPS, TPE, Budget, Definition, Dimension
from toolkit.search.table import Row

RATE = Dimension("learning_rate", "float", 1e-4, 1e-2, is_log=True)
SIZE = Dimension("batch_size", "choice", choices=(16, 32))


def small_definition(**values: Any) -> Definition:
    """A definition with a range of rates and two batch sizes; `values` replace its fields."""
    definition = Definition(
        plugin="classifier",
        extensions=(),
        options={"normalize": True, "network": "mlp"},
        flags=("network",),
        space=(RATE, SIZE),
        sampler=TPE,
        trials=4,
        seeds=(1, 2),
        budget=Budget(STEPS, 100),
        rungs=(1.0,),
        reduction=0,
        metric="accuracy",
        direction="max",
        moment=LAST,
        interval=0,
        study_seed=0,
        threads=1,
    )
    return definition._replace(**values)


def row(number: int, status: str, step: int = 64, **values: Any) -> Row:
    """A row of a table; `values` replace its fields."""
    paths = [f"trials/{number:04d}-s1"]
    fields = Row(number, {}, status, "", 0.5, None, None, "", 1, 0, step, 1.0, paths)
    return fields._replace(**values)


def write_study(folder: str, **values: Any) -> None:
    """Write a study without configurations into a new folder."""
    os.mkdir(folder)
    with open(os.path.join(folder, "study.json"), "w") as file:
        json.dump(dict(small_definition(**values).as_json(), configurations=[]), file)
