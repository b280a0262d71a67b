"""The calls for code: open a trained run, train in one call, open data."""

import json
import math
import os
import shutil
import signal

import numpy as np
import pytest
from generator_fixtures import GENERATOR, Generator, NestedTraining, expected_images
from linear_fixtures import DERIVED, LINEAR, TEST_LABELS, bars, read_weights, write_bars

import toolkit
from toolkit import DataError, open_trained, testing, tf
from toolkit.storage.run_folder import RunFolder


@pytest.fixture
def generator_run(golden):
    """A run of the plugin that is fed codes and labels."""
    return golden("--steps", 6, plugin=GENERATOR) / "run"


CODES = {"code": np.array([[1, 9], [2, 9], [-1, 9]], np.float32), "label": np.array([0, 1, 2])}


def test_a_trained_run_has_its_facts_as_attributes_and_its_splits(trained, monkeypatch):
    monkeypatch.chdir(trained)
    with open_trained("run", "4") as run:
        assert run.folder == str(trained / "run")
        assert run.plugin == "Linear"
        assert (run.step, run.data.shape) == (4, (6, 6, 1))
        assert run.options.learning_rate == 0.02
        assert run.summary["steps"] == 6
        assert run.split("test").labels.tolist() == TEST_LABELS.tolist()
        assert run.split("test") is run.split("test")
        assert run.split("nothing") is None


def test_the_best_checkpoint_is_opened_unless_another_is_named(trained):
    path, last = str(trained / "run"), {"step": 4, "metrics": {"loss": 0.5, "x": math.nan}}
    best, validation = {"step": 2, "value": 1.0}, {"last": last, "best": None}
    RunFolder(path).record("evaluated", best=best, validation=validation)
    opened = [open_trained(path, *which) for which in ([], ["last"], [4])]
    assert [run.step for run in opened] == [2, 6, 4]
    assert [run.metrics.get("loss") for run in opened[::2]] == [None, 0.5]  # of the checkpoint
    assert repr(opened[2]).endswith(f"{os.path.basename(path)}, step 4, loss 0.5, x nan>")


def test_batches_may_have_any_size_and_the_only_input_its_name(trained):
    images = bars(TEST_LABELS, 2)
    with open_trained(str(trained / "run")) as run:
        all_, first = run.predict(images, batch_size=5), run.predict({"features": images[:1]})
    assert np.allclose(first["logits"], all_["logits"][:1], atol=1e-6)


def test_a_model_that_is_fed_codes_predicts_from_them(generator_run):
    with open_trained(str(generator_run)) as run:
        predictions = run.predict(CODES, batch_size=2)
    assert predictions["image"].shape == (3, 6, 6, 1)
    expected = expected_images(read_weights(generator_run, 6)[0], CODES["code"], CODES["label"])
    assert np.allclose(predictions["image"], expected, atol=1e-6)


@pytest.mark.parametrize(
    "inputs, message",
    [
        ({"code": np.zeros([1, 2])}, r"expected code \[N, 2\] float32, label \[N\] int32, found c"),
        (dict(CODES, label=np.arange(2)), "different numbers of rows: code 3, label 2"),
        (dict(CODES, code=np.zeros([3, 4])), r"'code' is \[3, 4\] float64, expected \[N, 2\] f"),
        (dict(CODES, label=np.zeros(3)), r"'label' is \[3\] float64, expected \[N\] int32"),
        (np.zeros([3, 6, 6, 1], np.uint8), "found features"),
        (dict(CODES, code=[[1, 2], [3]]), r"'code' is \[.\] object, expected \[N, 2\] float32"),
        (dict(CODES, code=np.full([3, 2], 1e300)), "'code' has the number 1e.300, which is no fl"),
    ],
    ids=["missing", "rows", "shape", "type", "examples", "ragged", "large"],
)
def test_inputs_that_do_not_fit_are_reported_by_name(generator_run, inputs, message):
    with open_trained(str(generator_run)) as run, pytest.raises(DataError, match=message):
        run.predict(inputs)


def test_python_evaluates_and_exports_as_the_commands_do(cli, trained):
    path = str(trained / "run")
    with open_trained(path) as run:
        result, exports = run.evaluate(), run.export("one")
        other = run.evaluate(data=(bars(TEST_LABELS, 2), TEST_LABELS))
        assert run.evaluate(data=trained / "bars.npz")["metrics"] == result["metrics"]
    assert result == json.loads(cli("evaluate", path, "--json").out)
    assert (other["split"], other["metrics"]) == ("all", result["metrics"])
    expected = json.loads(cli("export", path, "two", "--json").out)
    assert exports == dict(expected, folder="one")


@pytest.fixture
def derived_run(golden):
    return golden("--steps", 6, plugin=DERIVED) / "run"


def doubled(run, images, step=6):
    w, b = read_weights(run, step)
    return (images.reshape(len(images), -1) / 255.0).dot(2 * w) + b


def test_a_local_variable_follows_the_weights_of_each_checkpoint(derived_run):
    images = bars(TEST_LABELS, 2)
    with open_trained(str(derived_run), "2") as run:
        predictor = run.predictor
        for step in (2, 6, 2):
            predictor.load(RunFolder(str(derived_run)).checkpoints.prefix(step))
            logits = predictor.predict(images)["logits"]
            assert np.allclose(logits, doubled(derived_run, images, step), atol=1e-5)


def test_a_local_variable_follows_the_weights_in_an_exported_model(cli, derived_run):
    images = bars(TEST_LABELS, 2)
    cli.succeed("export", derived_run, "model")
    with tf.Graph().as_default(), tf.Session() as session:
        signature = tf.saved_model.loader.load(session, ["serve"], "model").signature_def
        names = signature["serving_default"]
        feed = {names.inputs["features"].name: images}
        logits = session.run(names.outputs["logits"].name, feed)
    assert np.allclose(logits, doubled(derived_run, images), atol=1e-5)


def test_training_in_one_call_passes_on_its_log_and_does_not_repeat_a_finished_run(here, capsys):
    data, lines = write_bars("bars.npz"), []
    options = {"data": data, "log_steps": 1, "learning_rate": "0.5", "steps_per_call": 1}
    run = toolkit.train(LINEAR, "r", options, lines.append, steps=2)
    assert (run.summary["steps"], run.folder, run.test["examples"]) == (2, str(here / "r"), 13)
    assert run.metrics == run.test["metrics"]
    assert f"accuracy {run.metrics['accuracy']:.4g}" in repr(run)
    assert open_trained("r").options.learning_rate == 0.5
    words = [line.split()[0] for line in lines]
    assert words == ["run", "data", "step", "done", "test", "page", "run"]
    assert "step 2  validation" in lines[2]
    assert toolkit.train(LINEAR, "r", steps=4).step == 4
    lines.clear()
    os.remove("r/manifest.json")  # which only shows what the commit log has
    again = toolkit.train(LINEAR, "r", {"steps": 4}, lines.append)
    assert (again.step, lines) == (4, [])
    assert capsys.readouterr() == ("", "")


def test_a_run_on_arrays_in_memory_resumes_without_them_or_asks_for_them(here, monkeypatch):
    monkeypatch.setenv("TOOLKIT_CACHE", str(here / "cache"))
    arrays = bars(TEST_LABELS, 2), TEST_LABELS
    quick = {"steps_per_call": 1, "evaluate": False}
    first = toolkit.train(LINEAR, "r", quick, data=arrays, steps=2)
    assert first.options.data.startswith("arrays:")
    assert toolkit.train(LINEAR, "r", steps=4).step == 4
    shutil.rmtree("cache/arrays")
    message = "are not in the cache .*cache.\nGive the same arrays again"
    with pytest.raises(DataError, match=message):
        toolkit.train(LINEAR, "r", steps=6)
    assert toolkit.train(LINEAR, "r", data=arrays, steps=6).step == 6


@pytest.mark.parametrize(
    "best", [{}, {"best_metric": "accuracy"}], ids=["in the loop", "before it"]
)
def test_a_run_within_another_run_does_not_disturb_it(here, best):
    handler = signal.getsignal(signal.SIGTERM)
    options = dict({"data": write_bars("bars.npz"), "steps": 6, "steps_per_call": 1}, **best)
    plain = toolkit.train(Generator, "plain", options)
    outer = toolkit.train(NestedTraining, "outer", options)
    assert testing.fingerprint("outer") == testing.fingerprint("plain")
    assert outer.metrics == plain.metrics
    assert open_trained("inner").step == 3
    assert signal.getsignal(signal.SIGTERM) is handler
