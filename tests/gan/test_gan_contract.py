"""The contracts of the public test kit, with a small network."""

import pytest
from contract_fixtures import with_options
from gan_fixtures import SMALL

from toolkit.testing import contracts


@pytest.fixture(scope="module")
def plugin():
    return "gan"


# Options beside the small ones. All that add a state or a branch to the step are in one row.
OPTIONS = {
    "default": {},
    "states": {
        **{"conditional": "clusters", "clusters": 3, "generator_conditional": "batch-norm"},
        **{"diff_augment": "auto", "lecam": 0.3, "minibatch_stddev": 4, "attention": 4},
        **{"penalty": "r1r2", "penalty_steps": 2, "ema_images": 100, "loss": "relativistic"},
    },
    "acgan": {
        **{"preset": "r1r2", "conditional": "acgan", "network": "mlp", "lecam": 0.3},
        "diff_augment": "flip,colour,translation,cutout",
    },
    "relativistic": {"loss": "relativistic", "conditional": "concat", "network": "mlp"},
}


@pytest.fixture(scope="module")
def plugin_options(request):
    return {**SMALL, "evaluate": "no", "steps_per_call": "auto", **OPTIONS[request.param]}


@with_options(["default"], ["states"])
def test_a_contract_holds(contract):
    contract()


(OF_BATCHES,) = [c for c in contracts.ALL if c.name == "metrics-ignore-the-batch-size"]


@pytest.mark.parametrize("contract", [OF_BATCHES], indirect=True, scope="module")
@pytest.mark.parametrize("plugin_options", ["acgan", "relativistic"], indirect=True, scope="module")
def test_the_batch_size_does_not_change_the_metrics(contract):
    contract()
