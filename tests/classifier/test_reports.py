"""The reports of an evaluation: the files, their contents, F1, calibration and the page."""

import json

import numpy as np
import pytest
from classifier_fixtures import make_data
from toolkit_classifier import page, reports, scores

from toolkit.page.sections import read_sections
from toolkit.statistics import wilson

DATA = make_data((8, 8, 1), 3, ("cat", "dog", "cow"))


def batch_of(labels, predicted, probability):
    """What an evaluation collects: white images with these labels and predictions."""
    return {
        "labels": np.array(labels, np.int32),
        "label": np.array(predicted, np.int32),
        "probability": np.array(probability, np.float32),
        "features": np.ones([len(labels), 8, 8, 1], np.float32),
    }


def examples(**more):
    """Six examples: one cat predicted as a dog with 0.9, one cow as a cat with 0.6."""
    batch = batch_of([0, 0, 1, 1, 2, 2], [0, 1, 1, 1, 2, 0], [0.8, 0.9, 0.7, 0.9, 0.5, 0.6])
    return dict(batch, **more)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The folder of the reports of the six examples, and the result."""
    folder = tmp_path_factory.mktemp("reports")
    return folder, reports.write(examples(), DATA, str(folder))


def read_report(folder):
    return json.loads((folder / "report.json").read_text(encoding="utf-8"))


def test_an_evaluation_writes_four_files_that_the_result_names(written, tmp_path):
    folder, summary = written
    assert summary["files"] == ["report.txt", "report.json", "confusion.png", "mistakes.png"]
    assert sorted(summary["files"]) == sorted(path.name for path in folder.iterdir())
    for name in summary["files"][2:]:
        assert (folder / name).read_bytes()[:4] == b"\x89PNG"
    # Without labels there is no report.
    assert reports.write(examples(labels=None), DATA, str(tmp_path)) is None
    assert list(tmp_path.iterdir()) == []


def test_the_result_names_the_worst_classes_and_confusions(written):
    folder, summary = written
    assert summary["mistakes"] == 2
    assert [row["class"] for row in summary["worst_classes"]] == ["cat", "cow"]
    assert summary["worst_classes"][0]["recall"] == 0.5
    assert summary["confusions"][0] == {"true": "cat", "predicted": "dog", "count": 1}
    report = read_report(folder)
    assert report["confusion"] == [[1, 1, 0], [0, 2, 0], [1, 0, 1]]
    dog = {"class": "dog", "recall": 1.0, "examples": 2, "precision": 2 / 3}
    assert {name: report["classes"][1][name] for name in dog} == dog
    assert reports.worst_mistakes(examples(), (8, 8, 1)).tolist() == [1, 5]  # by confidence


def test_without_mistakes_or_images_there_is_no_picture_of_them(tmp_path):
    perfect = examples(label=examples()["labels"])
    summary = reports.write(perfect, DATA, str(tmp_path))
    assert summary["files"] == ["report.txt", "report.json", "confusion.png"]
    assert (summary["mistakes"], summary["worst_classes"], summary["confusions"]) == (0, [], [])
    assert len(summary["page"]["matrices"]) == 1 and summary["page"]["pictures"] == []
    vectors = examples(features=np.ones([6, 64], np.float32))
    summary = reports.write(vectors, make_data((64,), 3), str(tmp_path))
    assert "mistakes.png" not in summary["files"] and not (tmp_path / "mistakes.png").exists()


def test_a_class_without_examples_or_name_is_called_by_its_number(tmp_path):
    summary = reports.write(examples(), make_data((8, 8, 1), 4, ("cat",)), str(tmp_path))
    report = read_report(tmp_path)
    assert report["class_names"] == ["cat", "1", "2", "3"]
    assert report["classes"][3]["recall"] == 0 and summary["mistakes"] == 2


STRANGE_NAMES = (
    r"a$\frac$b",
    "two\nlines\tand \x1b[31mred",
    "n" * 5000,
    "猫",
    "\u202egnp.exe",
    "\udcff",
    "",
)


@pytest.mark.filterwarnings("error")
def test_any_name_of_a_class_can_be_reported(tmp_path):
    # Each class is once right, and once taken for the next one.
    count = len(STRANGE_NAMES)
    labels = np.repeat(np.arange(count), 2)
    predicted = np.where(np.arange(2 * count) % 2, (labels + 1) % count, labels)
    batch = batch_of(labels, predicted, np.full(2 * count, 0.5))
    summary = reports.write(batch, make_data((8, 8, 1), count, STRANGE_NAMES), str(tmp_path))
    assert summary["mistakes"] == count and len(summary["files"]) == 4
    assert tuple(read_report(tmp_path)["class_names"]) == STRANGE_NAMES
    text = (tmp_path / "report.txt").read_text(encoding="utf-8")
    num_lines = 2 * count + 5 + 11  # two tables of classes, and the scores with one bin
    assert len(text.splitlines()) == num_lines and max(map(len, text.splitlines())) < 120
    assert all(letter.isprintable() or letter == "\n" for letter in text)


def test_a_name_without_glyphs_is_drawn_as_the_number_of_its_class():
    names = ["cat", "猫", "two\nlines", " ", "$x$"]
    assert reports.drawable_names(names) == ["cat", "1", r"two\nlines", "3", "$x$"]


def test_so_many_classes_that_a_picture_has_fewer_pixels_have_no_matrix(tmp_path, monkeypatch):
    monkeypatch.setattr(scores.Confusion, "matrix", None)
    data = make_data((8, 8, 1), reports.MAX_SHOWN + 1)
    summary = reports.write(examples(), data, str(tmp_path))
    assert summary["files"] == ["report.txt", "report.json", "mistakes.png"]
    assert summary["confusions"][0] == {"true": "0", "predicted": "1", "count": 1}
    assert "confusion" not in read_report(tmp_path)
    text = (tmp_path / "report.txt").read_text(encoding="utf-8")
    assert "accuracy 0.6667 on 6 examples\n\n             value" in text


def test_the_numbers_of_a_known_confusion(tmp_path):
    """Ten of class 0, of which two become 1; ten of class 1, all right; class 2 has no example.

    Of 15 of probability 0.63 14 are right, of 5 of probability 0.9 4.
    """
    labels = np.repeat([0, 1], 10)
    predicted = labels.copy()
    predicted[[0, 5]] = 1
    outcome = batch_of(labels, predicted, np.where(np.arange(20) % 4 == 1, 0.9, 0.63))
    reports.write(outcome, DATA, str(tmp_path))
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
        "calibration error (ECE) 0.2525: the mean distance of",
        "probability and share in 15 bins of equal width",
        "",
        "   bin          examples  probability  right   95 % interval",
        "   0.600-0.667        15       0.6300  0.9333  0.7018 to 0.9881",
        "   0.867-0.933         5       0.9000  0.8000  0.3755 to 0.9638",
    ]
    assert reports.worst_mistakes(outcome, (8, 8, 1)).tolist() == [5, 0]


def draw_examples(count=200, num_classes=4, accuracy=0.8):
    draws = np.random.RandomState(0)
    labels = draws.randint(0, num_classes, count)
    predicted = np.where(draws.rand(count) < accuracy, labels, (labels + 1) % num_classes)
    return batch_of(labels, predicted, draws.uniform(0.5, 1.0, count))


def lettered(num_classes=4):
    return make_data((8, 8, 1), num_classes, tuple("abcdefgh"[:num_classes]))


@pytest.mark.parametrize("num_classes", [2, 4, 10])
def test_f1_is_that_of_scikit_learn(num_classes):
    from sklearn.metrics import f1_score

    draws = np.random.RandomState(num_classes)
    labels, predicted = draws.randint(0, num_classes, [2, 300])
    predicted[labels == 0] = 1  # class 0 is hardly predicted
    for size in (num_classes, num_classes + 2):  # also with classes that never occur
        confusion = scores.Confusion.of(labels, predicted, size)
        for name, (value, interval) in scores.f1_scores(confusion).items():
            expected = f1_score(labels, predicted, average=name, zero_division=0)
            assert value == pytest.approx(expected)
            assert interval.low < value < interval.high


def test_the_interval_of_f1_covers_the_true_value():
    truth = np.array([[0.45, 0.05], [0.1, 0.4]])
    expected = scores.macro_f1(np.diag(truth) * 1e6, truth.sum(1) * 1e6, truth.sum(0) * 1e6)
    draws = np.random.RandomState(3).multinomial(150, truth.ravel(), size=100)
    cells = np.arange(4)
    intervals = [scores.f1_scores(scores.Confusion(cells, n, 2))["macro"][1] for n in draws]
    covering = sum(each.low <= expected <= each.high for each in intervals)
    assert covering >= 87  # 95, minus 3.5 standard errors


def test_reports_and_the_page_have_the_scores_with_their_intervals(tmp_path):
    batch = draw_examples()
    summary = reports.write(batch, lettered(), str(tmp_path))
    report, macro = read_report(tmp_path), summary["f1"]["macro"]
    assert macro == report["f1"]["macro"] and macro["low"] < macro["value"] < macro["high"]
    assert summary["calibration"] == {"ece": report["calibration"]["ece"], "num_bins": 15}
    assert sum(each["examples"] for each in report["calibration"]["bins"]) == 200
    sections = read_sections(json.loads(json.dumps(summary["page"])))
    assert sections["notes"] == [] and "<circle" in sections["charts"][0]["svg"]
    hits = int((batch["labels"] == batch["label"]).sum())
    accuracy = sections["headline"][0]
    assert (accuracy["name"], accuracy["text"]) == ("accuracy", f"{hits / 200:.4f}")
    assert accuracy["interval"].startswith(f"{wilson(hits, 200).low:.4f} to ")
    largest = max(map(sum, report["confusion"])) / 200
    assert accuracy["marks"] == [f"chance {largest:.4f}"]
    assert [picture["file"] for picture in sections["pictures"]] == ["mistakes.png"]
    assert sections["matrices"][0]["counts"] == report["confusion"]
    assert len(sections["tables"][0]["rows"]) == 4


def test_many_classes_have_a_table_of_the_worst_and_no_matrix():
    names = [str(k) for k in range(300)]
    labels = np.array([*range(300)] * 3 + [7] * 30)
    confusion = scores.Confusion.of(labels, np.where(np.arange(930) < 900, labels, 8), 300)
    values = scores.to_json(confusion, None)
    rows, files = reports.class_scores(confusion, names), ["confusion.png", "mistakes.png"]
    content = page.content(confusion, rows, names, values, files)
    assert "matrices" not in content and content["charts"] == []
    assert [each["file"] for each in content["pictures"]] == ["mistakes.png", "confusion.png"]
    assert len(content["tables"][0]["rows"]) == 200 and content["tables"][0]["rows"][0][0] == "7"
    assert read_sections(content)["notes"] == []


def test_probabilities_that_are_not_finite_leave_out_the_calibration(tmp_path):
    batch = draw_examples()
    batch["probability"][3] = np.nan
    summary = reports.write(batch, lettered(), str(tmp_path))
    assert summary["calibration"] is None and summary["page"]["charts"] == []
    assert "ECE" not in (tmp_path / "report.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("count, accuracy", [(1, 1.0), (1, 0.0), (5, 1.0), (5, 0.0)])
def test_few_examples_or_equal_ones_have_reports(tmp_path, count, accuracy):
    summary = reports.write(draw_examples(count, 2, accuracy), lettered(2), str(tmp_path))
    assert summary["f1"]["macro"] == {"value": accuracy}  # no interval of no width
    json.dumps(summary, allow_nan=False)
