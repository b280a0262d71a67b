"""Test-time augmentation of the classifier: mean probabilities over the views, in each command."""

import numpy as np
import pytest
from linear_fixtures import LINEAR

from toolkit import open_trained, testing

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


def expected_probabilities(run):
    with open_trained(str(run)) as model:
        return np.mean([model.predict(v)["probabilities"] for v in views(images(run)[0])], axis=0)


def test_predict_returns_the_mean_probability_of_the_views(run, tmp_path, cli):
    np.savez(str(tmp_path / "a.npz"), x=images(run)[0])
    words = ["predict", run, tmp_path / "a.npz", "--json"]
    outs = [cli(*words, *more).json() for more in ([], ["--tta"], ["--tta"])]
    plain, averaged, again = (np.array([row["probabilities"] for row in rows]) for rows in outs)
    np.testing.assert_allclose(averaged, expected_probabilities(run), atol=1e-5)
    assert (averaged == again).all() and np.abs(averaged - plain).max() > 1e-4


def test_evaluate_measures_the_mean_probabilities_and_reports_in_a_folder_of_its_own(run, cli):
    results = [cli("evaluate", run, "--json", *flag).json() for flag in (["--tta"], [])]
    averaged, plain = (result["metrics"] for result in results)
    assert averaged["loss"] != plain["loss"]
    probabilities, labels = expected_probabilities(run), images(run)[1]
    loss = -np.log(probabilities[np.arange(len(labels)), labels]).mean()
    assert averaged["loss"] == pytest.approx(loss, rel=1e-4)
    assert averaged["accuracy"] == (probabilities.argmax(axis=1) == labels).mean()
    assert results[0]["reports"] == "reports/test-12-tta" != results[1]["reports"]


def test_a_run_with_the_option_evaluates_and_exports_with_it(run, tmp_path):
    folder = str(tmp_path / "run")
    data = f"npz:{run.parent / 'digits.npz'}"
    values = dict(FAST, data=data, augment="none", flip="0.5", shift="1", tta="yes")
    loss = testing.train("classifier", folder, **values)["test"]["metrics"]["loss"]
    own = expected_probabilities(run)[np.arange(32), images(run)[1]]
    assert loss == pytest.approx(-np.log(own).mean(), rel=1e-4)
    with open_trained(folder) as trained:
        assert trained.export(str(tmp_path / "model"))["largest_difference"] <= 1e-5


@pytest.mark.parametrize(
    "plugin, options, message",
    [
        ("classifier", dict(FAST, augment="none"), "has no views: the model was trained without"),
        (LINEAR, {"steps": 2}, "has no test-time augmentation"),
    ],
)
def test_a_run_without_views_or_the_option_is_refused(run, cli, plugin, options, message):
    testing.train(plugin, "run", data=f"npz:{run.parent / 'digits.npz'}", **options)
    assert cli.refuse(2, message, "evaluate", "run", "--tta", "--trust").out == ""


def test_a_training_on_examples_without_views_is_refused_before_it_begins(here, cli):
    features = np.random.RandomState(0).randn(60, 7).astype(np.float32)
    np.savez("a.npz", x_train=features, y_train=np.arange(60) % 3)
    argv = ["--data", "npz:a.npz", "--network", "mlp", "--tta", "--batch-size", "8"]
    words = "needs images [H, W, C], but an example of the data has shape [7]"
    cli.refuse(2, words, "run", "classifier", *argv, "--run-dir", "run")
    assert not (here / "run").exists()
