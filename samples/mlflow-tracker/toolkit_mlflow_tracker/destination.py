"""Where a run is logged: which server, experiment and run of MLflow."""

from __future__ import annotations

import json
import os
from typing import Any, NamedTuple, Optional

from toolkit import atomic_write

FILE = "mlflow.json"  # in the folder of a run
# What the user did not set. MLflow itself would retry for minutes, and refuses folders since 3.13.
SETTINGS = {
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_ALLOW_FILE_STORE": "true",
}


class Destination(NamedTuple):
    """Where a run is logged.

    Attributes:
        uri: as MLflow names it.
        experiment: its name.
        run_id: of the run that an earlier session began there; None for a new one.
        num_records: how many records of metrics.jsonl that run has.
    """

    uri: str
    experiment: Optional[str]
    run_id: Optional[str] = None
    num_records: int = 0


def choose_destination(options: Any, folder: str) -> Destination:
    """Choose where a run is logged: where the user says, else where it began, else in mlruns."""
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    before = read_destination(folder) or Destination(os.path.abspath("mlruns"), None)
    uri = options.mlflow_uri or os.environ.get("MLFLOW_TRACKING_URI") or before.uri
    experiment = options.mlflow_experiment or os.environ.get("MLFLOW_EXPERIMENT_NAME")
    chosen = Destination(uri, experiment or before.experiment)
    return before if chosen[:2] == before[:2] else chosen


def read_destination(folder: str) -> Optional[Destination]:
    """Return where a run was logged; None if that is not recorded, or damaged."""
    try:
        with open(os.path.join(folder, FILE), encoding="utf-8") as file:
            return Destination(**json.load(file))
    except (OSError, ValueError, TypeError):
        return None


def write_destination(folder: str, destination: Destination) -> None:
    """Record where a run is logged."""
    with atomic_write(os.path.join(folder, FILE)) as file:
        file.write(json.dumps(destination._asdict(), indent=2).encode())
