"""The reports of an evaluation: which files, and what stands in them."""

from __future__ import annotations

import json

import numpy as np
from classifier_fixtures import Data
from toolkit_classifier import reports

NAMES = ("cat", "dog", "cow")


def examples(images=True):
    """Six examples: one cat taken for a dog at 0.9, one cow for a cat at 0.6."""
    return {
        "labels": np.array([0, 0, 1, 1, 2, 2], np.int32),
        "label": np.array([0, 1, 1, 1, 2, 0], np.int32),
        "probability": np.array([0.8, 0.9, 0.7, 0.9, 0.5, 0.6], np.float32),
        "features": np.ones([6, 8, 8, 1] if images else [6, 64], np.float32),
    }


def data(images=True, names=NAMES):
    return Data((8, 8, 1) if images else (64,), 3, names)


def test_an_evaluation_leaves_four_files_that_the_result_names(tmp_path):
    told = reports.write_reports(examples(), data(), str(tmp_path))
    assert told["files"] == ["report.txt", "report.json", "confusion.png", "mistakes.png"]
    assert sorted(told["files"]) == sorted(path.name for path in tmp_path.iterdir())
    for name in told["files"][2:]:
        assert (tmp_path / name).read_bytes()[:4] == b"\x89PNG"


def test_the_result_names_the_worst_classes_and_what_they_were_taken_for(tmp_path):
    told = reports.write_reports(examples(), data(), str(tmp_path))
    assert told["mistakes"] == 2
    assert [row["class"] for row in told["worst_classes"]] == ["cat", "cow"]
    assert told["worst_classes"][0]["recall"] == 0.5
    assert told["confusions"][0] == {"true": "cat", "predicted": "dog", "count": 1}
    json.dumps(told)


def test_the_json_report_holds_precision_recall_and_the_confusion_matrix(tmp_path):
    reports.write_reports(examples(), data(), str(tmp_path))
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert report["confusion"] == [[1, 1, 0], [0, 2, 0], [1, 0, 1]]
    dog = report["classes"][1]
    assert (dog["class"], dog["recall"], dog["examples"]) == ("dog", 1.0, 2)
    assert dog["precision"] == 2 / 3


def test_the_text_report_reads_as_a_table(tmp_path):
    reports.write_reports(examples(), data(), str(tmp_path))
    text = (tmp_path / "report.txt").read_text(encoding="utf-8")
    assert "accuracy 0.6667 on 6 examples" in text
    assert "     cat  1 1 ." in text


def test_mistakes_are_listed_by_confidence():
    assert reports.worst_mistakes(examples(), (8, 8, 1)).tolist() == [1, 5]


def test_what_are_no_images_get_no_sheet_of_mistakes(tmp_path):
    told = reports.write_reports(examples(images=False), data(images=False), str(tmp_path))
    assert "mistakes.png" not in told["files"] and not (tmp_path / "mistakes.png").exists()


def test_no_mistake_leaves_no_sheet(tmp_path):
    perfect = dict(examples(), label=examples()["labels"])
    told = reports.write_reports(perfect, data(), str(tmp_path))
    assert told["files"] == ["report.txt", "report.json", "confusion.png"]
    assert told["mistakes"] == 0 and told["worst_classes"] == [] and told["confusions"] == []


def test_a_class_without_examples_or_name_is_told_by_its_number(tmp_path):
    told = reports.write_reports(examples(), Data((8, 8, 1), 4, ("cat",)), str(tmp_path))
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert report["class_names"] == ["cat", "1", "2", "3"]
    assert report["classes"][3]["recall"] == 0 and told["mistakes"] == 2


def test_without_labels_there_is_no_report(tmp_path):
    assert reports.write_reports(dict(examples(), labels=None), data(), str(tmp_path)) is None
    assert list(tmp_path.iterdir()) == []


def test_the_measures_of_each_class_are_those_of_scikit_learn():
    from sklearn.metrics import confusion_matrix, precision_recall_fscore_support

    random = np.random.RandomState(3)
    labels, predicted = random.randint(0, 4, [2, 200])  # class 4 is never seen and never told
    names = ["a", "b", "c", "d", "e"]
    matrix = reports.confusion(labels, predicted, 5)
    np.testing.assert_array_equal(matrix, confusion_matrix(labels, predicted, labels=range(5)))
    expected = precision_recall_fscore_support(labels, predicted, labels=range(5), zero_division=0)
    rows = reports.per_class(matrix, names)
    for key, column in zip(("precision", "recall", "f1", "examples"), expected):
        np.testing.assert_allclose([row[key] for row in rows], column, rtol=1e-12)
    assert [row["class"] for row in rows] == names
