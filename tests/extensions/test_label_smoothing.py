"""`--with label-smoothing`: the loss of smoothed labels, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from linear_fixtures import Linear
from toolkit_extensions import label_smoothing

from toolkit import DataSpec, UsageError, hookimpl, testing

SETTINGS = {"steps": 3, "evaluate": "no", "batch_size": 4, "best_metric": "none"}
SETTINGS.update(steps_per_call=1)


class Ignorant(Linear):
    """Its loss takes no labels."""

    @hookimpl
    def loss(self, outputs):
        from toolkit import tf

        return {"size": tf.reduce_mean(tf.square(outputs["logits"]))}


class Named(Linear):
    """Two losses by name, of which the first does not depend on the labels."""

    @hookimpl
    def loss(self, labels, outputs):
        from toolkit import tf

        size = tf.reduce_mean(tf.square(outputs["logits"]))
        return {"size": size, "entropy": Linear.loss(self, labels, outputs)}

    @hookimpl
    def optimize(self, losses, run):
        return run.minimize(losses["size"] + losses["entropy"])


def train(tmp_path, data, name, plugin, extensions, **options):
    path = str(tmp_path / name)
    testing.train(plugin, path, extensions, **dict(SETTINGS, data=data, **options))
    return testing.tensors(path)


def test_it_trains_as_the_classifiers_own_smoothing(data, tmp_path):
    more = {"network": "mlp"}
    wrapped = train(
        tmp_path, data, "wrapped", "classifier", ["label-smoothing"], smoothing=0.2, **more
    )
    own = train(tmp_path, data, "own", "classifier", [], label_smoothing=0.2, **more)
    plain = train(tmp_path, data, "plain", "classifier", [], **more)
    weights = [name for name in own if own[name].dtype == np.float32]
    assert all(np.allclose(wrapped[name], own[name], atol=2e-5) for name in weights)
    assert any(not np.allclose(plain[name], own[name], atol=1e-4) for name in weights)


def test_of_several_losses_those_of_the_labels_are_smoothed(data, tmp_path):
    tensors = train(tmp_path, data, "run", Named, ["label-smoothing"], smoothing=0.3)
    plain = train(tmp_path, data, "plain", Named, [])
    assert not np.allclose(tensors["linear/w"], plain["linear/w"], atol=1e-4)


def test_a_loss_without_labels_is_refused(data, tmp_path):
    with pytest.raises(UsageError, match="loss does not depend on the labels"):
        train(tmp_path, data, "run", Ignorant, ["label-smoothing"])


def test_a_gan_whose_loss_takes_no_labels_is_refused(data, tmp_path):
    with pytest.raises(UsageError, match="loss does not depend on the labels"):
        train(tmp_path, data, "run", "gan", ["label-smoothing"], network="mlp", sample_steps=0)


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
