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
    testing.check_plugin(
        "classifier", tmp_path, network="mlp", accumulate=2, on_nonfinite="skip", mixup=0.2
    )


@pytest.fixture
def photos(tmp_path):
    """Options of a classifier of photos that augments by all operations and normalizes."""
    data = testing.write_digits(str(tmp_path / "photos.npz"), shape=(8, 10, 3))
    options = {"grey": 0.2, "cutout": 0.3, "rand_augment": 2, "mixup": 0.2, "cutmix": 1.0}
    return dict(options, data=data, normalize=True)


def test_augmented_and_normalized_photos_pass_the_checks_of_a_plugin(tmp_path, photos):
    testing.check_plugin("classifier", tmp_path, augment="photos", **photos)


def test_augmented_icons_are_the_same_in_a_loop_and_after_a_resume(tmp_path, photos):
    options = dict(photos, augment="icons", network="mlp", hidden="8", batch_size="8")
    testing.check_step_in_a_loop("classifier", **options)
    testing.check_resume("classifier", str(tmp_path / "run"), **options)
