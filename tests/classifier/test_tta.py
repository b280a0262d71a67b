"""Test-time augmentation of the classifier: mean probabilities over the views, in each command."""

from __future__ import annotations

import json

import numpy as np
import pytest

from toolkit import cli, open_trained, testing
from toolkit.storage.run_folder import RunFolder

FAST = {"network": "mlp", "hidden": "16", "steps": "12", "batch_size": "8", "dropout": "0"}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The folder of a run that was trained with flips and shifts, and its data."""
    folder = tmp_path_factory.mktemp("views")
    data = testing.write_digits(str(folder / "digits.npz"), shape=(8, 8, 3))
    options = dict(FAST, data=data, augment="none", flip="0.5", shift="1")
    testing.train("classifier", str(folder / "run"), **options)
    return folder / "run"


def images(run):
    with np.load(str(run.parent / "digits.npz")) as arrays:
        return arrays["x_test"], arrays["y_test"]


def views(images):
    """uint8 [10, N, H, W, C]: shifted by a pixel in each direction, and mirrored."""
    padded = np.pad(images, [(0, 0), (1, 1), (1, 1), (0, 0)], "edge")
    places = [(1, 1), (0, 1), (1, 0), (2, 1), (1, 2)]
    shifted = [padded[:, down : down + 8, right : right + 8] for down, right in places]
    return np.array(shifted + [view[:, :, ::-1] for view in shifted])


def call(capsys, *args):
    code = cli.run_command([str(arg) for arg in args])
    output = capsys.readouterr()
    return code, output.out, output.err


def expected_probabilities(run):
    with open_trained(str(run)) as trained:
        return np.mean(
            [trained.predict(view)["probabilities"] for view in views(images(run)[0])], axis=0
        )


def test_predict_returns_the_mean_probability_of_the_views(run, tmp_path, capsys):
    np.savez(str(tmp_path / "a.npz"), x=images(run)[0])
    args = ["predict", run, tmp_path / "a.npz", "--json"]
    plain, averaged, again = (
        np.array([row["probabilities"] for row in json.loads(call(capsys, *args, *more)[1])])
        for more in ([], ["--tta"], ["--tta"])
    )
    np.testing.assert_allclose(averaged, expected_probabilities(run), atol=1e-5)
    assert (averaged == again).all() and np.abs(averaged - plain).max() > 1e-4


def test_evaluate_measures_the_mean_probabilities_and_reports_in_a_folder_of_its_own(run, capsys):
    results = [
        json.loads(call(capsys, "evaluate", run, "--json", *more)[1])
        for more in (["--tta"], ["--tta"], ["--no-tta"], [])
    ]
    averaged, again, plain, default = (result["metrics"] for result in results)
    assert averaged == again and plain == default and averaged["loss"] != plain["loss"]
    probabilities, labels = expected_probabilities(run), images(run)[1]
    loss = -np.log(probabilities[np.arange(len(labels)), labels]).mean()
    assert averaged["loss"] == pytest.approx(loss, rel=1e-4)
    assert averaged["accuracy"] == (probabilities.argmax(axis=1) == labels).mean()
    assert (
        results[0]["reports"] == "reports/test-12-tta"
        and results[2]["reports"] != (results[0]["reports"])
    )


def test_a_run_with_the_option_evaluates_and_exports_with_it(run, tmp_path):
    from toolkit.inference.export import export

    options = RunFolder(str(run)).read_config()
    folder = str(tmp_path / "run")
    values = dict(FAST, data=options["data"], augment="none", flip="0.5", shift="1", tta="yes")
    summary = testing.train("classifier", folder, **values)
    assert summary["test"]["metrics"]["loss"] == pytest.approx(
        -np.log(expected_probabilities(run)[np.arange(32), images(run)[1]]).mean(), rel=1e-4
    )
    with open_trained(folder) as trained:
        assert export(trained.predictor, str(tmp_path / "model"))["largest_difference"] <= 1e-5


def test_a_run_without_views_is_refused_in_one_sentence(run, tmp_path, capsys):
    options = RunFolder(str(run)).read_config()
    folder = tmp_path / "run"
    testing.train("classifier", str(folder), **dict(FAST, data=options["data"], augment="none"))
    code, out, err = call(capsys, "evaluate", folder, "--tta")
    assert (code, out) == (2, "") and "has no views: the model was trained without" in err


def test_a_plugin_without_the_option_is_refused_in_one_sentence(tmp_path, capsys):
    from linear_fixtures import LINEAR, write_bars

    testing.train(LINEAR, str(tmp_path / "run"), data=write_bars(tmp_path / "a.npz"), steps=2)
    code, out, err = call(capsys, "evaluate", tmp_path / "run", "--tta", "--trust")
    assert (code, out) == (2, "") and "has no test-time augmentation" in err


def test_a_training_on_examples_without_views_is_refused_before_it_begins(tmp_path, capsys):
    features = np.random.RandomState(0).randn(60, 7).astype(np.float32)
    np.savez(str(tmp_path / "a.npz"), x_train=features, y_train=np.arange(60) % 3)
    args = ["--plugin", "classifier", "--data", f"npz:{tmp_path}/a.npz", "--network", "mlp"]
    args += ["--batch-size", "8", "--tta", "--run-dir", tmp_path / "run"]
    code, _, err = call(capsys, "run", *args)
    assert code == 2 and "needs images [H, W, C], but an example of the data has shape [7]" in err
    assert not (tmp_path / "run").exists()
