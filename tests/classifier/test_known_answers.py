"""The numbers of a run equal those that numpy computes from its checkpoints and its data alone."""

import numpy as np
import pytest
from file_fixtures import read_json
from run_fixtures import records

from toolkit import testing

STEPS = (5, 10, 15, 20)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A perceptron after 20 steps, evaluated in batches of 7: its folder, and its summary."""
    folder = tmp_path_factory.mktemp("known")
    data = testing.write_digits(str(folder / "digits.npz"), count=100, classes=5)
    options = {"network": "mlp", "hidden": "6", "optimizer": "sgd", "batch_size": 8, "top_k": 2}
    options.update(learning_rate=0.3)  # so high that the last checkpoint need not be the best
    options.update(steps=STEPS[-1], checkpoint_steps=STEPS[0], keep_checkpoints=len(STEPS))
    options.update(data=data, best_metric="loss", eval_batch_size=7)
    summary = testing.train("classifier", str(folder / "run"), **options)
    return folder, summary


@pytest.fixture(scope="module")
def splits(run):
    """Name -> (images uint8 [N, H, W, C], labels int32 [N])."""
    from toolkit import open_data

    data = open_data("classifier", {"data": f"npz:{run[0] / 'digits.npz'}"})
    return {name: data.split(name).take(slice(None)) for name in ("validation", "test")}


def measure(folder, step, images, labels):
    """Accuracy, top-2 accuracy and cross-entropy of a checkpoint, and its predictions."""
    tensors = testing.tensors(str(folder / "run"), str(step))
    x = images.reshape(len(images), -1) / 255
    for layer in ("hidden1", "logits"):
        kernel, bias = (tensors[f"mlp/{layer}/{part}"] for part in ("kernel", "bias"))
        x = x.dot(kernel.astype(np.float64)) + bias
        x = np.maximum(x, 0) if layer != "logits" else x
    own = x[np.arange(len(x)), labels]
    higher = (x > own[:, None]).sum(axis=1)
    losses = np.log(np.exp(x - own[:, None]).sum(axis=1))
    metrics = {"accuracy": (higher == 0).mean(), "top2": (higher < 2).mean(), "loss": losses.mean()}
    return metrics, x.argmax(axis=1)


@pytest.mark.parametrize("step", STEPS)
def test_each_evaluation_of_the_run_equals_numpy(run, splits, step):
    folder, _ = run
    expected, _ = measure(folder, step, *splits["validation"])
    (record,) = [each for each in records(folder / "run", "eval") if each["step"] == step]
    assert {name: record[name] for name in expected} == pytest.approx(expected, rel=1e-5)


def test_the_best_checkpoint_has_the_lowest_loss_of_numpy(run, splits):
    folder, summary = run
    losses = {step: measure(folder, step, *splits["validation"])[0]["loss"] for step in STEPS}
    assert summary["best"]["step"] == min(losses, key=losses.get)
    assert summary["best"]["value"] == pytest.approx(min(losses.values()), rel=1e-5)


def test_the_test_score_and_its_report_equal_numpy(run, splits):
    folder, summary = run
    images, labels = splits["test"]
    expected, predicted = measure(folder, summary["best"]["step"], images, labels)
    assert summary["test"]["step"] == summary["best"]["step"]
    assert summary["test"]["metrics"] == pytest.approx(expected, rel=1e-5)
    report = read_json(folder, "run", summary["test"]["reports"], "report.json")
    matrix = np.zeros([5, 5], int)
    np.add.at(matrix, (labels, predicted), 1)
    assert report["confusion"] == matrix.tolist()
    recalls = [matrix[k, k] / (labels == k).sum() for k in range(5)]
    assert [row["recall"] for row in report["classes"]] == pytest.approx(recalls)
    assert summary["test"]["mistakes"] == (labels != predicted).sum()
