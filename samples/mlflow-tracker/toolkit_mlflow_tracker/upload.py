"""Send what is new in the folder of a run to MLflow."""

from __future__ import annotations

import os
import time
from typing import Any, Iterator, List, NamedTuple, Optional

from . import run_files
from .destination import Destination, write_destination

BATCH = 100  # parameters, tags or metrics in one request, as MLflow limits them
# How a run ended: here, and in the words of MLflow. One that is killed stays "RUNNING".
STATUSES = {"finished": "FINISHED", "stopped": "KILLED", "interrupted": "KILLED"}


class Request(NamedTuple):
    """What to send.

    Attributes:
        step: the last committed step; None for all.
        status: how the run ended; "" if it has not.
        reason: why it ended.
    """

    step: Optional[int]
    status: str = ""
    reason: str = ""


class Upload:
    """Sends a run to MLflow, part by part. What failed is sent again by the next request.

    Args:
        folder: of the run.
        destination: where to send it.
    """

    def __init__(self, folder: str, destination: Destination):
        self._folder = folder
        self._destination = destination
        self._client: Any = None  # exists when this session has begun its run in MLflow

    def send(self, request: Request) -> None:
        """Send what is new. Raises whatever MLflow raises."""
        if self._client is None:
            self._client = self._begin()
        self._send_records(request.step)
        if request.status:
            self._end(request)

    def _begin(self) -> Any:
        """Begin a run in MLflow, or continue that of an earlier session; return a client."""
        from mlflow.tracking import MlflowClient  # takes seconds, here in the thread

        client = MlflowClient(tracking_uri=self._destination.uri)
        params: dict = {}
        run = self._find_run(client)
        if run is None:
            run = client.create_run(self._find_experiment(client))
            self._record(run_id=run.info.run_id, num_records=0)
        else:
            params = run.data.params
            client.set_terminated(run.info.run_id, "RUNNING")
        self._send_options(client, params)
        return client

    def _find_run(self, client: Any) -> Any:
        """Return the run of an earlier session; None if there is none, or it was deleted."""
        from mlflow.exceptions import MlflowException

        if self._destination.run_id is None:
            return None
        try:
            run = client.get_run(self._destination.run_id)
        except MlflowException as error:
            if error.error_code == "RESOURCE_DOES_NOT_EXIST":
                return None
            raise
        return run if run.info.lifecycle_stage == "active" else None

    def _find_experiment(self, client: Any) -> str:
        name = self._destination.experiment or run_files.read_config(self._folder)["plugin"]
        experiment = client.get_experiment_by_name(name)
        if experiment is None:
            return client.create_experiment(name)
        return experiment.experiment_id

    def _record(self, **values: Any) -> None:
        self._destination = self._destination._replace(**values)
        write_destination(self._folder, self._destination)

    def _send_options(self, client: Any, known: Any) -> None:
        """Send parameters and tags. A parameter cannot change; a resume adds a tag in its place."""
        from mlflow.entities import Param, RunTag

        run_id, options = self._destination.run_id, run_files.read_params(self._folder)
        params = [Param(name, text) for name, text in options.items() if name not in known]
        tags = [RunTag(*item) for item in run_files.read_tags(self._folder).items()]
        tags += [
            RunTag(f"resumed.{name}", text)
            for name, text in options.items()
            if known.get(name, text) != text
        ]
        for part in _parts(params):
            client.log_batch(run_id, params=part)
        for part in _parts(tags):
            client.log_batch(run_id, tags=part)

    def _send_records(self, step: Optional[int]) -> None:
        """Send the records that MLflow does not have. After a kill it may have more than exist;
        they come again with the same numbers.
        """
        records = run_files.read_records(self._folder, step)
        num_known = self._destination.num_records
        values = [value for record in records[num_known:] for value in run_files.values_of(record)]
        if len(records) > num_known:
            self._send_values(values)
            self._record(num_records=len(records))

    def _send_values(self, values: List[run_files.Value]) -> None:
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        for part in _parts([Metric(v.key, v.value, now, v.step) for v in values]):
            self._client.log_batch(self._destination.run_id, metrics=part)

    def _end(self, request: Request) -> None:
        """Send the test, the artifacts and the status."""
        from mlflow.entities import RunTag

        run_id = self._destination.run_id
        self._send_values(run_files.read_test(self._folder))
        for name in run_files.ARTIFACTS:
            path = os.path.join(self._folder, name)
            if os.path.isdir(path):
                self._client.log_artifacts(run_id, path, name)
            elif os.path.isfile(path):
                self._client.log_artifact(run_id, path)
        tags = [RunTag("status", request.status), RunTag("reason", request.reason[:500])]
        self._client.log_batch(run_id, tags=tags)
        self._client.set_terminated(run_id, STATUSES.get(request.status, "FAILED"))


def _parts(values: List[Any]) -> Iterator[List[Any]]:
    for start in range(0, len(values), BATCH):
        yield values[start : start + BATCH]
