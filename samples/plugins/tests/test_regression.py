"""The plugin `regression`: its own houses, and tables."""

from __future__ import annotations

import numpy as np
import pytest

from toolkit import DataError, open_trained, testing


@pytest.fixture
def plugin(reference):
    return reference("regression")


def test_the_plugin_passes_the_checks_of_the_test_kit(plugin, tmp_path):
    testing.check_plugin(plugin, tmp_path)


@pytest.mark.parametrize("reader", ["resident", "stream"])
def test_prices_are_closer_than_the_mean_price(plugin, tmp_path, reader):
    summary = testing.train(plugin, str(tmp_path / "run"), reader=reader, epochs=20)
    with open_trained(str(tmp_path / "run"), trust=True) as trained:
        features, prices = trained.split("test").take(slice(None))
        predictions = trained.predict(features)["value"]
    error = np.abs(predictions - prices).mean()
    assert error < np.abs(prices.mean() - prices).mean() / 4
    assert summary["test"]["metrics"]["mean_absolute_error"] == pytest.approx(error, rel=1e-4)


def test_a_table_replaces_the_houses(plugin, tmp_path):
    data = testing.write_table(tmp_path / "rows.csv", count=300)
    options = {"data": data, "label_scale": 1, "steps": 200}
    summary = testing.train(plugin, str(tmp_path / "run"), **options)
    assert summary["test"]["metrics"]["mean_absolute_error"] < 0.2  # targets have a mean of 2


def test_images_are_refused(plugin, tmp_path):
    data = testing.write_digits(str(tmp_path / "digits.npz"))
    with pytest.raises(DataError, match="needs rows of numbers"):
        testing.train(plugin, str(tmp_path / "run"), data=data)
