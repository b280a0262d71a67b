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


@pytest.mark.slow
@pytest.mark.parametrize("augment", ["photos", "icons"])
def test_augmented_and_normalized_photos_pass_the_checks_of_a_plugin(tmp_path, augment):
    data = testing.write_digits(str(tmp_path / "photos.npz"), shape=(8, 10, 3))
    options = {"grey": 0.2, "cutout": 0.3, "rand_augment": 2, "mixup": 0.2, "cutmix": 1.0}
    testing.check_plugin(
        "classifier", tmp_path, data=data, augment=augment, normalize=True, **options
    )
