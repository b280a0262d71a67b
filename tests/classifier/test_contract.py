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


def test_augmented_and_normalized_photos_pass_the_checks_of_a_plugin(tmp_path):
    data = testing.write_digits(str(tmp_path / "photos.npz"), shape=(8, 10, 3))
    options = {"grey": 0.2, "cutout": 0.3, "rand_augment": 2, "mixup": 0.2, "cutmix": 1.0}
    options.update(augment="photos", normalize=True, data=data)
    testing.check_plugin("classifier", tmp_path, **options)
