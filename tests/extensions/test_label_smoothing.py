"""`--with label-smoothing`: the loss of smoothed labels, and what is refused."""

import numpy as np
import pytest
from linear_fixtures import Linear
from toolkit_extensions import label_smoothing

from toolkit import DataSpec, UsageError, hookimpl, testing, tf

SETTINGS = {"steps": 3, "evaluate": "no", "batch_size": 4, "best_metric": "none"}


class Ignorant(Linear):
    """Its loss takes no labels."""

    @hookimpl
    def loss(self, outputs):
        return {"size": tf.reduce_mean(tf.square(outputs["logits"]))}


def train(tmp_path, data, name, plugin, extensions, **options):
    path = str(tmp_path / name)
    options = dict(SETTINGS, data=data, steps_per_call=1, **options)
    testing.train(plugin, path, extensions, **options)
    return testing.tensors(path)


def test_it_trains_as_the_classifiers_own_smoothing(data, tmp_path):
    plugin, own = "classifier", {"network": "mlp"}
    plain = train(tmp_path, data, "plain", plugin, [], **own)
    wrapped = train(tmp_path, data, "wrapped", plugin, ["label-smoothing"], smoothing=0.2, **own)
    own = train(tmp_path, data, "own", plugin, [], label_smoothing=0.2, **own)
    weights = [name for name in own if own[name].dtype == np.float32]
    assert all(np.allclose(wrapped[name], own[name], atol=2e-5) for name in weights)
    assert any(not np.allclose(plain[name], own[name], atol=1e-4) for name in weights)


@pytest.mark.parametrize(
    "plugin, options", [(Ignorant, {}), ("gan", {"network": "mlp", "sample_steps": 0})]
)
def test_a_loss_without_labels_is_refused(data, tmp_path, plugin, options):
    with pytest.raises(UsageError, match="loss does not depend on the labels"):
        train(tmp_path, data, "run", plugin, ["label-smoothing"], **options)


@pytest.mark.parametrize(
    "spec, message",
    [
        (DataSpec((2,), "float32"), "needs one label for each example, a class"),
        (DataSpec((2,), "float32", 5000), "5000 are more than 1000"),
    ],
)
def test_labels_that_are_no_classes_or_too_many_are_refused(spec, message):
    with pytest.raises(UsageError, match=message):
        label_smoothing.count_classes(spec)
