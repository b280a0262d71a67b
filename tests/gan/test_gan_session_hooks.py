"""The session hooks of a training: the real images of a grid, and the health's numbers."""

import importlib
import json

import numpy as np
import pytest
from gan_fixtures import make_run
from toolkit_gan import health, latents

from toolkit import Split, testing

# `from toolkit_gan import session_hooks` may be the hook of that name.
session_hooks = importlib.import_module("toolkit_gan.session_hooks")


SMALL = {"network": "mlp", "width": 4, "batch_size": 8, "norm_samples": 20, "evaluate": "no"}


class SortedImages(Split):
    """Images in order of their classes, as from folders: class k has the grey value 60 k."""

    def __init__(self, count, classes=4):
        labels = np.sort(np.arange(count) % classes)
        images = np.ones([count, 8, 8, 1]) * (60 * labels)[:, None, None, None]
        super().__init__(images.astype(np.uint8), labels)


def test_the_real_images_of_a_sorted_folder_are_of_every_class_and_repeated_if_few():
    run = make_run(classes=4)
    inputs = latents.random_inputs(run.options, run.data, 16, seed=0)
    images = session_hooks.real_grid_images(SortedImages(400), inputs, run)
    assert sorted(set(images[:, 0, 0, 0].tolist())) == [0, 60, 120, 180]
    assert len(session_hooks.real_grid_images(SortedImages(5), inputs, run)) == 16


def test_the_real_images_of_a_conditional_grid_are_in_rows_of_one_class():
    run = make_run(classes=4, conditional="concat")
    inputs, columns = latents.class_row_inputs(run.options, run.data, 12, seed=0)
    images = session_hooks.real_grid_images(SortedImages(400), inputs, run)
    assert columns == 3 and images[:, 0, 0, 0].tolist() == np.repeat([0, 60, 120, 180], 3).tolist()


def test_the_health_of_several_updates_has_the_accuracies_of_metrics_jsonl(
    monkeypatch, tmp_path, digits
):
    records, judge = {}, health.Health.judge

    def spy(self, record):
        records[record.step] = record
        return judge(self, record)

    monkeypatch.setattr(health.Health, "judge", spy)
    settings = dict(
        SMALL, discriminator_steps=3, features="pixels", sample_steps=1, log_steps=1, steps=4
    )
    testing.train("gan", str(tmp_path / "run"), data=digits, **settings)
    metrics = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").open()]
    metrics = {m["step"]: m for m in metrics if "d_accuracy_real" in m and m["step"] in records}
    assert sorted(metrics) == sorted(records) == [1, 2, 3, 4]
    for step, record in records.items():
        assert record.accuracy_real == pytest.approx(metrics[step]["d_accuracy_real"])
        assert record.accuracy_fake == pytest.approx(metrics[step]["d_accuracy_fake"])


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    folder = tmp_path_factory.mktemp("digits")
    return testing.write_digits(str(folder / "digits.npz"), count=300)
