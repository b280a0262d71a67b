"""The reports of an evaluation: the files and their contents."""

from __future__ import annotations

import json

import numpy as np
import pytest
from classifier_fixtures import Data
from toolkit_classifier import reports

NAMES = ("cat", "dog", "cow")


def examples(images=True):
    """Six examples: one cat predicted as a dog with 0.9, one cow as a cat with 0.6."""
    return {
        "labels": np.array([0, 0, 1, 1, 2, 2], np.int32),
        "label": np.array([0, 1, 1, 1, 2, 0], np.int32),
        "probability": np.array([0.8, 0.9, 0.7, 0.9, 0.5, 0.6], np.float32),
        "features": np.ones([6, 8, 8, 1] if images else [6, 64], np.float32),
    }


def data(images=True, names=NAMES):
    return Data((8, 8, 1) if images else (64,), 3, names)


def test_an_evaluation_writes_four_files_that_the_result_names(tmp_path):
    summary = reports.write(examples(), data(), str(tmp_path))
    assert summary["files"] == ["report.txt", "report.json", "confusion.png", "mistakes.png"]
    assert sorted(summary["files"]) == sorted(path.name for path in tmp_path.iterdir())
    for name in summary["files"][2:]:
        assert (tmp_path / name).read_bytes()[:4] == b"\x89PNG"


def test_settings_of_matplotlib_do_not_change_reports(tmp_path):
    """A matplotlibrc in the working directory may be anybody's; usetex would start LaTeX."""
    import matplotlib

    folders = [tmp_path / "plain", tmp_path / "other"]
    for folder, values in zip(folders, [{}, {"text.usetex": True, "savefig.facecolor": "red"}]):
        folder.mkdir()
        with matplotlib.rc_context(values):
            reports.write(examples(), data(), str(folder))
    for name in ("confusion.png", "mistakes.png"):
        assert (folders[0] / name).read_bytes() == (folders[1] / name).read_bytes()


def test_the_result_names_the_worst_classes_and_confusions(tmp_path):
    summary = reports.write(examples(), data(), str(tmp_path))
    assert summary["mistakes"] == 2
    assert [row["class"] for row in summary["worst_classes"]] == ["cat", "cow"]
    assert summary["worst_classes"][0]["recall"] == 0.5
    assert summary["confusions"][0] == {"true": "cat", "predicted": "dog", "count": 1}
    json.dumps(summary)


def test_the_json_report_has_precision_recall_and_the_confusion_matrix(tmp_path):
    reports.write(examples(), data(), str(tmp_path))
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert report["confusion"] == [[1, 1, 0], [0, 2, 0], [1, 0, 1]]
    dog = report["classes"][1]
    assert (dog["class"], dog["recall"], dog["examples"]) == ("dog", 1.0, 2)
    assert dog["precision"] == 2 / 3


def test_the_text_report_reads_as_a_table(tmp_path):
    reports.write(examples(), data(), str(tmp_path))
    text = (tmp_path / "report.txt").read_text(encoding="utf-8")
    assert "accuracy 0.6667 on 6 examples" in text
    assert "     cat  1 1 ." in text


def test_mistakes_are_listed_by_confidence():
    assert reports.worst_mistakes(examples(), (8, 8, 1)).tolist() == [1, 5]


def test_examples_that_are_no_images_get_no_picture_of_mistakes(tmp_path):
    summary = reports.write(examples(images=False), data(images=False), str(tmp_path))
    assert "mistakes.png" not in summary["files"] and not (tmp_path / "mistakes.png").exists()


def test_without_mistakes_there_is_no_picture_of_them(tmp_path):
    perfect = dict(examples(), label=examples()["labels"])
    summary = reports.write(perfect, data(), str(tmp_path))
    assert summary["files"] == ["report.txt", "report.json", "confusion.png"]
    assert (
        summary["mistakes"] == 0 and summary["worst_classes"] == [] and summary["confusions"] == []
    )


def test_a_class_without_examples_or_name_is_called_by_its_number(tmp_path):
    summary = reports.write(examples(), Data((8, 8, 1), 4, ("cat",)), str(tmp_path))
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert report["class_names"] == ["cat", "1", "2", "3"]
    assert report["classes"][3]["recall"] == 0 and summary["mistakes"] == 2


def test_without_labels_there_is_no_report(tmp_path):
    assert reports.write(dict(examples(), labels=None), data(), str(tmp_path)) is None
    assert list(tmp_path.iterdir()) == []


def test_the_scores_of_each_class_are_those_of_scikit_learn():
    from sklearn.metrics import confusion_matrix, precision_recall_fscore_support

    random = np.random.RandomState(3)
    labels, predicted = random.randint(0, 4, [2, 200])  # class 4 has no examples and no predictions
    names = ["a", "b", "c", "d", "e"]
    matrix = reports.confusion_matrix(labels, predicted, 5)
    np.testing.assert_array_equal(matrix, confusion_matrix(labels, predicted, labels=range(5)))
    expected = precision_recall_fscore_support(labels, predicted, labels=range(5), zero_division=0)
    rows = reports.class_scores(matrix, names)
    for key, column in zip(("precision", "recall", "f1", "examples"), expected):
        np.testing.assert_allclose([row[key] for row in rows], column, rtol=1e-12)
    assert [row["class"] for row in rows] == names


# ------------------------------------------------------------------------------- names of classes

STRANGE_NAMES = (
    r"a$\frac$b",
    "$x$",
    r"cost\$5 or $6",
    "two\nlines\tand \x1b[31mred",
    "n" * 5000,
    "猫",
    "قطة",
    "חתול",
    "e\u0301",
    "\u202egnp.exe",
    "\udcff",
    "",
    " ",
    "=1+1",
    "_^{}%#&",
)


def strange_examples(count):
    """Each class once right, and once taken for the next one."""
    labels = np.repeat(np.arange(count, dtype=np.int32), 2)
    predicted = np.where(np.arange(2 * count) % 2, (labels + 1) % count, labels)
    return {
        "labels": labels,
        "label": predicted,
        "probability": np.full(2 * count, 0.5, np.float32),
        "features": np.ones([2 * count, 8, 8, 1], np.float32),
    }


@pytest.mark.filterwarnings("error")
def test_any_name_of_a_class_can_be_reported(tmp_path):
    count = len(STRANGE_NAMES)
    summary = reports.write(
        strange_examples(count), Data((8, 8, 1), count, STRANGE_NAMES), str(tmp_path)
    )
    assert summary["mistakes"] == count and len(summary["files"]) == 4
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert tuple(report["class_names"]) == STRANGE_NAMES
    text = (tmp_path / "report.txt").read_text(encoding="utf-8")
    num_lines = 2 * count + 5 + 11  # two tables of classes, and the scores with one bin
    assert len(text.splitlines()) == num_lines and max(map(len, text.splitlines())) < 120
    assert all(letter.isprintable() or letter == "\n" for letter in text)


@pytest.mark.parametrize("name", STRANGE_NAMES[:3])
def test_a_dollar_in_a_name_is_drawn_as_a_dollar(name):
    from matplotlib.text import Text

    text, is_formula = Text()._preprocess_math(reports.without_tex(name))
    assert (text, bool(is_formula)) == (name, False)


def test_a_name_without_glyphs_is_drawn_as_the_number_of_its_class():
    names = ["cat", "猫", "two\nlines", " ", "$x$"]
    assert reports.drawable_names(names) == ["cat", "1", r"two\nlines", "3", "$x$"]


def test_wide_letters_do_not_shift_the_columns():
    wide = [reports.columns(reports.align(name, 9)) for name in ("猫猫", "e\u0301", "cat")]
    assert wide == [9, 9, 9]


# --------------------------------------------------------------------------------- known answers


def test_the_numbers_of_a_known_confusion(tmp_path):
    """Ten of class 0, of which two become 1; ten of class 1, all right; class 2 has no example."""
    labels = np.repeat([0, 1], 10).astype(np.int32)
    predicted = labels.copy()
    predicted[[0, 5]] = 1
    outcome = {
        "labels": labels,
        "label": predicted,
        "probability": np.linspace(0.5, 0.9, 20).astype(np.float32),
        "features": np.ones([20, 8, 8, 1], np.float32),
    }
    reports.write(outcome, data(), str(tmp_path))
    text = (tmp_path / "report.txt").read_text(encoding="utf-8")
    assert text.splitlines() == [
        "   class  precision  recall      f1  examples",
        "     cat     1.0000  0.8000  0.8889        10",
        "     dog     0.8333  1.0000  0.9091        10",
        "     cow     0.0000  0.0000  0.0000         0",
        "",
        "accuracy 0.9000 on 20 examples",
        "",
        "    true  predicted, in the order of the rows",
        "     cat   8  2  .",
        "     dog   . 10  .",
        "     cow   .  .  .",
        "",
        "             value  95 % interval",
        "   accuracy 0.9000  0.6990 to 0.9721",
        "   macro F1 0.8990  0.7494 to 1.0000",
        "weighted F1 0.8990  0.7333 to 1.0000",
        "",
        "calibration error (ECE) 0.2021: the mean distance of",
        "probability and share in 15 bins of equal width",
        "",
        "   bin          examples  probability  right   95 % interval",
        "   0.467-0.533         2       0.5105  0.5000  0.0945 to 0.9055",
        "   0.533-0.600         3       0.5632  1.0000  0.4385 to 1.0000",
        "   0.600-0.667         3       0.6263  0.6667  0.2077 to 0.9385",
        "   0.667-0.733         4       0.7000  1.0000  0.5101 to 1.0000",
        "   0.733-0.800         3       0.7737  1.0000  0.4385 to 1.0000",
        "   0.800-0.867         3       0.8368  1.0000  0.4385 to 1.0000",
        "   0.867-0.933         2       0.8895  1.0000  0.3424 to 1.0000",
    ]
    assert reports.worst_mistakes(outcome, (8, 8, 1)).tolist() == [5, 0]


def test_a_report_of_one_example(tmp_path):
    one = {name: array[1:2] for name, array in examples().items()}
    summary = reports.write(one, data(), str(tmp_path))
    assert summary["mistakes"] == 1
    assert summary["worst_classes"] == [{"class": "cat", "recall": 0.0, "examples": 1}]
    text = (tmp_path / "report.txt").read_text(encoding="utf-8")
    assert "accuracy 0.0000 on 1 examples" in text
