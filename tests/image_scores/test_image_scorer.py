"""The scorer, from the outputs of a generator to its reports."""

import functools
import json
import os
import types

import numpy as np
import pytest
from score_fixtures import SPEC, SPLITS, QuarterClassifier, make_images, make_options, make_split
from toolkit_image_scores import copies, damage, report, sets, two_sample
from toolkit_image_scores import scorer as scorer_module
from toolkit_image_scores.features import network_features, pixel_features
from toolkit_image_scores.scorer import ImageScorer

from toolkit import DataError, Split, UsageError

CHOICE = "; if it chose the best checkpoint, --best-metric none uses the last one"
SEVERE, NOTHING = damage.SEVERE, dict.fromkeys(damage.SEVERE, ())


@pytest.fixture(autouse=True)
def _refuse_nothing(monkeypatch):
    """The means of quarters notice no blur; most tests here are about what is not refused."""
    monkeypatch.setattr(damage, "SEVERE", NOTHING)


def draw_images(count, seed, classes=(0, 1, 2, 3)):
    """What a generator draws whose images look like the data, of these classes alone."""
    return make_images(np.resize(classes, count), 1000 + seed)


def make_scorer(trained=None, splits=SPLITS, draw=draw_images, by=None, **changes):
    """A scorer with the features of a classifier, or `by` others; `draw` maps a number and a seed
    to images.
    """
    run = types.SimpleNamespace(options=make_options(**changes), data=SPEC)
    features = by or network_features(trained or QuarterClassifier())
    scorer = ImageScorer(run, splits.get, features=features)
    scorer.draw = lambda count, seed: [{"images": draw(count, seed)}]
    return scorer


def score_quickly(trained=None, **classes):
    draw = functools.partial(draw_images, **classes)
    return make_scorer(trained, draw=draw).score(SPLITS["test"], None)


def score_fully(folder, split=SPLITS["test"], **arguments):
    return make_scorer(**arguments).score(split, None, str(folder))


def lines_of(result):
    """The lines of the whole report."""
    return [fact.text for fact in report.list_facts(result.details["scores"])]


def warnings_of(result):
    return [warning["text"] for warning in result.details["page"]["warnings"]]


# -------------------------------------------------------------------------------------- to bytes


def test_images_become_bytes_to_the_nearest_and_stay_within():
    images = np.array([-1, 0, 0.4 / 255, 0.6 / 255, 1, 7, np.nan], np.float32)
    assert sets.to_bytes(images).tolist() == [0, 0, 0, 1, 255, 255, 0]
    levels = np.arange(256, dtype=np.uint8)
    assert (sets.to_bytes(levels.astype(np.float32) / 255) == levels).all()


def test_a_larger_split_is_thinned_evenly_from_first_to_last():
    assert sets.even_positions(9, 3).tolist() == [0, 4, 8]
    assert sets.even_positions(3, 9).tolist() == [0, 1, 2]


def test_both_sets_are_bytes_before_their_features_are_computed():
    pixels, seen = pixel_features(SPEC.shape), []
    by = pixels._replace(compute=lambda images: seen.append(images) or pixels.compute(images))
    images = np.random.RandomState(0).uniform(size=(40,) + SPEC.shape).astype(np.float32)
    samples = np.resize(images, (200,) + SPEC.shape)
    make_scorer(by=by, draw=lambda count, seed: samples).score(Split(images, None), None)
    reals, fakes = seen
    assert reals.dtype == fakes.dtype == np.uint8
    np.testing.assert_array_equal(reals, fakes[:40])  # the same floats become the same bytes


# ------------------------------------------------------------------------------ the quick score


def test_a_generator_that_draws_like_the_data_covers_it_and_loses_no_class():
    result = score_quickly()
    assert result.metrics["coverage"] > 0.9 and result.metrics["classes_lost"] == 0
    assert result.metrics["frechet_ratio"] < 3
    assert result.intervals == {} and score_quickly() == result


def test_a_missing_class_is_lost_by_name_and_costs_its_share_of_the_coverage():
    trained = QuarterClassifier(SPEC._replace(class_names=tuple("abcd")))  # which names the class
    result = score_quickly(trained, classes=(0, 1, 3))
    metrics = result.metrics
    assert metrics["classes_lost"] == 1
    assert result.details["scores"]["classes"]["lost"] == ["c"]
    assert metrics["coverage"] == pytest.approx(0.75, abs=0.05)
    assert metrics["frechet_ratio"] > 10
    assert 0 < metrics["frechet_distance_noise"] < 0.3 * metrics["frechet_distance"]


def test_the_real_side_is_computed_once_for_each_split():
    trained = QuarterClassifier()
    scorer = make_scorer(trained)
    # Of a large split it is of `score_samples`, and 200 are generated each time.
    for name, expected in (("test", 300 + 200), ("test", 200), ("train", 300 + 200)):
        before = trained.num_inputs
        scorer.score(SPLITS[name], None)
        assert trained.num_inputs - before == expected


def test_each_score_draws_with_its_own_seed_and_a_sample_without_images_is_refused(tmp_path):
    seeds = []
    scorer = make_scorer(draw=lambda *drawn: seeds.append(drawn) or draw_images(*drawn))
    scorer.score(SPLITS["test"], None)
    scorer.score(SPLITS["test"], None, str(tmp_path))
    assert seeds == [(200, 0), (300, 1)]
    for samples, found in (
        ({"sound": np.zeros([9, 3])}, r"sound \[3\], and no 'images' \[8, 8, 1\]"),
        ({"images": np.zeros([9, 6, 8, 1])}, r"images \[6, 8, 1\], and no 'images' \[8, 8, 1\]"),
    ):
        scorer.draw = lambda count, seed, samples=samples: [samples]
        with pytest.raises(DataError, match=f"samples are {found}"):
            scorer.score(SPLITS["test"], None)


def test_without_labels_nothing_is_lost():
    result = score_quickly(QuarterClassifier(labels=False), classes=(0,))
    assert "classes_lost" not in result.metrics and result.details["scores"]["classes"] is None


def test_a_generator_of_black_images_has_finite_scores():
    scorer = make_scorer(draw=lambda count, seed: np.zeros((count,) + SPEC.shape, np.uint8))
    metrics = scorer.score(SPLITS["test"], None).metrics
    assert np.isfinite(list(metrics.values())).all()
    assert metrics["coverage"] == 0
    assert metrics["frechet_distance_noise"] == pytest.approx(0, abs=1e-12)  # a rounding error


def test_too_small_a_split_gets_a_line_instead_of_a_score_and_a_note_before(tmp_path):
    result, notes = score_fully(tmp_path, make_split(9)), []
    run, splits = types.SimpleNamespace(note=notes.append), {"validation": make_split(10)}
    scorer_module.note_small_splits(run, {**splits, "test": make_split(9)}.get)
    lack = "no score: it needs 10 images or more, and the {}split has 9 (a run with larger --valid"
    assert result.metrics == {} and result.lines[0].startswith(lack.format(""))
    assert len(notes) == 1 and notes[0].startswith(lack.format("test "))


def test_a_network_for_features_is_trained_when_a_score_first_needs_it(monkeypatch):
    opened = []

    def open_features(options, data, train):
        opened.append(options.features)
        return network_features(QuarterClassifier())

    monkeypatch.setattr(scorer_module, "open_features", open_features)
    run = types.SimpleNamespace(options=make_options(), data=SPEC)
    scorer = ImageScorer(run, SPLITS.get)
    assert opened == [] and "classes_lost" in scorer.names
    scorer.close()
    scorer.draw = lambda count, seed: [{"images": draw_images(count, seed)}]
    for _ in range(2):
        assert "classes_lost" in scorer.score(SPLITS["test"], None).metrics
    assert opened == ["auto"]


@pytest.mark.parametrize(
    "word, message",
    [
        ("nowhere", "no run at 'nowhere'"),
        ("classifier", r"features 'classifier' need .* data has 400 examples \[64\]"),
        ("self", r"features 'self' need .* data has 400 examples \[64\]"),
    ],
)
def test_features_that_cannot_be_are_refused_before_a_score_needs_them(word, message):
    spec = SPEC._replace(shape=(64,))
    run = types.SimpleNamespace(options=make_options(features=word), data=spec)
    with pytest.raises(UsageError, match=message):
        ImageScorer(run, SPLITS.get)


@pytest.mark.parametrize("word", ["self", "pixels"])
def test_features_that_know_no_classes_promise_no_lost_ones(word):
    run = types.SimpleNamespace(options=make_options(features=word), data=SPEC)
    assert "classes_lost" not in ImageScorer(run, SPLITS.get).names


# ---------------------------------------------------------------------------------- lost classes


def test_a_class_is_lost_below_a_tenth_of_its_share():
    reals = np.repeat([0, 1], 50)
    histogram = sets.class_histogram(np.repeat([0, 1], [96, 4]), reals, ["a", "b"])
    assert histogram["lost"] == ["b"] and histogram["fakes"] == [96, 4]
    assert sets.class_histogram(np.repeat([0, 1], [95, 5]), reals)["lost"] == []


def test_of_a_rare_class_samples_may_be_missing_by_chance():
    reals = np.repeat([0, 1, 2], [900, 80, 20])
    fakes = np.repeat([0, 1, 2], [490, 10, 0])  # expected: 450, 40, 10
    histogram = sets.class_histogram(fakes, reals)
    assert histogram["lost"] == []
    line = "no class is certainly lost; least frequent: 2, at 0.00 of its share"
    assert report.classes_line(histogram) == line
    more = sets.class_histogram(np.repeat(fakes, 2), reals)  # expected: 900, 80, 20
    assert more["lost"] == ["2"]


@pytest.mark.parametrize("count, lost", [(0, []), (2, []), (3, ["1"])])
def test_a_class_that_can_be_lost_has_three_real_images(count, lost):
    reals = np.repeat([0, 1], [100 - count, count])
    assert sets.class_histogram(np.zeros(10000, int), reals)["lost"] == lost


# -------------------------------------------------------------------------------- the full score


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("full"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(two_sample, "NUM_STEPS", 20)
        patch.setattr(damage, "SEVERE", NOTHING)
        return folder, score_fully(folder, two_sample=True)


def test_the_full_score_has_every_metric_and_the_quick_one_some_of_them(full):
    _, result = full
    assert sorted(result.metrics) == sorted(ImageScorer.names)
    assert result.metrics["precision"] > 0.9 and result.metrics["recall"] > 0.9
    quick = set(score_quickly().metrics)
    assert quick == set(ImageScorer.names) - set(scorer_module.FULL_SCORE_METRICS)


def test_scores_json_holds_all_of_it_with_the_hash_of_the_features(full):
    folder, result = full
    with open(os.path.join(folder, "scores.json")) as file:
        saved = json.load(file, parse_constant=lambda text: pytest.fail(text))
    assert saved["n"] == 300 and saved["m"] == 300 and saved["features"]["sha256"] == "ab" * 32
    assert len(saved["ruler"]) == 7
    assert saved["classes"]["reals"] == [75, 75, 75, 75]
    scores = dict(result.details["scores"])
    assert scores.pop("files") == ["scores.json", "scores.txt", "nearest.png"]
    assert scores == saved


def test_a_full_score_says_what_matters_and_writes_all_that_its_numbers_mean(full):
    folder, result = full
    verdict, distance, no_copies, classes = result.lines
    assert " % of samples and real images are recognised as generated or real; 50 % " in verdict
    assert distance.startswith("Frechet distance (FD) ")
    assert " x floor (n = 300, m = 300), on the ruler " in distance
    assert no_copies == report.NO_COPIES
    assert classes.startswith("all classes present; least frequent: ")
    lines = lines_of(result)
    with open(os.path.join(folder, "scores.txt"), encoding="utf-8") as file:
        assert file.read().splitlines() == lines
    assert "features classifier runs/quarters, step 700, F = 4, sha256 abababababababab" in lines
    text = "\n".join(lines)
    assert "not judged" not in text
    assert [term in text for term in ("; ruler: ", "\nfloor: ", "; coverage: ")] == [True] * 3


def test_a_report_says_how_many_real_images_were_trained_on(tmp_path, full, monkeypatch):
    monkeypatch.setattr(two_sample, "NUM_STEPS", 20)
    images = np.concatenate([SPLITS["test"].features[:200], SPLITS["train"].features[:40]])
    result = score_fully(tmp_path, Split(images, np.arange(240) % 4), two_sample=True)
    line = "40 of the 240 real images are also training images"
    assert result.details["scores"]["two_sample"]["m"] == 200
    assert line in lines_of(result) and line in warnings_of(result)
    assert full[1].details["scores"]["training_reals"] == 0
    assert not any("also training images" in line for line in lines_of(full[1]))


def test_copies_among_training_images_that_are_not_featurized_are_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(copies, "MAX_TRAINING_IMAGES", 50)
    images = make_images(np.arange(200) % 4, 1)
    result = score_fully(tmp_path, Split(images[::10].copy()), splits={"train": Split(images)})
    assert result.details["scores"]["training_reals"] == 20


def test_a_run_has_a_place_among_marks_of_as_many_images_as_its_samples(tmp_path):
    def draw(count, seed):
        return make_images(np.random.RandomState(seed).randint(0, 4, count), seed)

    # Of 2,000 samples the distance is far below that of 50 real images, though both are alike.
    splits = {"train": Split(draw(50, 1))}
    options = {"score_samples": 2000}
    drawn = {"draw": lambda count, seed: draw(count, 3), "by": pixel_features(SPEC.shape)}
    result = score_fully(tmp_path, Split(draw(2000, 2)), splits=splits, **drawn, **options)
    scores, tables = result.details["scores"], result.details["page"]["tables"]
    assert scores["n_ruler"] == 50 and scores["n"] == 2000
    (rows,) = [dict(t["rows"]) for t in tables if t["title"].startswith("Ruler: ")]
    assert scores["frechet_distance"]["mean"] < 0.2 * rows["real images"]
    assert rows["this run"] == pytest.approx(rows["real images"], rel=0.2)
    assert rows["floor"] == pytest.approx(scores["frechet_floor"] * (1 / 50 + 1 / 2000) * 1000)
    assert scores["place"] == damage.locate(rows["this run"], scores["ruler"])


@pytest.mark.parametrize("shape", [(400,), (400, 3), (400, 1)])
def test_labels_that_are_no_classes_make_a_ruler_without_classes(tmp_path, shape):
    train = Split(SPLITS["train"].features, np.zeros(shape, np.float32))
    result = score_fully(tmp_path, splits={"train": train}, by=pixel_features(SPEC.shape))
    names = {mark["name"] for mark in result.details["scores"]["ruler"]}
    assert "a 5-tap blur" in names
    assert "each class's mean image" not in names


def test_a_run_with_no_more_samples_than_the_ruler_has_images_has_its_own_distance(full):
    scores = full[1].details["scores"]
    assert scores["n_ruler"] == scores["n"]
    assert scores["ruler_distance"] == scores["frechet_distance"]["mean"]
    assert scores["ruler_floor"] == scores["frechet_floor"]


def test_the_training_split_has_no_ruler_no_nearest_image_and_no_two_sample_test(tmp_path):
    result = score_fully(tmp_path, SPLITS["train"], two_sample=True)
    assert set(os.listdir(str(tmp_path))) == {"scores.json", "scores.txt"}
    lack, distance = lines_of(result)[:2]
    assert "place" not in result.details["scores"] and "), " not in distance
    assert lack == "no two-sample test: it needs 20 held-out images, and there are 0"
    assert "300 of the 300 real images are also training images" in warnings_of(result)


@pytest.mark.parametrize("count, others", [(0, "no"), (9, "only 9")])
def test_without_other_reals_no_measure_is_judged_but_a_shortage(tmp_path, count, others):
    splits = {"train": make_split(count) if count else None}
    split = make_split(127, seed=1)
    result = score_fully(tmp_path, split, splits=splits, by=pixel_features(SPEC.shape))
    texts = {
        f"not judged: there are {others} other real images to damage",
        "the Frechet distance says nothing here: 64 features need 128 samples and 128 real images "
        "or more, and there are 300 and 127" + CHOICE,
    }
    assert texts <= set(warnings_of(result)) and texts <= set(lines_of(result))
    assert result.intervals == {} and result.details["scores"]["frechet_ratio"] is None
    assert any(line.startswith("precision ") for line in lines_of(result))


def test_the_full_score_has_intervals_of_the_distance_and_its_multiple_of_the_floor(full):
    scores, intervals = full[1].details["scores"], full[1].intervals
    distance, ratio = intervals["frechet_distance"], intervals["frechet_ratio"]
    assert distance.low < scores["frechet_distance"]["mean"] < distance.high
    assert full[1].metrics["frechet_distance_noise"] > 0
    ends = [report.short(end) for end in distance[:2]]
    text = "95 % interval of the FD, over samples and real images: "
    assert text + " to ".join(ends) in lines_of(full[1])
    assert ratio.high == pytest.approx(distance.high / scores["frechet_floor"])
    assert set(intervals) <= set(full[1].metrics)


@pytest.mark.parametrize("limit, count", [(4000, 400), (100, 100)])
def test_recall_is_of_no_more_samples_than_images_are_damaged(tmp_path, monkeypatch, limit, count):
    monkeypatch.setattr(scorer_module, "MAX_DAMAGED", limit)
    result = score_fully(tmp_path, score_samples=500)
    scores = result.details["scores"]
    assert (scores["n"], scores["n_neighbours"], scores["n_ruler"]) == (500, count, count)
    assert "(n = 500, m = 300)" in lines_of(result)[0]
    assert f"n = {count}, k = 5; " in "\n".join(lines_of(result))


# ------------------------------------------------------------------------------- what is refused


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    """A quick and a full score whose features notice some damage."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(damage, "SEVERE", SEVERE)
        return score_quickly(), score_fully(tmp_path_factory.mktemp("judged"))


def test_a_measure_that_does_not_notice_damage_is_no_metric_and_the_report_says_why(judged):
    quick, result = judged
    scores, text = result.details["scores"], "\n".join(lines_of(result))
    assert "precision" not in result.metrics and scores["precision"] is None
    judgement = scores["measures"]["precision"]
    assert judgement["value"] > 0.9 and judgement["real"] > 0.9
    noted = "of damaged real images (each class's mean image) it is"
    assert f"precision says nothing here: {noted}" in text
    assert any(line.startswith("precision says nothing here: ") for line in warnings_of(result))
    assert "frechet_distance" not in result.metrics and result.intervals == {}
    assert "the Frechet distance says nothing here: " in text and "x floor" not in text
    assert "frechet_distance" not in [each["name"] for each in result.details["page"]["headline"]]
    # The quick score refuses nothing, so that a best checkpoint can be chosen.
    assert {"frechet_distance", "coverage"} <= set(quick.metrics)


def test_a_measure_that_stays_has_the_values_of_real_and_damaged_images_beside_it(judged):
    _, result = judged
    (line,) = [line for line in lines_of(result) if line.startswith("recall ")]
    assert line.startswith(f"recall {result.metrics['recall']:.3f} (real 0.9")
    assert "; Gaussian pixels 0.00; 10 images repeated 0.00; " in line
    headlines = {each["name"]: each for each in result.details["page"]["headline"]}
    assert headlines["recall"]["note"].startswith("real 0.9")


# ------------------------------------------------------------------------------- which is better


FEW = "needs 10 images or more, and the split 'validation' has 9"
FULL = "by {}, which only 'toolkit evaluate' measures"
AUTO = "by classes_lost, and the features are not certain to know classes: features is auto"


@pytest.mark.parametrize(
    "metric, count, error, message",
    [
        ("min:frechet_distance", 9, DataError, FEW),
        ("min:classes_lost", 100, UsageError, AUTO),
        *((f"min:{n}", 100, UsageError, FULL.format(n)) for n in scorer_module.FULL_SCORE_METRICS),
    ],
)
def test_what_a_validation_cannot_measure_names_no_best(metric, count, error, message):
    with pytest.raises(error, match=message):
        scorer_module.check_best_metric(make_options(best_metric=metric), make_split(count))


@pytest.mark.parametrize("metric, count", [("coverage", 10), ("min:d_loss", 9), ("", 9)])
def test_any_other_metric_can_name_the_best_checkpoint(metric, count):
    scorer_module.check_best_metric(make_options(best_metric=metric), make_split(count))


@pytest.mark.parametrize(
    "changes, names",
    [
        ({"by": pixel_features(SPEC.shape)}, ["features"]),
        ({"quick_samples": 201}, ["samples"]),
        ({"score_samples": 299}, ["real images"]),
        ({"score_samples": 20000}, []),  # there are no more than 300 real ones
    ],
)
def test_scores_depend_on_the_features_and_on_the_sizes_of_both_sets(changes, names):
    before = make_scorer().dependencies(SPLITS["test"])
    after = make_scorer(**changes).dependencies(SPLITS["test"])
    assert [name for name in before if before[name] != after[name]] == names
