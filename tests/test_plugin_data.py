"""The hook `data`: what it may return, what is refused, and which options have no effect on it."""

from pathlib import Path

import numpy as np
import pytest
from linear_fixtures import Linear, write_bars
from run_fixtures import write_plugin

from toolkit import Column, DataError, Split, ToolkitError, UsageError, hookimpl, open_data

OWN = "test_plugin_data:Own"


class Own(Linear):
    """A linear model with data of its own: what `answer` returns for each split."""

    def __init__(self, answer=None):
        super().__init__()
        self.answer = answer or (lambda split, run: own_split())

    @hookimpl
    def data(self, split, run):
        return self.answer(split, run)


class Converting(Own):
    """Its examples are what `converted` makes of those of `answer`."""

    def __init__(self, converted, answer=None):
        super().__init__(answer)
        self.converted = converted

    @hookimpl
    def convert(self, features, labels):
        return self.converted(features, labels)


def own_split(labels=(0, 1, 2) * 4):
    images = np.arange(len(labels) * 36).reshape(-1, 6, 6, 1) % 251
    return Split(images.astype(np.uint8), list(labels))


def test_paths_may_be_objects_and_one_extension_a_text(here):
    write_bars("bars.npz", train=40)
    opened = open_data(Path(write_plugin()), {"data": Path("bars.npz")}, extensions="ema")
    assert len(opened.split("train")) == 40 and hasattr(opened.options, "ema_decay")


@pytest.mark.parametrize(
    "name, value",
    [("data", "mnist5k"), ("image_size", "8"), ("validation_share", "0.2")],
)
def test_an_option_without_effect_on_a_plugins_own_data_is_refused(name, value):
    flag = "--" + name.replace("_", "-")
    message = f"^{flag} .option {name}. has no effect: plugin 'own' has data of its own.\n"
    with pytest.raises(UsageError, match=message):
        open_data(Own(), {name: value})


@pytest.mark.parametrize(
    "name, value, answer",
    [
        ("validation_share", 0.2, lambda split, run: run.options.validation_share and own_split()),
        # Whoever reads all options may use each.
        ("validation_share", 0.2, lambda split, run: run.options.model_dump() and own_split()),
        ("reader", "resident", None),  # of the reader, not of the data
        ("data", "BARS", lambda split, run: None),  # no data of its own
    ],
)
def test_an_option_that_is_read_has_an_effect(tmp_path, name, value, answer):
    value = write_bars(tmp_path / "bars.npz") if value == "BARS" else value
    assert len(open_data(Own(answer), {name: value}).split("train")) > 1


def test_evaluate_evaluates_the_data_that_it_names(cli, here):
    write_bars(here / "bars.npz")
    quick = ["--steps", 2, "--steps-per-call", 1, "--no-evaluate"]
    assert cli("run", "--plugin", OWN, "--run-dir", "run", *quick).code == 0
    own, bars = cli("evaluate", "run"), cli("evaluate", "run", "--data", "npz:bars.npz")
    assert (own.code, bars.code) == (0, 0), own.err + bars.err
    assert "(12 examples" in own.out and "(12 examples" not in bars.out


def test_an_answer_that_is_no_split_is_named_by_its_type():
    with pytest.raises(ToolkitError) as error:
        open_data(Own(lambda split, run: (np.zeros([3, 2]), [0, 1, 2])))
    assert "'data' of plugin 'own' returned an object of type tuple for" in error.value.message
    assert "Return toolkit.Split(features, labels)" in error.value.hint


@pytest.mark.parametrize(
    "features, labels, text",
    [
        (np.zeros([3, 2]), [0, 1], "The components have different numbers of examples"),
        (iter(()), None, "Features are of type tuple_iterator"),
        (np.zeros([0, 2]), None, "The split 'train' of the data 'plugin own' is empty."),
    ],
)
def test_what_a_split_refuses_names_plugin_and_hook(features, labels, text):
    with pytest.raises(DataError) as error:
        open_data(Own(lambda split, run: Split(features, labels)))
    assert text in error.value.message and "own" in error.value.message and error.value.hint


def test_a_split_without_training_examples_is_refused():
    with pytest.raises(DataError, match="returned a split for test but none for 'train'"):
        open_data(Own(lambda split, run: own_split() if split == "test" else None))


@pytest.mark.parametrize("split", ["train", "test"])
@pytest.mark.parametrize("is_named", [False, True])
def test_a_label_of_no_declared_class_is_refused_in_each_split(split, is_named):
    def answer(name, run):
        labels = Column([0, 5 if name == split else 1], class_names=("a", "b"))
        return Split(np.zeros([2, 2]), {"k": labels} if is_named else labels)

    with pytest.raises(DataError) as error:
        open_data(Own(answer))
    assert "plugin 'own'" in error.value.message and f"'{split}'" in error.value.message
    assert "0 to 1" in error.value.message and "5" in error.value.message


def test_splits_before_convert_may_have_other_components():
    def answer(split, run):
        labels = {"train": {"score": np.zeros(12)}, "test": None}.get(split, ())
        return None if labels == () else Split(own_split().features, labels)

    plugin = Converting(lambda *example: (np.zeros([6, 6, 1], np.uint8), 0), answer)
    assert open_data(plugin).split("train").labels.tolist() == [0] * 12


def test_convert_may_make_classes_of_labels_that_are_none():
    plugin = Converting(
        lambda features, label: (features, int(label)), lambda *_: own_split([0.0, 2.0, 1.0])
    )
    assert open_data(plugin).data.num_classes == 3


@pytest.mark.parametrize("label", [3, -1, np.int64(7)])
def test_a_label_of_convert_beyond_the_classes_is_refused(label):
    plugin = Converting(lambda features, stored: (features, label if stored == 2 else 0))
    message = f"'convert' returned the label {label}, and the data has 3"
    with pytest.raises(DataError, match=message):
        open_data(plugin)


@pytest.mark.parametrize("held_out", ["validation", "test"])
def test_a_class_that_only_held_out_data_of_a_plugin_has_is_a_class(held_out):
    labels = {"train": [0, 1, 1], held_out: [3, 0]}
    plugin = Own(lambda split, run: own_split(labels[split]) if split in labels else None)
    spec = open_data(plugin).data
    assert (spec.num_classes, spec.class_counts) == (4, (1, 2, 0, 0))


def test_a_fault_of_the_data_names_the_extension_that_gave_them():
    class Extension:
        @hookimpl
        def data(self, split, run):
            return 3

    with pytest.raises(ToolkitError, match="(?i)of plugin 'extension' returned an object of type"):
        open_data(Linear(), extensions=[Extension()])


def test_splits_of_different_examples_are_refused():
    with pytest.raises(DataError) as error:
        open_data(Own(lambda split, run: Split(np.zeros([2, 2 + (split == "test")]), [0, 1])))
    assert error.value.message == (
        "Hook 'data' of plugin 'own': expected features float32 [2], labels int32 [] in 'test' as "
        "in 'train', found features float32 [3], labels int32 []."
    )


def test_sequences_of_one_length_in_a_split_are_sequences_as_in_the_others():
    words = {"train": [[1], [2, 3]], "validation": [[1, 2]], "test": [[1, 2], [3, 4]]}
    data = open_data(Own(lambda split, run: Split({"words": words[split]})))
    assert data.data.features["words"].shape == (None,)
    for split in words:
        features, _ = data.split(split).take(slice(None))
        lengths = [len(sequence) for sequence in words[split]]
        assert features["words_length"].tolist() == lengths
