"""The contracts of the public test kit, and its checks with options that change the step."""

import pytest
from contract_fixtures import with_options

from toolkit import testing


@pytest.fixture(scope="module")
def plugin():
    return "classifier"


@pytest.fixture(scope="module")
def plugin_options(request):
    return {"network": request.param}


@with_options(["mlp"], ["cnn", "resnet"])
def test_each_network_keeps_a_contract(contract):
    contract()


def test_accumulation_and_skipping_pass_the_checks_of_a_plugin(tmp_path):
    options = {"network": "mlp", "accumulate": 2, "on_nonfinite": "skip", "mixup": 0.2}
    testing.check_plugin("classifier", tmp_path, **options)
