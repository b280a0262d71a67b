"""The test kit notices plugins that do not do what a run needs."""

import numpy as np
import pytest
from linear_fixtures import LINEAR, Linear, write_bars

from toolkit import hookimpl, open_data, testing, tf


class BatchDependent(Linear):
    """Predictions that are relative to the other examples of a batch."""

    @hookimpl
    def predict(self, outputs):
        logits = outputs["logits"]
        return {"relative": logits - tf.reduce_mean(logits, axis=0, keepdims=True)}


class NoMetric(Linear):
    """A metric that is not a number."""

    @hookimpl
    def metrics(self, outputs):
        return {"ratio": tf.metrics.mean(outputs["logits"] / 0.0 - outputs["logits"] / 0.0)}


@pytest.mark.parametrize("plugin", [LINEAR, Linear()])
def test_inference_is_checked_for_references_and_objects(plugin, tmp_path):
    data = write_bars(tmp_path / "bars.npz")
    testing.check_inference(plugin, str(tmp_path / "run"), data=data)
    assert (tmp_path / "run-export" / "saved_model.pb").exists()


@pytest.mark.parametrize(
    "plugin, text",
    [
        (BatchDependent(), "'relative' of the hook 'predict' depends on the batch size"),
        (NoMetric(), "metrics that are not finite: {'ratio': nan}"),
    ],
)
def test_a_model_that_cannot_be_used_fails_the_check(plugin, text, tmp_path):
    with pytest.raises(AssertionError) as error:
        testing.check_inference(
            plugin, str(tmp_path / "run"), data=write_bars(tmp_path / "bars.npz")
        )
    assert text in str(error.value)


def test_a_table_has_a_target_that_is_linear_in_the_numbers(tmp_path):
    data = testing.write_table(tmp_path / "rows.csv", count=50, numbers=2)
    rows, targets = open_data(LINEAR, {"data": data}).split("train").take(slice(None))
    assert rows.shape[1:] == (2,)
    assert targets == pytest.approx(rows.dot([1, 2]) + 0.5, abs=1e-3)


def test_pairs_have_masks_that_follow_from_the_brightness(tmp_path):
    data = testing.write_pairs(tmp_path / "pairs", count=10, classes=2)
    images, masks = open_data(LINEAR, {"data": data}).split("train").take(slice(None))
    assert np.array_equal(masks, (images[..., 0] >= 100).astype(np.uint8))
    assert set(np.unique(masks)) == {0, 1}
