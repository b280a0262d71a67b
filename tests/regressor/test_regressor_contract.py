"""The contracts of the public test kit, and its checks on each kind of data."""

import numpy as np
import pytest
from file_fixtures import save_image

from toolkit import testing


@pytest.fixture(scope="module")
def plugin():
    return "regressor"


def test_the_plugin_keeps_a_contract(contract):
    contract()


def test_pictures_beside_numbers_and_classes_pass_the_checks_of_a_plugin(tmp_path):
    rows = ["file,kind,extra,size"]
    for number in range(60):
        save_image(tmp_path / f"{number}.png", np.full((12, 12), 4 * number, np.uint8))
        rows.append(f"{number}.png,{'ab'[number % 2]},{number % 5},{number % 7}")
    (tmp_path / "sizes.csv").write_text("\n".join(rows) + "\n")
    data = f"table:{tmp_path / 'sizes.csv'}"
    testing.check_plugin("regressor", tmp_path, data=data, label_column=["size"], augment="photos")
