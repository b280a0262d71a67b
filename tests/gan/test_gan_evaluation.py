"""An evaluation of a GAN: its metrics do not depend on its batch size, and mean what they say."""

import numpy as np
import pytest
from gan_fixtures import options

from toolkit import DataSpec, Split, tf
from toolkit.api import load_plugins
from toolkit.graph import randomness
from toolkit.inference.evaluator import Evaluator
from toolkit.inference.scorer_set import read_directions

SPEC = DataSpec((8, 8, 1), "uint8", 3, ("a", "b", "c"), (10, 10, 10))
COUNT = 23


def make_split(seed=0, count=COUNT):
    random = np.random.RandomState(seed)
    labels = np.sort(np.arange(count) % 3)  # class after class, as in a folder
    brightness = 40 * labels[:, None, None, None] + 100
    return Split((random.rand(count, 8, 8, 1) * brightness).astype(np.uint8), labels)


SPLITS = {"train": make_split(1, 40), "test": make_split()}


@pytest.fixture
def make_evaluator(tmp_path):
    """Create an evaluator with random weights, in place of trained ones."""
    evaluators = []

    def create(splits=SPLITS.get, **values):
        small = {"width": 2, "network": "mlp", "features": "pixels", "norm_samples": 30}
        run_options = options(**dict(small, latent_size=3, **values))
        evaluator = Evaluator(load_plugins("gan"), run_options, SPEC, splits=splits)
        evaluators.append(evaluator)
        random = np.random.RandomState(3)
        with evaluator.graph.tf_graph.as_default():
            variables = tf.global_variables()
        for variable in variables:
            value = np.zeros(variable.shape.as_list())
            if variable.dtype.base_dtype == tf.float32:
                value = 0.4 * random.standard_normal(value.shape)
            variable.load(value, evaluator.session)
        path = evaluator.saver.save(evaluator.session, str(tmp_path / "weights"))
        evaluator.load(path)
        return evaluator

    yield create
    for evaluator in evaluators:
        evaluator.close()


METHODS = [  # none of which mixes the examples of a batch in the discriminator
    {"preset": "r1r2", "conditional": "acgan"},
    {"loss": "relativistic", "conditional": "concat", "latent": "uniform"},
    {"diff_augment": "flip,colour,translation,cutout", "lecam": 0.3},
]


def measure(evaluator, split, size):
    """The metrics, and the predictions by example, without scores."""
    if evaluator._scorers is not None:
        evaluator._scorers.close()
        evaluator._scorers = None
    evaluation = evaluator.evaluate(split, size, keep_examples=True)
    return evaluation.metrics, evaluation.examples


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_the_batch_size_does_not_change_the_metrics(make_evaluator, method, monkeypatch):
    monkeypatch.setattr(randomness, "BLOCK_SIZE", 6)
    evaluator = make_evaluator(**method)
    whole, *others = [measure(evaluator, SPLITS["test"], size) for size in (COUNT, 1, 10)]
    assert len(set(np.round(whole[1]["real_logit"], 5))) == COUNT
    assert sorted(whole[0]) == ["d_loss", "g_loss"]
    for metrics, examples in others:
        assert metrics == pytest.approx(whole[0], rel=1e-3, abs=1e-4)
        np.testing.assert_allclose(
            examples["real_logit"], whole[1]["real_logit"], rtol=1e-3, atol=1e-4
        )


def test_directions_are_those_of_metrics_that_an_evaluation_has(make_evaluator):
    evaluator = make_evaluator(preset="wgan-gp")
    declared = read_directions(load_plugins("gan"), evaluator.run, evaluator.graph.losses, [])
    assert set(declared) <= set(evaluator.metric_directions())
