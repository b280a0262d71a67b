"""A trained run opened by code: its facts, predictions and splits; a whole run in one call."""

from __future__ import annotations

import hashlib
import json
import shutil
import signal

import numpy as np
import pytest
from file_fixtures import read_json
from generator_fixtures import GENERATOR, Generator, NestedTraining, expected_images
from linear_fixtures import DERIVED, LINEAR, Linear, bars, write_bars
from test_evaluate_predict_export import LABELS, logits_of, variables

import toolkit
from toolkit import CheckpointError, DataError, UsageError, open_trained, testing, tf
from toolkit.storage.run_folder import RunFolder


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A folder with a run of 6 steps of each plugin of this test, saved every 2; read-only."""
    folder = tmp_path_factory.mktemp("runs")
    data = write_bars(folder / "bars.npz")
    for plugin in (GENERATOR, DERIVED):
        toolkit.train(plugin, str(folder / plugin), {"data": data, "steps": 6})
    return folder


@pytest.fixture
def maker(runs, here):
    """A run of the plugin that is fed codes and labels, at `r`."""
    shutil.copytree(str(runs / GENERATOR), "r")
    return here / "r"


CODES = {"code": np.array([[1, 9], [2, 9], [-1, 9]], np.float32), "label": np.array([0, 1, 2])}


def expected_of(run, step=6):
    return expected_images(variables(run, step)[0], CODES["code"], CODES["label"])


# ------------------------------------------------------------------------------------------- opened


def test_an_opened_run_tells_what_it_is(trained):
    with open_trained(str(trained / "run"), "4") as opened:
        assert opened.folder == str(trained / "run")
        assert opened.plugin == "Linear"
        assert (opened.step, opened.data.shape) == (4, (6, 6, 1))
        assert opened.options.learning_rate == 0.02
        assert opened.summary["steps"] == 6


def test_the_best_checkpoint_is_opened_unless_another_is_named(trained):
    path = str(trained / "run")
    RunFolder(path).update_manifest(best={"step": 2, "value": 1.0})
    assert open_trained(path).step == 2
    assert open_trained(path, "last").step == 6
    assert open_trained(path, 4).step == 4


def test_the_sha256_follows_from_the_hashes_of_the_checkpoints_files(trained):
    files = RunFolder(str(trained / "run")).checkpoints.list()[-1].files
    text = "".join(files[name].sha256 for name in sorted(files))
    opened = open_trained(str(trained / "run"), "last")
    assert opened.sha256 == hashlib.sha256(text.encode()).hexdigest()
    assert opened.sha256 != open_trained(str(trained / "run"), "2").sha256


def test_an_opened_run_predicts_as_numpy_does(trained):
    images = bars(LABELS, 2)
    with open_trained(str(trained / "run"), "6") as opened:
        found = opened.predict(images, batch_size=5)
        again = opened.predict({"features": images[:1]})
    assert np.allclose(found["logits"], logits_of(trained / "run", images), atol=1e-5)
    assert np.allclose(again["logits"], found["logits"][:1], atol=1e-6)


def test_an_opened_run_gives_its_splits(cli, trained, monkeypatch):
    monkeypatch.chdir(trained)
    opened = open_trained("run")
    assert opened.split("test").labels.tolist() == LABELS.tolist()
    assert opened.split("test") is opened.split("test")
    assert opened.split("nothing") is None


def test_what_cannot_be_opened_is_told(trained):
    with pytest.raises(UsageError, match="nowhere does not exist"):
        open_trained("nowhere")
    with pytest.raises(CheckpointError, match="no checkpoint '3'"):
        open_trained(str(trained / "run"), "3")


# ---------------------------------------------------------------- fed something else than examples


def test_a_model_that_is_fed_codes_predicts_from_them(maker):
    with open_trained(str(maker)) as opened:
        found = opened.predict(CODES, batch_size=2)
    assert found["image"].shape == (3, 6, 6, 1)
    assert np.allclose(found["image"], expected_of(maker), atol=1e-6)


@pytest.mark.parametrize(
    "given, told",
    [
        ({"code": np.zeros([1, 2])}, r"expected code \[N, 2\] float32, label \[N\] int32, found c"),
        (dict(CODES, more=np.zeros(3)), "found code, label, more"),
        (dict(CODES, label=np.arange(2)), "different numbers of rows: code 3, label 2"),
        (dict(CODES, code=np.zeros([3, 4])), r"'code' is \[3, 4\] float64, expected \[N, 2\] f"),
        (dict(CODES, label=np.zeros(3)), r"'label' is \[3\] float64, expected \[N\] int32"),
        (np.zeros([3, 6, 6, 1], np.uint8), "found features"),
    ],
    ids=["missing", "unknown", "rows", "shape", "type", "examples"],
)
def test_inputs_that_do_not_fit_are_told_by_name(maker, given, told):
    with open_trained(str(maker)) as opened, pytest.raises(DataError, match=told):
        opened.predict(given)


def test_no_rows_give_no_predictions(maker):
    empty = {"code": np.zeros([0, 2]), "label": np.zeros(0, int)}
    with open_trained(str(maker)) as opened:
        assert opened.predict(empty)["image"].shape == (0, 6, 6, 1)


@pytest.mark.parametrize("ending", ["npz", "json"])
def test_the_command_reads_arrays_by_name_and_writes_what_was_made(cli, maker, here, ending):
    np.savez("codes.npz", **CODES)
    told = cli("predict", "r", "codes.npz", "-o", "out." + ending)
    assert told.code == 0, told.err
    assert "3 predictions in out." + ending in told.err
    if ending == "npz":
        with np.load("out.npz") as stored:
            found, names = stored["image"], stored["files"].tolist()
    else:
        rows = read_json(here, "out.json")
        found, names = [row["image"] for row in rows], [row["file"] for row in rows]
    assert np.allclose(found, expected_of(maker), atol=1e-6)
    assert names == ["codes.npz[0]", "codes.npz[1]", "codes.npz[2]"]


def test_several_files_of_inputs_follow_one_another(cli, maker):
    np.savez("codes.npz", **CODES)
    np.savez("one.npz", code=[[5.0, 0.0]], label=[0])
    rows = json.loads(cli("predict", "r", "one.npz", "codes.npz", "--json").out)
    assert [row["file"] for row in rows[:2]] == ["one.npz", "codes.npz[0]"]
    assert np.allclose(
        rows[0]["image"], expected_images(variables(maker)[0], [[5.0, 0.0]], [0])[0], atol=1e-6
    )


@pytest.mark.parametrize(
    "name, told",
    [
        ("odd.npz", "odd.npz: expected code [N, 2] float32, label [N] int32, found z."),
        ("uneven.npz", "uneven.npz: the arrays have different numbers of rows: code 3, label 2"),
        ("none.npz", "none.npz: no such file."),
        ("one.png", "one.png: the model is fed code [N, 2] float32, label [N] int32, not exa"),
    ],
)
def test_files_that_hold_no_inputs_exit_4_and_are_named(cli, maker, here, name, told):
    np.savez("odd.npz", z=np.zeros([3, 2]))
    np.savez("uneven.npz", code=CODES["code"], label=[0, 1])
    (here / "one.png").write_bytes(b"anything")
    found = cli("predict", "r", name)
    assert found.code == 4 and found.out == ""
    assert told in found.err


def test_an_export_takes_the_same_inputs(cli, maker):
    told = cli("export", "r", "model", "--json")
    assert told.code == 0, told.err
    result = json.loads(told.out)
    assert (result["inputs"], result["outputs"]) == (["code", "label"], ["image"])
    with tf.Graph().as_default(), tf.Session() as session:
        loaded = tf.saved_model.loader.load(session, ["serve"], "model")
        signature = loaded.signature_def["serving_default"]
        feed = {signature.inputs[name].name: array for name, array in CODES.items()}
        images = session.run(signature.outputs["image"].name, feed)
    assert sorted(signature.inputs) == ["code", "label"]
    assert np.allclose(images, expected_of(maker), atol=1e-6)


def test_such_a_model_is_evaluated_on_examples_as_any_other(cli, maker):
    result = json.loads(cli("evaluate", "r", "--json").out)
    right = logits_of(maker, bars(LABELS, 2)).argmax(1) == LABELS
    assert result["metrics"]["accuracy"] == pytest.approx(right.mean())


# ---------------------------------------------------------------- what follows from the weights


@pytest.fixture
def derived(runs, here):
    shutil.copytree(str(runs / DERIVED), "r")
    return here / "r"


def doubled(run, images, step=6):
    w, b = variables(run, step)
    return (images.reshape(len(images), -1) / 255.0).dot(2 * w) + b


def test_a_local_variable_follows_the_weights_of_each_checkpoint(derived):
    images = bars(LABELS, 2)
    with open_trained(str(derived), "2") as opened:
        predictor = opened.predictor
        for step in (2, 6, 2):
            predictor.load(RunFolder(str(derived)).checkpoints.prefix(step))
            found = predictor.predict(images)["logits"]
            assert np.allclose(found, doubled(derived, images, step), atol=1e-5)


def test_a_local_variable_follows_the_weights_in_an_exported_model(cli, derived):
    images = bars(LABELS, 2)
    assert cli("export", "r", "model").code == 0
    with tf.Graph().as_default(), tf.Session() as session:
        loaded = tf.saved_model.loader.load(session, ["serve"], "model")
        signature = loaded.signature_def["serving_default"]
        feed = {signature.inputs["features"].name: images}
        logits = session.run(signature.outputs["logits"].name, feed)
    assert np.allclose(logits, doubled(derived, images), atol=1e-5)


def test_an_evaluation_resets_the_metrics_and_nothing_else(derived):
    opened = open_trained(str(derived))
    evaluator = opened.evaluator("eval")
    names = [v.op.name for v in evaluator.graph.metric_variables]
    assert sorted(name.split("/")[-1] for name in names) == ["count", "total"]
    evaluator.load(opened.checkpoint.path)
    first, second = [evaluator.evaluate(opened.split("test"), 5).metrics for _ in range(2)]
    right = doubled(derived, bars(LABELS, 2)).argmax(1) == LABELS
    assert first == second
    assert first["accuracy"] == pytest.approx(right.mean())


# -------------------------------------------------------------------------------- a run in one call


def test_a_run_in_one_call_says_nothing_and_leaves_a_run(here, capsys):
    options = {"data": write_bars("bars.npz"), "steps": 3, "learning_rate": "0.5"}
    summary = toolkit.train(LINEAR, "r", options)
    assert capsys.readouterr() == ("", "")
    assert (summary["steps"], summary["run"]) == (3, "r")
    assert summary["test"]["examples"] == 13
    assert open_trained("r").options.learning_rate == 0.5


def test_a_run_in_one_call_hands_its_lines_on(here, capsys):
    lines = []
    options = {"data": write_bars("bars.npz"), "steps": 2, "log_steps": 1}
    toolkit.train(LINEAR, "r", options, lines.append)
    assert capsys.readouterr() == ("", "")
    assert [line.split()[0] for line in lines] == ["run", "data", "hooks", "step"]
    assert "step 2  validation" in lines[-1]


def test_a_run_in_one_call_goes_on_and_is_not_run_again_when_it_is_done(here):
    data, lines = write_bars("bars.npz"), []
    toolkit.train(LINEAR, "r", {"data": data, "steps": 2})
    assert toolkit.train(LINEAR, "r", {"steps": 4})["steps"] == 4
    again = toolkit.train(LINEAR, "r", {"steps": 4}, lines.append)
    assert (again["steps"], again["run"], lines) == (4, "r", [])


def test_a_run_in_one_call_within_another_graph_leaves_it_alone(here):
    handler = signal.getsignal(signal.SIGINT)
    options = {"data": write_bars("bars.npz"), "steps": 2}
    with tf.Graph().as_default() as around, tf.Session() as session:
        before = tf.constant(7)
        around.finalize()
        toolkit.train(LINEAR, "r", options)
        assert tf.get_default_graph() is around
        assert session.run(before) == 7
    assert signal.getsignal(signal.SIGINT) is handler


@pytest.mark.parametrize(
    "best", [{}, {"best_metric": "accuracy"}], ids=["in the loop", "before it"]
)
def test_a_run_within_another_run_does_not_disturb_it(here, best):
    handler = signal.getsignal(signal.SIGTERM)
    options = dict({"data": write_bars("bars.npz"), "steps": 6}, **best)
    plain = toolkit.train(Generator, "plain", options)
    around = toolkit.train(NestedTraining, "around", options)
    assert testing.fingerprint("around") == testing.fingerprint("plain")
    assert around["test"]["metrics"] == plain["test"]["metrics"]
    assert open_trained("inner").step == 3
    assert signal.getsignal(signal.SIGTERM) is handler


def test_an_evaluation_that_fails_leaves_no_folder_of_reports(cli, trained, here):
    np.savez("bare.npz", x=np.zeros([20, 6, 6], np.uint8))
    assert cli("evaluate", trained / "run", "--data", "npz:bare.npz").code == 4
    assert not (trained / "run" / "reports").exists()


def test_the_cache_folder_may_come_from_a_variable(here, monkeypatch):
    monkeypatch.setenv("TOOLKIT_CACHE", str(here / "cache"))
    assert toolkit.cache_folder() == str(here / "cache")


def test_data_is_opened_without_a_run_as_the_plugin_would_see_it(tmp_path):
    opened = toolkit.open_data(Linear, {"data": write_bars(tmp_path / "bars.npz"), "gain": "2"})
    assert opened.options.gain == 2.0
    assert len(opened.split("train")) and opened.split("train").shape == opened.data.shape
    assert opened.split("nothing") is None


def test_opening_data_that_is_not_there_is_told(tmp_path):
    with pytest.raises(toolkit.DataError):
        toolkit.open_data(Linear, {"data": "npz:" + str(tmp_path / "none.npz")})
