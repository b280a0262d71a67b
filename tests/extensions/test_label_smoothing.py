"""`--with label-smoothing`: the loss of smoothed labels, and what is refused."""

import numpy as np
import pytest
from extension_fixtures import train
from toolkit_extensions import label_smoothing

from toolkit import DataSpec, Split, UsageError, testing
from toolkit.data.examples import describe


def test_it_trains_as_the_classifiers_own_smoothing(data):
    more = {"plugin": "classifier", "network": "mlp"}
    plain = testing.tensors(train(data, "plain", **more))
    wrapped = testing.tensors(train(data, "wrapped", ["label-smoothing"], smoothing=0.2, **more))
    own = testing.tensors(train(data, "own", label_smoothing=0.2, **more))
    weights = [name for name in own if own[name].dtype == np.float32]
    assert all(np.allclose(wrapped[name], own[name], atol=2e-5) for name in weights)
    assert any(not np.allclose(plain[name], own[name], atol=1e-4) for name in weights)


def test_a_loss_without_labels_is_refused(data):
    with pytest.raises(UsageError, match="loss does not depend on the labels"):
        train(data, "run", ["label-smoothing"], plugin="gan", network="mlp", sample_steps=0)


def test_the_classes_of_pixels_count_as_those_of_examples():
    images, masks = np.zeros([2, 2, 2, 1], np.uint8), np.arange(8).reshape(2, 2, 2) % 3
    assert label_smoothing.count_classes(describe(Split(images, masks))) == 3


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
