"""Python is a way in: docs/python.md and samples/notebook.py work, the sample also in a kernel of
Jupyter, where a training shows itself.
"""

import re

import process_fixtures
import pytest
from file_fixtures import REPOSITORY, read_text
from page_fixtures import read_blocks

SAMPLE = REPOSITORY + "/samples/notebook.py"
# Before the code: a small network, where it names none.
SMALL = """
import toolkit
train = toolkit.train
def train_small(plugin, *arguments, **options):
    if plugin == "classifier":
        options = {"network": "mlp", "steps_per_call": 1, **options}
    return train(plugin, *arguments, **options)
toolkit.train = train_small
"""
PICTURES = """
import os
import numpy as np
from PIL import Image
for name, shade in ("cat", 60), ("dog", 190):
    os.makedirs(f"photos/{name}")
    for number in range(20):
        pixels = np.random.RandomState(number).randint(shade - 50, shade + 50, (16, 16, 3))
        Image.fromarray(pixels.astype(np.uint8)).save(f"photos/{name}/{number}.png")
"""


@pytest.fixture(autouse=True)
def cache(here, monkeypatch):
    monkeypatch.setenv("TOOLKIT_CACHE", str(here / "cache"))


def test_the_code_of_the_page_runs_from_top_to_bottom():
    blocks = [block for block in read_blocks("docs/python.md") if block.language == "python"]
    code = "\n".join([PICTURES, SMALL, *(block.text for block in blocks)])
    process_fixtures.run(statements=code).ok()


def test_the_sample_has_sixty_lines_and_runs_in_a_notebook():
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    text = read_text(SAMPLE)
    cells = [SMALL, *re.split(r"^# %%.*$", text, flags=re.M)[1:]]
    assert text.count("\n") <= 60
    notebook = nbformat.v4.new_notebook(cells=list(map(nbformat.v4.new_code_cell, cells)))
    notebook.metadata.kernelspec = {"name": "python3", "language": "python", "display_name": ""}
    nbclient.NotebookClient(notebook, timeout=int(process_fixtures.PATIENCE)).execute()
    outputs = [output for cell in notebook.cells for output in cell.outputs]
    lines = [output for output in outputs if output.output_type != "display_data"]
    assert {output.name for output in lines} == {"stdout"}
    text = "".join(output.text for output in lines)
    assert "\rstep 200/200  loss" in text
    assert "\ntest    accuracy 0.9" in text and "\n<Trained classifier runs/classifier/" in text
