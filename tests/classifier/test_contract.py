"""The contracts of the public test kit, and its checks with options that change the step."""

import pytest
from contract_fixtures import with_options

from toolkit import testing
from toolkit.testing import contracts

OPTIONS = {  # of each type, and those whose texts have a form of their own
    **{"steps": 2**40, "learning_rate": 0.1 + 0.2, "weight_decay": 1e-300, "evaluate": False},
    **{"data": "images:../b", "init_from": "../a@40", "map": ["a/=b/", "/=all/"]},
    **{"image_size": "64x48", "background": "#102030", "class_weights": "1,0.5,2"},
    **{"label_column": ["y 1", "none"], "feature_columns": ["a", "b c", "é=1"]},
    **{"optimizer": "momentum", "optimizer_args": {"momentum": -1e9, "accum_name": "a b"}},
    **{"group": ["a*:learning_rate=1e-4,weight_decay=0", "*/b:frozen=true"], "hidden": [3, 4]},
    **{"freeze": ["conv1/*", "*[12]/bias"], "best_metric": "none", "clip": "none"},
}


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


def test_options_of_every_form_survive_a_configuration_and_a_flag(tmp_path):
    with testing.Subject("classifier", str(tmp_path), **OPTIONS) as subject:
        contracts.declarations.options_survive_a_configuration(subject)
