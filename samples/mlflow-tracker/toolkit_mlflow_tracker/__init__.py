"""`--with mlflow`: log a run of any model plugin to MLflow.

The training writes its run folder as ever; a thread beside it sends what is committed there to
MLflow. So no step waits for a server, and no number of the run depends on one.
"""

from __future__ import annotations

from typing import Any, Dict, Optional

from toolkit import LazyModules, Options, hookimpl, option

GROUP = "MLflow"
modules = LazyModules(__name__)  # a session hook needs TensorFlow, `toolkit run --help` does not
_TRACKERS: Dict[str, Any] = {}  # folder of a run in this process -> its `Tracker`


class MlflowOptions(Options):
    mlflow_uri: Optional[str] = option(
        None,
        "server, database or folder of MLflow (default: MLFLOW_TRACKING_URI, else the folder "
        "mlruns)",
        group=GROUP,
        affects_result=False,
    )
    mlflow_experiment: Optional[str] = option(
        None,
        "experiment (default: MLFLOW_EXPERIMENT_NAME, else the model plugin)",
        group=GROUP,
        affects_result=False,
    )
    mlflow_wait: float = option(
        20.0,
        "seconds that the end of a run waits for MLflow, at most",
        group=GROUP,
        ge=0,
        affects_result=False,
    )


@hookimpl
def options():
    return MlflowOptions


@hookimpl
def session_hooks(run):
    # Of several processes, one has the folder of the run; what `toolkit verify` trains is no news.
    if not run.is_chief or run.is_copy:
        return []
    _TRACKERS[run.folder] = modules.session_hook.Tracker(run)
    return [_TRACKERS[run.folder]]


@hookimpl
def run_ended(run, status, reason):
    tracker = _TRACKERS.pop(run.folder, None)
    if tracker is not None:
        tracker.finish(status, reason)
