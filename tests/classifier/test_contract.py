"""The checks of the public test kit: a step in a loop of the graph, exact resume."""

import pytest

from toolkit import testing


@pytest.mark.slow
@pytest.mark.parametrize("network", ["mlp", "cnn", "resnet"])
def test_each_network_passes_the_checks_of_a_plugin(tmp_path, network):
    testing.check_plugin("classifier", tmp_path, network=network)


@pytest.mark.slow
def test_accumulation_and_skipping_pass_the_checks_of_a_plugin(tmp_path):
    testing.check_plugin(
        "classifier", tmp_path, network="mlp", accumulate=2, on_nonfinite="skip", mixup=0.2
    )
