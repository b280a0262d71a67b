"""Mean and deviation of the training examples, and a model that is trained on normalized ones."""

import numpy as np
import pytest
from linear_fixtures import LINEAR, Linear, bars, write_bars

from toolkit import DataSpec, UsageError, hookimpl, normalize, open_trained, testing, tf
from toolkit.data import normalization
from toolkit.errors import ToolkitError
from toolkit.storage.run_folder import RunFolder


def measure(array, size):
    starts = range(0, len(array), size)
    return normalization.measure_moments(array[start : start + size] for start in starts)


@pytest.mark.parametrize("size", [1, 3, 100])
@pytest.mark.parametrize("shape", [(50, 6), (50, 4, 5, 3)])
@pytest.mark.parametrize("dtype, mean, deviation, scale", [("f4", 1000, 1, 1), ("u1", 99, 20, 255)])
def test_moments_of_chunks_are_those_of_all(size, shape, dtype, mean, deviation, scale):
    """Bytes are measured as the graph gets them."""
    features = (mean + deviation * np.random.RandomState(0).randn(*shape)).astype(dtype)
    measured_mean, measured_deviation = measure(features, size)
    flat = features.reshape(-1, shape[-1]).astype(np.float64) / scale
    np.testing.assert_allclose(measured_mean, flat.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(measured_deviation, flat.std(axis=0), rtol=1e-9)


def test_normalized_features_have_mean_0_and_deviation_1_and_constants_are_0(graph):
    features = np.random.RandomState(0).randn(500, 4).astype(np.float32) * [1, 9, 1e-20, 0]
    features = (features + [5, -3, 0, 0.1]).astype(np.float32)
    moments = measure(features, 64)
    assert (moments[0][3], moments[1][3]) == (np.float32(0.1), 0)
    spec = DataSpec((4,), "float32", 0, (), (), (), *moments)
    with tf.Session() as session:
        normalized = session.run(normalize(tf.constant(features), spec))
    np.testing.assert_allclose(normalized.mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(normalized.std(axis=0), [1, 1, 1, 0], atol=1e-5)
    assert (normalized[:, 3] == 0).all()


def test_features_that_are_not_finite_or_no_array_of_numbers_have_no_mean():
    for value in (np.nan, np.inf):
        with pytest.raises(UsageError, match="have no mean: NaN, infinity"):
            measure(np.array([[1.0], [value]], np.float32), 1)
    for features in (np.array([["a"]]), {"left": np.zeros([1, 2])}):
        with pytest.raises(UsageError, match="Only features that are one array of numbers"):
            normalization.measure_moments([features])


class Normalizing(Linear):
    @hookimpl
    def call(self, model, features, run):
        return Linear.call(self, model, normalize(features, run.data), run)


def train(plugin, tmp_path, **options):
    data = write_bars(tmp_path / "bars.npz")
    options = dict({"data": data, "steps": 6, "normalize": "yes"}, **options)
    testing.train(plugin, str(tmp_path / "run"), **options)
    return RunFolder(str(tmp_path / "run")).state()["data"]["spec"]


def test_a_run_records_its_moments_predicts_with_them_and_keeps_them_on_other_data(tmp_path):
    plugin = "test_normalization:Normalizing"
    run = str(tmp_path / "run")
    spec = train(plugin, tmp_path, steps=4)
    images = bars(np.arange(40) * 7 % 3) / 255.0
    assert spec["mean"] == pytest.approx([images.mean()])
    assert spec["deviation"] == pytest.approx([images.std()])
    w, b = (testing.tensors(run)["linear/" + name] for name in "wb")
    expected = ((images - images.mean()) / images.std()).reshape(40, -1) @ w + b
    with open_trained(run, trust=True) as trained:
        logits = trained.predict(bars(np.arange(40) * 7 % 3))["logits"]
    np.testing.assert_allclose(logits, expected, atol=1e-4)
    data = write_bars(tmp_path / "other.npz", train=24)
    later = train(plugin, tmp_path, data=data, steps=5, allow=["data"])
    assert (later["mean"], later["deviation"]) == (spec["mean"], spec["deviation"])
    assert later["class_counts"] != spec["class_counts"]


def test_a_plugin_that_does_not_normalize_is_refused_in_one_sentence(tmp_path):
    with pytest.raises(ToolkitError, match="^--normalize is on, but the plugin .* does not"):
        train(LINEAR, tmp_path)
    assert not (tmp_path / "run").exists()
