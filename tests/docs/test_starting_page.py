"""The commands of docs/starting.md do with the weights what the page says of them."""

import os

import numpy as np
from page_fixtures import InProcess, Page

import toolkit
from toolkit import testing

PAGE = "docs/starting.md"


def test_the_commands_of_the_page_freeze_what_it_says_and_train_it_later(here, cli, monkeypatch):
    page, tensors = Page(PAGE, here), {}
    execute = InProcess(cli, monkeypatch)

    def execute_and_read(command):
        output = execute(command)
        if '--freeze "cnn/' in command:
            tensors["before the resume"] = testing.tensors("runs/frozen")
        return output

    page.run_to(len(page.blocks), execute_and_read)
    digits, frozen = testing.tensors("runs/digits"), tensors["before the resume"]
    for kernel in [f"cnn/conv{number}/kernel" for number in range(1, 7)]:
        assert np.array_equal(digits[kernel], frozen[kernel])
    assert not np.array_equal(digits["cnn/norm1/gamma"], frozen["cnn/norm1/gamma"])
    resumed = testing.tensors("runs/frozen")
    assert not np.array_equal(digits["cnn/conv1/kernel"], resumed["cnn/conv1/kernel"])


def write_letters():
    """Write 60 images each of five classes, digits moved by two pixels, to the folder letters."""
    from PIL import Image

    split = toolkit.open_data("classifier", {"data": "mnist5k"}).split("train")
    examples = split.read(slice(0, len(split)), ["features", "labels"])
    for digit, letter in zip(range(5, 10), "abcde"):
        os.makedirs(f"letters/{letter}")
        for number in np.flatnonzero(examples["labels"] == digit)[:60]:
            image = np.roll(examples["features"][number, :, :, 0], 2, axis=1)
            Image.fromarray(image).save(f"letters/{letter}/{number}.png")


def test_weights_of_ten_classes_help_to_learn_five_others(cli, here):
    write_letters()
    argv = ["run", "--plugin", "classifier", "--data", "images:letters", "--channels", 1]
    argv += ["--image-size", 28, "--steps", 30, "--batch-size", 16, "--evaluate-steps", 30]
    assert cli("run", "--plugin", "classifier", "--steps", 300, "--run-dir", "digits").code == 0
    accuracies = {}
    for name, flags in ("scratch", []), ("start", ["--init-from", "digits"]):
        assert cli(*argv, *flags, "--run-dir", name).code == 0
        with toolkit.open_trained(name) as trained:
            accuracies[name] = trained.summary["test"]["metrics"]["accuracy"]
    assert accuracies["start"] > accuracies["scratch"] + 0.05
