"""F1 over all classes and calibration: values, intervals, and where reports and page have them."""

from __future__ import annotations

import json

import numpy as np
import pytest
from classifier_fixtures import Data
from toolkit_classifier import page, reports, scores

from toolkit.page.sections import read_sections
from toolkit.statistics import wilson


def examples(count=200, num_classes=4, accuracy=0.8):
    draws = np.random.RandomState(0)
    labels = draws.randint(0, num_classes, count).astype(np.int32)
    right = draws.rand(count) < accuracy
    predicted = np.where(right, labels, (labels + 1) % num_classes).astype(np.int32)
    probability = draws.uniform(0.5, 1.0, count).astype(np.float32)
    features = np.zeros([count, 8, 8, 1], np.float32)
    return {"labels": labels, "label": predicted, "probability": probability, "features": features}


def data(num_classes=4):
    return Data((8, 8, 1), num_classes, tuple("abcdefgh"[:num_classes]))


@pytest.mark.parametrize("num_classes", [2, 4, 10])
def test_f1_is_that_of_scikit_learn(num_classes):
    from sklearn.metrics import f1_score

    draws = np.random.RandomState(num_classes)
    labels, predicted = draws.randint(0, num_classes, [2, 300])
    predicted[labels == 0] = 1  # class 0 is hardly predicted
    for size in (num_classes, num_classes + 2):  # also with classes that never occur
        matrix = reports.confusion_matrix(labels, predicted, size)
        for name, (value, interval) in scores.f1_scores(matrix).items():
            expected = f1_score(labels, predicted, average=name, zero_division=0)
            assert value == pytest.approx(expected)
            assert interval.low < value < interval.high


def test_the_interval_of_f1_covers_the_true_value():
    truth = np.array([[0.45, 0.05], [0.1, 0.4]])
    expected = scores.macro_f1(np.diag(truth) * 1e6, truth.sum(1) * 1e6, truth.sum(0) * 1e6)
    draws = np.random.RandomState(3).multinomial(150, truth.ravel(), size=100)
    intervals = [scores.f1_scores(draw.reshape(2, 2))["macro"][1] for draw in draws]
    covering = sum(each.low <= expected <= each.high for each in intervals)
    assert covering >= 87  # 95, minus 3.5 standard errors


def test_reports_have_the_scores_with_their_intervals(tmp_path):
    batch = examples()
    summary = reports.write(batch, data(), str(tmp_path))
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    text = (tmp_path / "report.txt").read_text(encoding="utf-8")
    macro = report["f1"]["macro"]
    assert macro == summary["f1"]["macro"]
    assert f"macro F1 {macro['value']:.4f}  {macro['low']:.4f} to {macro['high']:.4f}" in text
    assert f"calibration error (ECE) {report['calibration']['ece']:.4f}" in text
    assert "15 bins of equal width" in text
    assert summary["calibration"] == {"ece": report["calibration"]["ece"], "num_bins": 15}
    assert sum(each["examples"] for each in report["calibration"]["bins"]) == 200


def test_the_page_accepts_all_sections(tmp_path):
    batch = examples()
    summary = reports.write(batch, data(), str(tmp_path))
    sections = read_sections(json.loads(json.dumps(summary["page"])))
    assert sections.notes == []
    hits = int((batch["labels"] == batch["label"]).sum())
    accuracy = sections.headline[0]
    assert accuracy["name"] == "accuracy" and accuracy["value"] == pytest.approx(hits / 200)
    assert accuracy["low"] == pytest.approx(wilson(hits, 200).low)
    assert [picture["file"] for picture in sections.pictures] == ["mistakes.png", "confusion.png"]
    assert (
        sections.matrices[0]["counts"]
        == reports.confusion_matrix(batch["labels"], batch["label"], 4).tolist()
    )
    assert len(sections.tables[0]["rows"]) == 4
    assert sections.charts[0]["diagonal"]


def test_many_classes_have_a_table_of_the_worst_and_no_matrix():
    names = [str(k) for k in range(300)]
    matrix = np.eye(300, dtype=int) * 3
    matrix[7, 8] = 30
    values = scores.to_json(matrix, None)
    content = page.content(matrix, reports.class_scores(matrix, names), names, values, [])
    assert "matrices" not in content and "charts" not in content and content["pictures"] == []
    assert len(content["tables"][0]["rows"]) == 200 and content["tables"][0]["rows"][0][0] == "7"
    assert read_sections(content).notes == []


def test_probabilities_that_are_not_finite_leave_out_the_calibration(tmp_path):
    batch = examples()
    batch["probability"][3] = np.nan
    summary = reports.write(batch, data(), str(tmp_path))
    assert summary["calibration"] is None and "charts" not in summary["page"]
    assert "ECE" not in (tmp_path / "report.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("count, accuracy", [(1, 1.0), (1, 0.0), (5, 1.0), (5, 0.0)])
def test_few_examples_or_equal_ones_have_reports(tmp_path, count, accuracy):
    summary = reports.write(examples(count, 2, accuracy), data(2), str(tmp_path))
    macro = summary["f1"]["macro"]
    assert 0 <= macro["low"] <= macro["value"] <= macro["high"] <= 1
    json.dumps(summary, allow_nan=False)
