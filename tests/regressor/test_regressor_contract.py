"""The contracts of the public test kit, and its checks on each kind of data."""

import numpy as np
import pytest

from toolkit import testing


@pytest.fixture(scope="module")
def plugin():
    return "regressor"


def test_the_plugin_keeps_a_contract(contract):
    contract()


def write_sizes(folder):
    """Write pictures of a square, and a table of their paths, a class, a number and the size."""
    from PIL import Image

    rows = ["file,kind,extra,size"]
    for number in range(60):
        size, extra = 3 + number % 7, number % 5
        picture = np.zeros((12, 12), np.uint8)
        picture[1 : size + 1, 1 : size + 1] = 200
        Image.fromarray(picture).save(str(folder / f"{number}.png"))
        rows.append(f"{number}.png,{'ab'[number % 2]},{extra},{size + 10 * extra}")
    (folder / "sizes.csv").write_text("\n".join(rows) + "\n")
    return f"table:{folder / 'sizes.csv'}"


def test_pictures_beside_numbers_and_classes_pass_the_checks_of_a_plugin(tmp_path):
    data = write_sizes(tmp_path)
    testing.check_plugin("regressor", tmp_path, data=data, label_column=["size"], augment="photos")
