"""What scores see by, and the scorer from inputs to its reports; stand-ins take runs' places."""

from __future__ import annotations

import json
import os
import types

import numpy as np
import pytest
import toolkit_gan.scores as scores_package
from toolkit_gan.scores import extractor, reports, scoring, sides
from toolkit_gan.scores.extractor import ClassifierFeatures, PixelFeatures, open_features
from toolkit_gan.scores.scoring import GanScorer

import toolkit
from toolkit import CheckpointError, DataError, DataSpec, Split, UsageError

SHAPE, CLASSES = (8, 8, 1), 4
SPEC = DataSpec(SHAPE, "uint8", CLASSES, ("north", "east", "south", "west"))


def pictures(labels, seed=0):
    """uint8 [N, 8, 8, 1]: grey noise with one bright quarter, which is the class."""
    draws = np.random.RandomState(seed)
    images = draws.randint(20, 60, (len(labels),) + SHAPE)
    for image, label in zip(images, labels):
        row, column = divmod(int(label), 2)
        image[4 * row : 4 * row + 4, 4 * column : 4 * column + 4] += draws.randint(100, 160)
    return images.astype(np.uint8)


def split(count, seed=0, dtype=np.uint8):
    labels = np.arange(count) % CLASSES
    images = pictures(labels, seed)
    return Split(images if dtype == np.uint8 else (images / 255).astype(dtype), labels)


SPLITS = {"train": split(400), "test": split(300, seed=1)}


class StandIn:
    """What `toolkit.open_trained` gives: it finds the bright quarter; its features are means."""

    folder, plugin, step, sha256 = "runs/standin", "classifier", 700, "ab" * 32
    summary = {"test": {"metrics": {"accuracy": 0.994}}}

    def __init__(self, data=SPEC, labels=True, features=True):
        self.data, self.closed = data, False
        self.asked, self._labels, self._features = 0, labels, features

    def predict(self, inputs, batch_size=None):
        self.asked += len(inputs)
        scale = 255 if self.data.dtype == "uint8" else 1
        quarters = inputs.reshape(-1, 2, 4, 2, 4, inputs.shape[-1]).mean((2, 4, 5)) / scale
        found = {"probability": np.ones(len(inputs))}
        if self._features:
            found["features"] = quarters.reshape(-1, 4).astype(np.float32)
        if self._labels:
            found["label"] = quarters.reshape(-1, 4).argmax(1)
        return found

    def close(self):
        self.closed = True


def options(**given):
    values = {
        "features": "auto",
        "features_plugin": "classifier",
        "quick_samples": 200,
        "score_samples": 300,
        "score_seeds": 3,
        "latent": "normal",
        "latent_size": 5,
        "conditional": "none",
        "data": "mnist5k",
        "image_size": None,
        "channels": None,
        "validation_share": 0.1,
    }
    return types.SimpleNamespace(**dict(values, **given))


def scorer(trained=None, splits=SPLITS, data=SPEC, **given):
    run = types.SimpleNamespace(options=options(**given), data=data)
    return GanScorer(run, splits.get, features=ClassifierFeatures(trained or StandIn()))


def generator(classes=(0, 1, 2, 3)):
    """A generator that draws like the data, from these classes alone."""

    def predict(inputs, batch_size=None):
        assert inputs["z"].dtype == np.float32 and inputs["z"].shape[1] == 5
        labels = np.array(classes)[np.arange(len(inputs["z"])) % len(classes)]
        seed = int(abs(inputs["z"][0, 0]) * 1e6)
        return {"image": (pictures(labels, seed) / 255).astype(np.float32)}

    return predict


# -------------------------------------------------------------------------------------- to bytes


def test_images_become_bytes_to_the_nearest_and_stay_within():
    images = np.array([-1, 0, 0.4 / 255, 0.6 / 255, 1, 7, np.nan], np.float32)
    assert sides.to_bytes(images).tolist() == [0, 0, 0, 1, 255, 255, 0]


def test_every_byte_survives_the_way_to_floats_and_back():
    levels = np.arange(256, dtype=np.uint8)
    assert (sides.to_bytes(levels.astype(np.float32) / 255) == levels).all()


def test_a_split_of_floats_is_taken_for_images_in_zero_to_one():
    positions = np.array([3, 1])
    found = sides.real_images(split(5, dtype=np.float32), positions)
    assert (found == split(5).features[positions]).all()


def test_a_larger_split_is_thinned_evenly_from_first_to_last():
    assert sides.spread(9, 3).tolist() == [0, 4, 8] and sides.spread(3, 9).tolist() == [0, 1, 2]


# --------------------------------------------------------------------------------- pixel features


def test_pixel_features_are_means_over_cells():
    image = np.zeros((1, 16, 16, 1), np.uint8)
    image[0, :2, :2] = [[[255], [0]], [[255], [0]]]  # the mean of the first cell is 1/2
    found = PixelFeatures((16, 16, 1))(image)
    assert found.shape == (1, 64) and found.dtype == np.float32
    assert found[0, 0] == pytest.approx(0.5) and not found[0, 1:].any()


def test_pixels_on_the_rim_of_two_cells_count_in_shares():
    # Twelve pixels in eight cells: a cell is 1.5 pixels, 2/3 and 1/3 of its mean.
    np.testing.assert_allclose(extractor.shares(12)[0, :3], [2 / 3, 1 / 3, 0], atol=1e-6)
    np.testing.assert_allclose(extractor.shares(28).sum(axis=1), 1, rtol=1e-6)
    np.testing.assert_allclose(extractor.shares(28).sum(axis=0), 8 / 28, rtol=1e-5)


def test_each_channel_has_features_of_its_own():
    features = PixelFeatures((10, 9, 3))
    image = np.zeros((2, 10, 9, 3), np.uint8)
    image[..., 1] = 255
    assert features.size == 8 * 8 * 3 and features(image).sum() == pytest.approx(2 * 64, rel=1e-5)
    assert features.labels(image) is None and len(features.sha256) == 64


def test_data_that_are_no_images_are_their_own_features():
    values = np.array([[0, 51, 255]], np.uint8)
    np.testing.assert_allclose(PixelFeatures((3,))(values), [[0, 0.2, 1]])


def test_pixel_features_of_other_shapes_have_other_hashes():
    assert PixelFeatures((8, 8, 1)).sha256 != PixelFeatures((8, 9, 1)).sha256


# ---------------------------------------------------------------------------- classifier features


def test_a_run_gives_features_labels_and_its_hash():
    features = ClassifierFeatures(StandIn())
    images = pictures([2, 0])
    assert features(images).shape == (2, 4) and features.labels(images).tolist() == [2, 0]
    assert features.size == 4 and features.sha256 == "ab" * 32
    assert features.name == "classifier runs/standin, step 700"


def test_closing_features_closes_their_run():
    trained = StandIn()
    ClassifierFeatures(trained).close()
    assert trained.closed


def test_a_run_without_features_is_refused_with_a_way_out():
    with pytest.raises(UsageError, match="predicts label, probability, and no features") as error:
        ClassifierFeatures(StandIn(features=False))
    assert "pixels" in error.value.hint


def test_a_run_that_takes_no_images_has_no_features():
    def predict(inputs, batch_size=None):
        raise DataError("Inputs: expected z, found features.")

    generator_run = StandIn()
    generator_run.predict, generator_run.plugin = predict, "gan"
    with pytest.raises(UsageError, match="plugin 'gan' predicts from other inputs than images"):
        ClassifierFeatures(generator_run)


def test_a_run_on_images_of_another_shape_is_refused():
    with pytest.raises(DataError, match=r"are of images \[8, 8, 1\], but these are \[9, 8, 1\]"):
        ClassifierFeatures(StandIn())(np.zeros((2, 9, 8, 1), np.uint8))


def test_a_run_on_floats_is_fed_floats():
    images = pictures([1, 3])
    of_floats = ClassifierFeatures(StandIn(SPEC._replace(dtype="float32")))
    np.testing.assert_allclose(of_floats(images), ClassifierFeatures(StandIn())(images), rtol=1e-6)


# ------------------------------------------------------------------------------------- the choice


def test_pixels_are_taken_by_name_and_where_there_are_no_classes(monkeypatch):
    monkeypatch.setattr(toolkit, "train", None, raising=False)  # a call would fail
    train = SPLITS["train"]
    assert open_features(options(features="pixels"), SPEC, train).name == "pixels"
    assert open_features(options(), DataSpec(SHAPE, "uint8"), train).name == "pixels"
    assert open_features(options(), SPEC._replace(shape=(64,)), train).name == "pixels"
    assert open_features(options(), SPEC._replace(shape=(7, 9, 1)), train).name == "pixels"


def test_a_run_that_is_not_there_is_a_users_mistake():
    with pytest.raises(UsageError, match="no run at 'nowhere'"):
        open_features(options(features="nowhere"), SPEC, SPLITS["train"])


def test_a_run_is_opened_by_its_folder_and_closed_when_it_does_not_fit(monkeypatch, tmp_path):
    trained = StandIn(SPEC._replace(shape=(12, 8, 1)))
    monkeypatch.setattr(toolkit, "open_trained", lambda path: trained, raising=False)
    with pytest.raises(DataError, match=r"images \[12, 8, 1\]"):
        open_features(options(features=str(tmp_path)), SPEC, SPLITS["train"])
    assert trained.closed
    trained.data = SPEC
    assert open_features(options(features=str(tmp_path)), SPEC).size == 4


class Trainings:
    """Stands in for `toolkit.train` and `toolkit.open_trained`, and remembers."""

    def __init__(self, monkeypatch, cache, during=lambda run: None):
        self.made, self.opened, self.said = [], [], []
        self._during = during
        monkeypatch.setattr(toolkit, "cache_folder", lambda: str(cache), raising=False)
        monkeypatch.setattr(toolkit, "train", self.train, raising=False)
        monkeypatch.setattr(toolkit, "open_trained", self.open, raising=False)

    def train(self, plugin, run_dir, options, say=None):
        os.makedirs(run_dir)
        with open(os.path.join(run_dir, "weights"), "w") as file:
            file.write("whole")
        self.made.append((plugin, options))
        self._during(run_dir)

    def open(self, path):
        assert os.listdir(path) == ["weights"]
        self.opened.append(path)
        return StandIn()

    def features(self, train=SPLITS["train"], **given):
        return open_features(options(**given), SPEC, train, self.said.append)


def test_auto_trains_a_classifier_once_and_then_finds_it(monkeypatch, tmp_path):
    trainings = Trainings(monkeypatch, tmp_path)
    assert trainings.features().name == "classifier of mnist5k"
    trainings.features()
    (folder,) = os.listdir(str(tmp_path / "features"))
    assert folder.startswith("classifier-") and len(trainings.made) == 1
    assert trainings.opened == [str(tmp_path / "features" / folder)] * 2
    assert trainings.said == ["Training a classifier on mnist5k, once: scores see by its features."]


def test_other_data_another_size_or_another_plugin_have_a_classifier_of_their_own(
    monkeypatch, tmp_path
):
    trainings = Trainings(monkeypatch, tmp_path)
    trainings.features()
    trainings.features(train=split(400, seed=9))
    trainings.features(image_size=8)
    trainings.features(features_plugin="mine")
    assert len(os.listdir(str(tmp_path / "features"))) == 4
    assert trainings.made[3][0] == "mine" and trainings.made[2][1]["image_size"] == 8


def test_the_seed_and_the_method_of_the_gan_do_not_matter(monkeypatch, tmp_path):
    trainings = Trainings(monkeypatch, tmp_path)
    trainings.features()
    trainings.features(seed=7, latent_size=99)
    assert len(trainings.made) == 1 and "latent_size" not in trainings.made[0][1]


def test_small_data_is_trained_on_for_1600_steps_and_full_mnist_for_three_epochs():
    # 4000 examples are 62.5 batches of 64.
    assert extractor.training_settings(options(), 4000)["epochs"] == 25.6
    assert extractor.training_settings(options(), 54000)["epochs"] == 3
    assert extractor.training_settings(options(), 600000)["epochs"] == 0.3


def test_of_few_images_the_classifiers_batch_has_no_more():
    assert extractor.training_settings(options(), 10)["batch_size"] == 10


def test_what_is_at_hand_knows_classes_and_needs_no_training(monkeypatch, tmp_path):
    trainings = Trainings(monkeypatch, tmp_path)
    train = SPLITS["train"]
    assert extractor.at_hand(options(), SPEC, train) is None
    assert extractor.at_hand(options(features="pixels"), SPEC, train) is None
    trainings.features()
    assert extractor.at_hand(options(), SPEC, train).knows_classes
    assert len(trainings.made) == 1


def test_a_training_that_fails_leaves_nothing(monkeypatch, tmp_path):
    def fail(run):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Trainings(monkeypatch, tmp_path, fail).features()
    assert os.listdir(str(tmp_path / "features")) == []


def test_of_two_trainings_at_once_the_first_to_end_is_kept(monkeypatch, tmp_path):
    other = []

    def faster(run):
        if not other:
            other.append(True)
            trainings.features()  # another process, which is done before us

    trainings = Trainings(monkeypatch, tmp_path, faster)
    assert trainings.features().size == 4
    assert len(trainings.made) == 2 and len(os.listdir(str(tmp_path / "features"))) == 1


def test_what_a_killed_training_left_long_ago_is_tidied_away(monkeypatch, tmp_path):
    (tmp_path / "features" / ".making-old").mkdir(parents=True)
    (tmp_path / "features" / ".making-new").mkdir()
    os.utime(str(tmp_path / "features" / ".making-old"), (0, 0))
    Trainings(monkeypatch, tmp_path).features()
    hidden = [name for name in os.listdir(str(tmp_path / "features")) if name[0] == "."]
    assert hidden == [".making-new"]


def test_a_damaged_classifier_of_the_cache_names_its_folder(monkeypatch, tmp_path):
    trainings = Trainings(monkeypatch, tmp_path)

    def damaged(path):
        raise CheckpointError("It is damaged.")

    monkeypatch.setattr(toolkit, "open_trained", damaged)
    with pytest.raises(CheckpointError, match="Delete .*features.classifier-"):
        trainings.features()


def test_scores_import_no_tensorflow():
    for name in os.listdir(os.path.dirname(scores_package.__file__)):
        if name.endswith(".py"):
            path = os.path.join(os.path.dirname(scores_package.__file__), name)
            with open(path, encoding="utf-8") as file:
                text = file.read()
            assert "tensorflow" not in text and "import tf" not in text, name


# ------------------------------------------------------------------------------ the quick score


def test_a_generator_that_draws_like_the_data_covers_it_and_loses_no_class():
    scored = scorer().score(SPLITS["test"], generator())
    assert scored.metrics["coverage"] > 0.9 and scored.metrics["classes_lost"] == 0
    assert scored.metrics["frechet_ratio"] < 3 and list(scored.lines) == []


def test_a_missing_class_is_lost_by_name_and_costs_its_share_of_the_coverage():
    scored = scorer().score(SPLITS["test"], generator(classes=(0, 1, 3)))
    assert scored.metrics["classes_lost"] == 1 and list(scored.lines) == ["classes lost: south"]
    assert scored.metrics["coverage"] == pytest.approx(0.75, abs=0.05)
    assert scored.metrics["frechet_ratio"] > 10


def test_the_noise_is_a_small_part_of_a_large_distance():
    metrics = scorer().score(SPLITS["test"], generator(classes=(0,))).metrics
    assert 0 < metrics["frechet_distance_noise"] < 0.3 * metrics["frechet_distance"]


def test_quick_scores_of_the_same_generator_are_equal():
    made = scorer()
    first = made.score(SPLITS["test"], generator())
    assert made.score(SPLITS["test"], generator()) == first


def test_the_real_side_is_computed_once_for_each_split():
    trained = StandIn()
    made = scorer(trained)
    for name, added in (("test", 300 + 200), ("test", 200), ("train", 400 + 200)):
        before = trained.asked
        made.score(SPLITS[name], generator())
        expected = added if name == "test" else 300 + 200  # of a large split score_samples
        assert trained.asked - before == expected


def test_without_labels_nothing_is_lost():
    scored = scorer(StandIn(labels=False)).score(SPLITS["test"], generator(classes=(0,)))
    assert "classes_lost" not in scored.metrics and scored.details["scores"]["classes"] is None


def test_a_generator_of_black_images_has_finite_scores():
    def black(inputs):
        return {"image": np.zeros((len(inputs["z"]),) + SHAPE, np.float32)}

    metrics = scorer().score(SPLITS["test"], black).metrics
    assert np.isfinite(list(metrics.values())).all()
    assert metrics["coverage"] == 0 and metrics["frechet_distance_noise"] == 0


@pytest.mark.parametrize("count, told", [(4, "4 images"), (1, "1 image")])
def test_too_small_a_split_gets_a_line_in_place_of_a_score(count, told, tmp_path):
    scored = scorer().score(split(count), generator(), str(tmp_path))
    assert scored.metrics == {}
    assert scored.lines == [f"no score: the split has {told}, and a score needs 10 or more"]


def test_a_class_is_lost_below_a_tenth_of_its_share():
    reals = np.repeat([0, 1], 50)
    found = sides.classes_of(np.repeat([0, 1], [96, 4]), reals, ["a", "b"])
    assert found["lost"] == ["b"] and found["fakes"] == [96, 4]
    assert sides.classes_of(np.repeat([0, 1], [95, 5]), reals)["lost"] == []


def test_a_class_that_the_reals_lack_is_not_lost():
    assert sides.classes_of(np.array([0]), np.array([0, 0]), ["a", "b"])["lost"] == []


def test_closing_the_scorer_closes_its_features():
    trained = StandIn()
    scorer(trained).close()
    assert trained.closed


# -------------------------------------------------------------------------------- the full score


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("full"))
    return folder, scorer().score(SPLITS["test"], generator(), folder)


def test_the_full_score_has_every_metric(full):
    _, scored = full
    assert sorted(scored.metrics) == sorted(GanScorer.names)
    assert scored.metrics["precision"] > 0.9 and scored.metrics["recall"] > 0.9
    assert abs(scored.metrics["kernel_distance"]) < 5 * scored.metrics["kernel_distance_noise"]


def test_the_quick_metrics_are_among_those_of_the_full_score(full):
    quick = scorer().score(SPLITS["test"], generator()).metrics
    assert set(quick) == set(GanScorer.names) - set(scoring.IN_FULL)


def test_scores_json_holds_all_of_it_with_the_hash_of_the_features(full):
    folder, scored = full
    with open(os.path.join(folder, "scores.json")) as file:
        kept = json.load(file, parse_constant=lambda text: pytest.fail(text))
    assert kept["n"] == 300 and kept["m"] == 300 and kept["features"]["sha256"] == "ab" * 32
    assert len(kept["frechet_distance"]["values"]) == 3 and len(kept["ruler"]) == 10
    assert kept["classes"]["reals"] == [75, 75, 75, 75]
    told = dict(scored.details["scores"])
    assert told.pop("files") == ["scores.json", "nearest.png"] and told == kept


def test_the_lines_of_a_full_score_name_floor_place_and_features(full):
    _, scored = full
    text = "\n".join(scored.lines)
    assert " x floor (n = 300, m = 300), " in scored.lines[0]
    assert scored.lines[0].startswith("FD ")
    assert "from 3 sets of samples" in text and "no class lost; the rarest" in text
    features = "features classifier runs/standin, step 700, F = 4, sha256 abababababababab"
    assert features + ", right on 99.4% of its test images" in text
    assert "mostly noise" not in text


def test_the_sheet_has_a_row_of_four_pairs(full):
    from PIL import Image

    folder, _ = full
    with Image.open(os.path.join(folder, "nearest.png")) as picture:
        assert picture.size == (8 * (8 + 2) + 2, 8 * (8 + 12 + 2) + 2)  # 32 pairs


def test_copied_training_images_are_nearer_than_real_ones(tmp_path):
    def copier(inputs):
        return {"image": SPLITS["train"].features[: len(inputs["z"])] / np.float32(255)}

    made = scorer()
    scored = made.score(SPLITS["test"], copier, str(tmp_path))
    assert scored.details["scores"]["nearest"]["ratio"] < 1e-3


def test_the_training_split_has_no_ruler_and_no_nearest_image(tmp_path):
    scored = scorer().score(SPLITS["train"], generator(), str(tmp_path))
    assert os.listdir(str(tmp_path)) == ["scores.json"]
    assert "place" not in scored.details["scores"] and "), " not in scored.lines[0]


def test_one_set_of_samples_has_no_interval_and_the_bootstraps_noise(tmp_path):
    scored = scorer(score_seeds=1).score(SPLITS["test"], generator(), str(tmp_path))
    assert scored.details["scores"]["frechet_distance"]["low"] is None
    assert scored.metrics["frechet_distance_noise"] > 0
    assert "95 %" not in "\n".join(scored.lines)


def test_with_pixel_features_the_histogram_is_left_out_and_few_reals_are_told(tmp_path):
    run = types.SimpleNamespace(options=options(features="pixels"), data=SPEC)
    small = {"train": SPLITS["train"], "test": split(100, seed=5)}
    scored = GanScorer(run, small.get).score(small["test"], generator(), str(tmp_path))
    text = "\n".join(scored.lines)
    assert "only 100 real images for 64 features" in text and "class lost" not in text
    assert "features pixels, F = 64" in text


def test_the_interval_of_three_values_by_hand():
    # Mean 2, deviation 1; Student's t for two degrees is 4.3027: 4.3027 / sqrt(3) = 2.4841.
    told = scoring.interval([1.0, 2.0, 3.0])
    assert told["mean"] == 2 and told["noise"] == 1
    assert told["high"] - 2 == pytest.approx(2.4841, abs=1e-4) == 2 - told["low"]


def test_a_distance_line_reads_as_in_the_reference():
    details = {
        "frechet_distance": {"mean": 4.1},
        "frechet_ratio": 12.0,
        "n": 10000,
        "m": 500,
        "place": "between a 5-tap blur and one class missing",
    }
    assert reports.distance_line(details) == (
        "FD 4.10 = 12 x floor (n = 10000, m = 500), between a 5-tap blur and one class missing"
    )


def test_numbers_keep_three_digits_without_an_exponent():
    assert [reports.short(x) for x in (123.4, 0.01234, 4, 1234.5, 0)] == [
        "123",
        "0.0123",
        "4.00",
        "1234",
        "0",
    ]


# ------------------------------------------------------------------------------------ for real


@pytest.mark.slow
def test_a_real_classifier_is_trained_kept_and_seen_by(monkeypatch, tmp_path):
    monkeypatch.setenv("TOOLKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(extractor, "STEPS", 150)
    source = str(tmp_path / "quarters.npz")
    arrays = {}
    for name, part in (("train", SPLITS["train"]), ("test", SPLITS["test"])):
        arrays["x_" + name], arrays["y_" + name] = part.features, part.labels
    np.savez(source, **arrays)
    chosen = options(data="npz:" + source, score_seeds=1)
    run = types.SimpleNamespace(options=chosen, data=SPEC)
    made = GanScorer(run, SPLITS.get)
    whole = made.score(SPLITS["test"], generator()).metrics
    lacking = made.score(SPLITS["test"], generator(classes=(0, 2, 3)))
    made.close()
    assert whole["classes_lost"] == 0 and list(lacking.lines) == ["classes lost: east"]
    assert lacking.metrics["frechet_distance"] > 3 * whole["frechet_distance"]
    assert len(os.listdir(str(tmp_path / "cache" / "features"))) == 1
    monkeypatch.setattr(toolkit, "train", None)  # a second training would fail
    GanScorer(run, SPLITS.get).close()


@pytest.mark.parametrize("summary", [None, {}, {"test": None}])
def test_a_classifier_without_a_known_accuracy_is_told_without_it(summary):
    trained = StandIn()
    trained.summary = summary
    told = reports.features_line(vars(extractor.ClassifierFeatures(trained)))
    assert told.endswith("sha256 abababababababab")


def test_a_classifier_below_99_percent_is_told_as_such():
    trained = StandIn()
    trained.summary = {"test": {"metrics": {"accuracy": 0.97}}}
    told = reports.features_line(vars(extractor.ClassifierFeatures(trained)))
    assert told.endswith("right on 97.0% of its test images (below 99 %: the scores see less)")
