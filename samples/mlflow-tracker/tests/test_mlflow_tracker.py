"""What MLflow has of a run, in a local folder; a server that is down, slow or new."""

import socket
import threading
from types import SimpleNamespace

import pytest
from mlflow.tracking import MlflowClient
from toolkit_mlflow_tracker import destination, run_files
from toolkit_mlflow_tracker.destination import Destination, read_destination
from toolkit_mlflow_tracker.worker import Worker

import toolkit
from toolkit import DivergedError, hookimpl, testing, tf
from toolkit.cli import run_command

pytest_plugins = ["toolkit.testing.fixtures"]

WAIT = 600.0  # the import of MLflow takes as long as a busy machine wants


@pytest.fixture(autouse=True)
def _environment(tmp_path, monkeypatch):
    """An empty working directory, no server, and no network at all."""
    monkeypatch.chdir(tmp_path)
    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_NAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")


@pytest.fixture(scope="module")
def plugin():
    """The model that is trained with the extension: a small one of the test kit."""
    return testing.TINY_MODEL


@pytest.fixture(scope="module")
def plugin_extensions():
    return ["mlflow"]


@pytest.fixture(scope="module")
def plugin_options(tmp_path_factory):
    return {"mlflow_uri": str(tmp_path_factory.mktemp("mlruns")), "mlflow_wait": WAIT}


def test_a_contract_holds(contract):
    contract()


def train(folder, plugin=testing.TINY_MODEL, extensions=("mlflow",), **options):
    """The summary of a run of 12 steps with a commit every 4."""
    data = testing.write_digits(str(folder) + ".npz")
    values = {"data": data, "batch_size": 8, "steps": 12, "checkpoint_steps": 4, "log_steps": 4}
    values["steps_per_call"] = 1  # the graph of a loop takes a third of a run
    values.update({"mlflow_wait": WAIT} if "mlflow" in extensions else {}, **options)
    return testing.train(plugin, str(folder), list(extensions), **values)


def read_run(folder):
    """The run in MLflow to which a run folder belongs, and a client."""
    place = read_destination(str(folder))
    client = MlflowClient(tracking_uri=place.uri)
    return client.get_run(place.run_id), client


def history(folder, key):
    """Pairs of step and value of a metric in MLflow."""
    run, client = read_run(folder)
    metrics = client.get_metric_history(run.info.run_id, key)
    return [(metric.step, metric.value) for metric in metrics]


def records(folder, kind):
    return [r for r in run_files.read_records(str(folder), None) if r["kind"] == kind]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A finished run, with its MLflow data in the folder mlruns of the working directory."""
    root = tmp_path_factory.mktemp("finished")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        train(root / "run", "classifier", network="mlp", hidden="8")
    return root / "run"


def test_each_metric_has_its_steps_and_values(folder):
    steps = [(r["step"], r["loss"]) for r in records(folder, "train")]
    assert [step for step, _ in steps] == [4, 8, 12]
    assert history(folder, "train/loss") == steps
    evaluations = [(r["step"], r["accuracy"]) for r in records(folder, "eval")]
    assert evaluations and history(folder, "validation/accuracy") == evaluations


def test_the_test_has_its_metrics_and_their_intervals(folder):
    run, _ = read_run(folder)
    values = {value.key: value.value for value in run_files.read_test(str(folder))}
    assert "test/accuracy" in values and set(values.items()) <= set(run.data.metrics.items())
    low, high = values["test/accuracy_low"], values["test/accuracy_high"]
    assert 0 <= low <= values["test/accuracy"] <= high <= 1


def test_options_tags_and_status_are_those_of_the_run(folder):
    run, client = read_run(folder)
    assert run.data.params["hidden"] == "[8]" and run.data.params["steps"] == "12"
    assert run.data.tags["mlflow.runName"] == "run"
    assert run.data.tags["reason"] == "reached step 12"
    assert run.info.status == "FINISHED"
    assert client.get_experiment(run.info.experiment_id).name == "classifier"


def test_reports_and_the_page_are_artifacts(folder):
    run, client = read_run(folder)
    names = {file.path for file in client.list_artifacts(run.info.run_id)}
    assert {"config.json", "manifest.json", "report.html", "reports"} <= names
    assert client.list_artifacts(run.info.run_id, "reports/test-12")


def test_the_default_place_is_a_folder_beside_the_user(folder):
    assert read_destination(str(folder)).uri == str(folder.parent / "mlruns")


def test_the_run_has_the_bits_of_one_without_the_extension(folder, tmp_path):
    train(tmp_path / "plain", "classifier", [], network="mlp", hidden="8")
    assert testing.fingerprint(str(tmp_path / "plain")) == testing.fingerprint(str(folder))


def test_what_verify_trains_again_is_not_logged(folder, tmp_path):
    assert run_command(["verify", str(folder), "--replay", ":"]) == 0
    assert not (tmp_path / "mlruns").exists()


def test_a_resume_continues_the_same_run(tmp_path, monkeypatch):
    train(tmp_path / "run", pause_at=6)
    first, _ = read_run(tmp_path / "run")
    assert first.info.status == "KILLED" and first.data.tags["status"] == "stopped"
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")  # the place is that of the first session
    train(tmp_path / "run", steps=16)
    second, client = read_run(tmp_path / "run")
    assert second.info.run_id == first.info.run_id and second.info.status == "FINISHED"
    assert second.data.params["steps"] == "12" and second.data.tags["resumed.steps"] == "16"
    losses = [(r["step"], r["loss"]) for r in records(tmp_path / "run", "train")]
    assert history(tmp_path / "run", "train/loss") == losses
    assert len(client.search_runs([second.info.experiment_id])) == 1


def test_a_resume_begins_a_new_run_where_the_former_one_was_deleted(tmp_path):
    train(tmp_path / "run", pause_at=6)
    first, client = read_run(tmp_path / "run")
    client.delete_run(first.info.run_id)
    train(tmp_path / "run")
    second, _ = read_run(tmp_path / "run")
    assert second.info.run_id != first.info.run_id
    steps = [record["step"] for record in records(tmp_path / "run", "train")]
    assert [step for step, _ in history(tmp_path / "run", "train/loss")] == steps


class Diverging:
    """An extension: the loss is infinite from the seventh step on."""

    @hookimpl(wrapper=True)
    def loss(self, run):
        losses = yield
        return losses * tf.where(tf.less(run.step_index, 6), 1.0, float("inf"))


def test_a_diverged_run_is_a_failed_one_with_its_reason(tmp_path):
    with pytest.raises(DivergedError):
        train(tmp_path / "run", extensions=["mlflow", Diverging()])
    run, _ = read_run(tmp_path / "run")
    assert run.info.status == "FAILED" and run.data.tags["status"] == "diverged"
    assert [step for step, _ in history(tmp_path / "run", "train/loss")] == [4]


@pytest.fixture
def server():
    """A socket at an address that nobody else gets, which does not listen."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        yield server


@pytest.fixture
def address(server):
    return f"http://127.0.0.1:{server.getsockname()[1]}"


def train_and_read_warnings(folder, **options):
    data, lines = testing.write_digits(str(folder) + ".npz"), []
    values = {"data": data, "batch_size": 8, "steps": 12, "checkpoint_steps": 2}
    values.update(steps_per_call=1, evaluate="no", best_metric="none", **options)
    run = toolkit.train(testing.TINY_MODEL, str(folder), values, lines.append, ["mlflow"])
    assert run.summary["finished"]
    return [line for line in lines if line.startswith("warning")]


def test_a_server_that_is_down_gives_one_warning(tmp_path, monkeypatch, address):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    values = {"mlflow_uri": address, "mlflow_wait": WAIT}
    (line,) = train_and_read_warnings(tmp_path / "run", **values)
    assert address in line and "lacks a part of the run" in line


def test_a_server_that_never_answers_is_not_waited_for(tmp_path, server, address):
    server.listen(50)
    (line,) = train_and_read_warnings(tmp_path / "run", mlflow_uri=address, mlflow_wait=0.5)
    assert address in line and "no answer within 0.5 s" in line


def test_a_resume_sends_what_a_server_missed_to_the_place_of_mlflows_variables(
    tmp_path, monkeypatch, address
):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "mine")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", address)
    train(tmp_path / "run", pause_at=6)
    assert read_destination(str(tmp_path / "run")) is None
    monkeypatch.setenv("MLFLOW_TRACKING_URI", str(tmp_path / "up"))
    train(tmp_path / "run")
    losses = [(r["step"], r["loss"]) for r in records(tmp_path / "run", "train")]
    assert history(tmp_path / "run", "train/loss") == losses and len(losses) > 2
    run, client = read_run(tmp_path / "run")
    assert (tmp_path / "up").is_dir() and not (tmp_path / "mlruns").exists()
    assert client.get_experiment(run.info.experiment_id).name == "mine"


def test_a_resume_with_another_experiment_begins_a_new_run(tmp_path):
    began = Destination("file:a", "mine", "1", 3)
    destination.write_destination(str(tmp_path), began)
    for experiment, expected in (("", began), ("yours", Destination("file:a", "yours"))):
        options = SimpleNamespace(mlflow_uri=None, mlflow_experiment=experiment)
        assert destination.choose_destination(options, str(tmp_path)) == expected


def test_names_and_values_are_what_mlflow_accepts():
    assert run_files.clean("loss:é of/a") == "loss__ of.a"
    assert len(run_files.clean(300 * "x")) == 200
    record = {"step": 3, "kind": "eval", "split": "validation", "accuracy": 0.5, "best": True}
    assert run_files.values_of(record) == [("validation/accuracy", 0.5, 3)]
    assert run_files.values_of({"step": 3, "kind": "event", "count": 2}) == []


def test_a_request_replaces_one_that_waits_and_a_failure_ends_nothing():
    started, may_end, requests = threading.Event(), threading.Event(), []

    def carry_out(request):
        requests.append(request)
        started.set()
        may_end.wait(WAIT)
        if request == "first":
            raise ValueError("no")

    worker = Worker(carry_out)
    worker.request("first")
    assert started.wait(WAIT)
    worker.request("second")
    worker.request("third")
    assert not worker.wait(0.0)
    may_end.set()
    assert worker.wait(WAIT)
    assert requests == ["first", "third"] and worker.failure == ""
    worker.request("first")
    assert worker.wait(WAIT) and worker.failure == "ValueError: no"
