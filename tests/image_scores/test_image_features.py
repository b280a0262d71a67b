"""The features of the scores: pixels, a classifier's run, and the choice of features."""

import types

import numpy as np
import pytest
from file_fixtures import edit
from linear_fixtures import LINEAR
from score_fixtures import SHAPE, SPEC, SPLITS, QuarterClassifier, make_images, make_options
from toolkit_image_scores import features
from toolkit_image_scores.features import network_features, open_features, pixel_features
from toolkit_image_scores.options import ImageScoresOptions

import toolkit
from toolkit import DataError, DataSpec, Split, UsageError
from toolkit.options import map_paths


def test_pixel_features_are_means_over_cells():
    image = np.zeros((1, 16, 16, 1), np.uint8)
    image[0, :2, :2] = [[[255], [0]], [[255], [0]]]  # the mean of the first cell is 1/2
    values, labels = pixel_features((16, 16, 1)).compute(image)
    assert values.shape == (1, 64) and values.dtype == np.float32 and labels is None
    assert values[0, 0] == pytest.approx(0.5) and not values[0, 1:].any()


def test_pixels_on_the_rim_of_two_cells_count_in_shares():
    # Twelve pixels in eight cells: a cell is 1.5 pixels, 2/3 and 1/3 of its mean.
    np.testing.assert_allclose(features.cell_weights(12)[0, :3], [2 / 3, 1 / 3, 0], atol=1e-6)
    np.testing.assert_allclose(features.cell_weights(28).sum(axis=1), 1, rtol=1e-6)
    np.testing.assert_allclose(features.cell_weights(28).sum(axis=0), 8 / 28, rtol=1e-5)


def test_each_channel_has_features_of_its_own():
    pixels = pixel_features((10, 9, 3))
    image = np.zeros((2, 10, 9, 3), np.uint8)
    image[..., 1] = 255
    values, _ = pixels.compute(image)
    assert pixels.size == 8 * 8 * 3 and values.sum() == pytest.approx(2 * 64, rel=1e-5)
    assert pixels.sha256 != pixel_features((9, 10, 3)).sha256


def test_data_that_are_no_images_are_their_own_features():
    values = np.array([[0, 51, 255]], np.uint8)
    np.testing.assert_allclose(pixel_features((3,)).compute(values)[0], [[0, 0.2, 1]])


def test_a_run_gives_features_labels_and_its_hash():
    network = network_features(QuarterClassifier())
    values, labels = network.compute(make_images([2, 0]))
    assert values.shape == (2, 4) and labels.tolist() == [2, 0]
    assert network.size == 4 and network.sha256 == "ab" * 32 and network.knows_classes
    assert network.name == "classifier runs/quarters, step 700"


class TakesLatents(QuarterClassifier):
    def predict(self, inputs, batch_size=None):
        raise DataError("Inputs: expected z, found features.")


@pytest.mark.parametrize("run", [QuarterClassifier(features=False), TakesLatents()])
def test_a_run_without_features_of_images_is_refused_with_a_way_out(run):
    message = "plugin 'classifier' predicts no features of images"
    with pytest.raises(UsageError, match=message) as error:
        network_features(run)
    assert "pixels" in error.value.hint


def test_a_run_on_floats_is_fed_floats():
    images = make_images([1, 3])
    runs = [QuarterClassifier(SPEC._replace(dtype=dtype)) for dtype in ("float32", "uint8")]
    of_floats, of_bytes = (network_features(run).compute(images)[0] for run in runs)
    np.testing.assert_allclose(of_floats, of_bytes, rtol=1e-6)


@pytest.mark.parametrize(
    "name, spec, count",
    [
        ("pixels", SPEC, 400),
        ("auto", DataSpec(SHAPE, "uint8"), 31),  # too few to learn from without labels
        ("auto", DataSpec(SHAPE, "uint8"), None),
        ("auto", SPEC._replace(shape=(64,)), 400),
        ("auto", SPEC._replace(shape=(7, 9, 1)), 400),
    ],
)
def test_pixels_are_taken_by_name_and_where_no_network_can_learn(monkeypatch, name, spec, count):
    monkeypatch.setattr(toolkit, "cached_run", None, raising=True)  # a call would fail
    train = count and Split(SPLITS["train"].features[:count], SPLITS["train"].labels[:count])
    assert open_features(make_options(features=name), spec, train).name == "pixels"


@pytest.mark.parametrize(
    "test, validation, is_good",
    [
        ((0.88, 1000), None, True),
        ((0.88, 40), None, False),  # it may be 0.74 on other images
        ((0.80, 100000), None, False),  # of four equal classes, 0.85 is four fifths to 1
        ((0.86, 100000), None, True),
        (None, (0.86, 100000), True),
        ((0.66, 191), (0.99, 500), False),
        (None, None, False),  # nobody knows
    ],
)
def test_a_classifier_is_good_if_it_is_surely_far_from_chance(test, validation, is_good):
    results = [
        each and {"metrics": {"accuracy": each[0]}, "examples": each[1]}
        for each in (test, validation)
    ]
    trained = types.SimpleNamespace(summary={"test": results[0]}, validation=results[1])
    assert features.recognizes_classes(trained, SPLITS["train"]) is is_good


def test_where_most_images_are_of_one_class_a_good_classifier_is_better():
    test = {"metrics": {"accuracy": 0.95}, "examples": 5000}
    trained = types.SimpleNamespace(summary={"test": test}, validation=None)
    labels = np.repeat([0, 1], [900, 100])
    assert not features.recognizes_classes(trained, Split(None, labels))  # chance is 0.9


def test_a_run_is_opened_by_its_folder_and_has_to_fit(monkeypatch, tmp_path):
    trained = QuarterClassifier(SPEC._replace(shape=(12, 8, 1)))
    monkeypatch.setattr(toolkit, "open_trained", lambda path: trained, raising=False)
    with pytest.raises(DataError, match=r"images \[12, 8, 1\]"):
        open_features(make_options(features=str(tmp_path)), SPEC, SPLITS["train"])
    assert trained.is_closed
    trained.data = SPEC
    assert open_features(make_options(features=str(tmp_path)), SPEC).size == 4


@pytest.fixture
def cache(monkeypatch):
    """In place of `toolkit.cached_run`: the arguments of its calls, and what they return."""
    cache = types.SimpleNamespace(calls=[], trained=QuarterClassifier())

    def cached_run(plugin, options, key, text, named_by=""):
        cache.calls.append((plugin, options, key))
        assert text.endswith("(once, then cached)")
        return cache.trained

    monkeypatch.setattr(toolkit, "cached_run", cached_run, raising=True)
    return cache


def features_of(train=SPLITS["train"], **changes):
    return open_features(make_options(**changes), SPEC, train)


def test_auto_takes_a_good_classifier_and_else_a_network_without_labels(cache):
    assert features_of().name == "classifier of mnist5k"
    assert [call[0] for call in cache.calls] == ["classifier"]
    cache.trained.summary = {"test": {"metrics": {"accuracy": 0.5}, "examples": 100}}
    assert features_of().name == "self-supervised, of mnist5k"
    assert [call[0] for call in cache.calls] == ["classifier", "classifier", "agreement"]
    assert features_of(features="classifier").name == "classifier of mnist5k"  # by its name


def test_the_networks_train_on_the_same_examples_and_count_by_them(cache):
    features_of(seed=7, latent_size=99, image_size=8, label_column=["breed"])
    features_of(features="self", image_size=8, label_column=["breed"])
    for plugin, options, key in cache.calls:
        assert key == SPLITS["train"].sha256() and "latent_size" not in options
        assert options["image_size"] == 8 and options["label_column"] == ["breed"]
        assert options["data"] == "mnist5k" and options["seed"] == 1
        steps = {"classifier": 150, "agreement": 400}[plugin]
        assert (options["batch_size"], options["steps"]) == (64, steps)


def test_a_batch_has_no_more_examples_than_there_are(cache):
    few = Split(SPLITS["train"].features[:40], SPLITS["train"].labels[:40])
    features_of(few, features="classifier")
    features_of(few, features="self")
    assert [options["batch_size"] for _, options, _ in cache.calls] == [40, 40]


STRANGER = "import os\nopen(os.path.join(os.path.dirname(__file__), 'executed'), 'w').close()\n"


def test_code_that_the_run_of_the_features_names_is_not_executed(trained):
    run = trained / "run"
    (run / "stranger.py").write_text(STRANGER)
    edit(run / "config.json", LINEAR, "./stranger.py")
    with pytest.raises(UsageError, match=r"config.json names the plugin '.*stranger.py', code"):
        open_features(make_options(features=str(run)), SPEC)
    assert not (run / "executed").exists()


@pytest.mark.parametrize("value, path", [("runs/a", "X/runs/a"), ("auto", "auto")])
def test_features_that_name_a_run_are_a_path(value, path):
    assert map_paths(ImageScoresOptions, "features", value, lambda text: "X/" + text) == path
