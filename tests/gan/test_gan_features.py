"""The features of the scores: pixels, a classifier's run, and the cache of classifiers."""

from __future__ import annotations

import ast
import glob
import json
import os
import shutil
import types

import numpy as np
import pytest
import toolkit_gan.scores
from gan_fixtures import options as gan_options
from score_fixtures import (
    SHAPE,
    SPEC,
    SPLITS,
    QuarterClassifier,
    make_images,
    make_options,
    make_split,
)
from toolkit_gan.scores import extractor
from toolkit_gan.scores.extractor import NetworkFeatures, PixelFeatures, open_features
from toolkit_gan.scores.scorer import GanScorer

import toolkit
from toolkit import CheckpointError, DataError, DataSpec, InterruptedRun, Split, UsageError
from toolkit.options import CoreOptions

# --------------------------------------------------------------------------------- pixel features


def test_pixel_features_are_means_over_cells():
    image = np.zeros((1, 16, 16, 1), np.uint8)
    image[0, :2, :2] = [[[255], [0]], [[255], [0]]]  # the mean of the first cell is 1/2
    features = PixelFeatures((16, 16, 1))(image)
    assert features.shape == (1, 64) and features.dtype == np.float32
    assert features[0, 0] == pytest.approx(0.5) and not features[0, 1:].any()


def test_pixels_on_the_rim_of_two_cells_count_in_shares():
    # Twelve pixels in eight cells: a cell is 1.5 pixels, 2/3 and 1/3 of its mean.
    np.testing.assert_allclose(extractor.cell_weights(12)[0, :3], [2 / 3, 1 / 3, 0], atol=1e-6)
    np.testing.assert_allclose(extractor.cell_weights(28).sum(axis=1), 1, rtol=1e-6)
    np.testing.assert_allclose(extractor.cell_weights(28).sum(axis=0), 8 / 28, rtol=1e-5)


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
    features = NetworkFeatures(QuarterClassifier())
    images = make_images([2, 0])
    assert features(images).shape == (2, 4) and features.labels(images).tolist() == [2, 0]
    assert features.size == 4 and features.sha256 == "ab" * 32
    assert features.name == "classifier runs/quarters, step 700"


def test_the_accuracy_of_the_validation_is_that_of_the_opened_step():
    trained = QuarterClassifier()  # its step is 700
    results = {
        name: {"step": step, "metrics": {"accuracy": accuracy}, "examples": 40}
        for name, step, accuracy in [("last", 900, 0.5), ("best", 700, 0.75)]
    }
    trained.summary, trained.manifest = {"test": None}, {"validation": results}
    features = NetworkFeatures(trained)
    assert features.accuracy is None and features.num_test_images == 0
    assert (features.validation_accuracy, features.num_validation_images) == (0.75, 40)
    trained.manifest = {"validation": {"last": results["last"], "best": None}}
    assert NetworkFeatures(trained).validation_accuracy is None


def test_closing_features_closes_their_run():
    trained = QuarterClassifier()
    NetworkFeatures(trained).close()
    assert trained.is_closed


def test_a_run_without_features_is_refused_with_a_way_out():
    with pytest.raises(UsageError, match="predicts label, probability, and no features") as error:
        NetworkFeatures(QuarterClassifier(features=False))
    assert "pixels" in error.value.hint


def test_a_run_that_takes_no_images_has_no_features():
    def predict(inputs, batch_size=None):
        raise DataError("Inputs: expected z, found features.")

    generator_run = QuarterClassifier()
    generator_run.predict, generator_run.plugin = predict, "gan"
    with pytest.raises(UsageError, match="plugin 'gan' predicts from other inputs than images"):
        NetworkFeatures(generator_run)


def test_a_run_on_images_of_another_shape_is_refused():
    with pytest.raises(DataError, match=r"are of images \[8, 8, 1\], but these are \[9, 8, 1\]"):
        NetworkFeatures(QuarterClassifier())(np.zeros((2, 9, 8, 1), np.uint8))


def test_a_run_on_floats_is_fed_floats():
    images = make_images([1, 3])
    of_floats = NetworkFeatures(QuarterClassifier(SPEC._replace(dtype="float32")))
    np.testing.assert_allclose(
        of_floats(images), NetworkFeatures(QuarterClassifier())(images), rtol=1e-6
    )


# ------------------------------------------------------------------------------------- the choice


def test_pixels_are_taken_by_name_and_where_no_network_can_learn(monkeypatch):
    monkeypatch.setattr(toolkit, "train", None, raising=False)  # a call would fail
    train = SPLITS["train"]
    few = Split(train.features[:31], None)  # too few to learn from without labels
    assert open_features(make_options(features="pixels"), SPEC, train).name == "pixels"
    assert open_features(make_options(), DataSpec(SHAPE, "uint8"), few).name == "pixels"
    assert open_features(make_options(), DataSpec(SHAPE, "uint8")).name == "pixels"
    assert open_features(make_options(), SPEC._replace(shape=(64,)), train).name == "pixels"
    assert open_features(make_options(), SPEC._replace(shape=(7, 9, 1)), train).name == "pixels"


def make_accuracy(accuracy, num_images, split="test"):
    """Features whose accuracy on a split is known."""
    features = extractor.Features()
    if split == "test":
        features.accuracy, features.num_test_images = accuracy, num_images
    else:
        features.validation_accuracy, features.num_validation_images = accuracy, num_images
    return features


@pytest.mark.parametrize("name", ["self", "classifier"])
def test_features_by_name_that_the_data_does_not_allow_are_refused(name):
    with pytest.raises(
        UsageError, match=rf"features '{name}' need .* data has 400 examples \[64\]"
    ):
        open_features(make_options(features=name), SPEC._replace(shape=(64,)), SPLITS["train"])


@pytest.mark.parametrize(
    "accuracy, num_images, is_good",
    [
        (0.99, 500, True),  # digits
        (0.66, 191, False),  # icons in nine folders
        (0.88, 1000, True),
        (0.88, 40, False),  # it may be 0.74 on other images
        (0.80, 100000, False),  # of four equal classes, 0.85 is four fifths of the way to 1
        (0.86, 100000, True),
        (None, 0, False),  # nobody knows
    ],
)
@pytest.mark.parametrize("split", ["test", "validation"])
def test_a_classifier_is_good_if_it_is_surely_far_from_chance(accuracy, num_images, is_good, split):
    features = make_accuracy(accuracy, num_images, split)
    assert extractor.recognizes_classes(features, SPLITS["train"]) is is_good


def test_the_accuracy_of_the_test_counts_before_that_of_the_validation():
    features = make_accuracy(0.66, 191)
    features.validation_accuracy, features.num_validation_images = 0.99, 500
    assert not extractor.recognizes_classes(features, SPLITS["train"])


@pytest.mark.parametrize("accuracy, is_good", [(None, True), (0.66, False)])
def test_a_plugin_that_the_user_chose_may_measure_something_else(accuracy, is_good):
    features = make_accuracy(accuracy, 191)
    assert extractor.recognizes_classes(features, SPLITS["train"], is_chosen=True) is is_good


def test_the_plugin_that_nobody_chose_is_the_default_of_its_option():
    assert gan_options().features_plugin == extractor.DEFAULT_PLUGIN


def test_where_most_images_are_of_one_class_a_good_classifier_is_better():
    features = make_accuracy(0.95, 5000)
    labels = np.repeat([0, 1], [900, 100])
    assert not extractor.recognizes_classes(features, Split(None, labels))  # chance is 0.9


def test_a_run_that_is_not_there_is_a_users_mistake():
    with pytest.raises(UsageError, match="no run at 'nowhere'"):
        open_features(make_options(features="nowhere"), SPEC, SPLITS["train"])


def test_a_run_is_opened_by_its_folder_and_closed_when_it_does_not_fit(monkeypatch, tmp_path):
    trained = QuarterClassifier(SPEC._replace(shape=(12, 8, 1)))
    monkeypatch.setattr(toolkit, "open_trained", lambda path: trained, raising=False)
    with pytest.raises(DataError, match=r"images \[12, 8, 1\]"):
        open_features(make_options(features=str(tmp_path)), SPEC, SPLITS["train"])
    assert trained.is_closed
    trained.data = SPEC
    assert open_features(make_options(features=str(tmp_path)), SPEC).size == 4


@pytest.fixture(scope="module")
def classifier_run(tmp_path_factory):
    """The folder of a small classifier, trained on the quarters, and the data's source."""
    folder = tmp_path_factory.mktemp("classifier")
    source = str(folder / "quarters.npz")
    arrays = {}
    for name, part in SPLITS.items():
        arrays["x_" + name], arrays["y_" + name] = part.features, part.labels
    np.savez(source, **arrays)
    settings = {"data": "npz:" + source, "network": "mlp", "steps": 60}
    toolkit.train("classifier", str(folder / "run"), settings)
    return str(folder / "run"), "npz:" + source


class Cache:
    """An empty cache. To train a classifier, a copy of a run that was trained before is made.

    Attributes:
        trainings: (plugin, options) of each training.
        after_training: called with the folder of each.
        log: what was logged.
    """

    def __init__(self, monkeypatch, folder, run, after_training=lambda run_dir: None):
        self.trainings, self.log = [], []
        self.folder = str(folder / "features")
        self._run, self.after_training = run, after_training
        monkeypatch.setattr(toolkit, "cache_folder", lambda: str(folder))
        monkeypatch.setattr(toolkit, "train", self.train)

    def train(self, plugin, run_dir, options, named_by):
        shutil.copytree(self._run, run_dir)
        self.trainings.append((plugin, options))
        self.after_training(run_dir)

    def features(self, train=SPLITS["train"], **changes):
        features = open_features(make_options(**changes), SPEC, train, self.log.append)
        features.close()
        return features


@pytest.fixture
def cache(monkeypatch, tmp_path, classifier_run):
    return Cache(monkeypatch, tmp_path, classifier_run[0])


def test_auto_trains_a_classifier_once_and_then_finds_it(cache):
    first, again = cache.features(), cache.features()
    (name,) = os.listdir(cache.folder)
    assert name.startswith("classifier-") and len(cache.trainings) == 1
    assert first.name == again.name == "classifier of mnist5k"
    assert first.sha256 == again.sha256 and first.knows_classes and first.accuracy > 0.5
    assert cache.log == ["Training a classifier on mnist5k for the scores (once, then cached)."]


@pytest.mark.parametrize(
    "plugin, last", [("classifier", False), ("classifier", True), ("mine", False)]
)
def test_auto_refuses_a_classifier_of_unknown_accuracy_that_nobody_chose(cache, plugin, last):
    def forget_test(run_dir):
        path = os.path.join(run_dir, "manifest.json")
        with open(path, encoding="utf-8") as file:
            manifest = json.load(file)
        manifest["summary"]["test"] = None
        validation = {"step": 60, "metrics": {"accuracy": 0.99}, "examples": 500}
        manifest["validation"] = {"last": validation, "best": None} if last else None
        with open(path, "w", encoding="utf-8") as file:
            json.dump(manifest, file)

    cache.after_training = forget_test
    few = Split(SPLITS["train"].features[:31], SPLITS["train"].labels[:31])  # too few for `self`
    is_refused = cache.features(few, features_plugin=plugin).name == "pixels"
    assert is_refused is (plugin == "classifier" and not last)
    name = cache.features(few, features_plugin=plugin, features="classifier").name
    assert name == f"{plugin} of mnist5k"  # chosen by its name


def test_other_data_another_size_or_another_plugin_have_their_own_classifier(cache):
    cache.features()
    cache.features(train=make_split(400, seed=9))
    cache.features(image_size=8)
    cache.features(features_plugin="mine")
    assert len(os.listdir(cache.folder)) == len(cache.trainings) == 4
    assert cache.trainings[3][0] == "mine" and cache.trainings[2][1]["image_size"] == 8


def test_the_classifier_does_not_depend_on_the_seed_and_the_method_of_the_gan(cache):
    cache.features()
    cache.features(seed=7, latent_size=99)
    assert len(cache.trainings) == 1 and "latent_size" not in cache.trainings[0][1]


def test_small_data_is_trained_on_for_1600_steps_and_full_mnist_for_three_epochs():
    # 4000 examples are 62.5 batches of 64.
    assert extractor.training_options(make_options(), 4000)["epochs"] == 25.6
    assert extractor.training_options(make_options(), 54000)["epochs"] == 3
    assert extractor.training_options(make_options(), 600000)["epochs"] == 0.3


def test_the_columns_of_a_table_that_were_chosen_are_those_of_the_classifier():
    plain = extractor.training_options(make_options(), 4000)
    defaults = dict(extractor.COLUMN_OPTIONS)
    assert extractor.training_options(make_options(**defaults), 4000) == plain
    chosen = {"label_column": ["breed"], "ignore_columns": ["split"], "split_column": "none"}
    values = extractor.training_options(make_options(**dict(defaults, **chosen)), 4000)
    assert values == dict(plain, **chosen)


def test_the_defaults_of_the_columns_are_those_of_the_core():
    fields = CoreOptions.model_fields
    assert {n: fields[n].default for n in extractor.COLUMN_OPTIONS} == extractor.COLUMN_OPTIONS


def test_a_batch_has_no_more_images_than_the_data():
    assert extractor.training_options(make_options(), 10)["batch_size"] == 10


def test_a_training_that_fails_leaves_nothing(monkeypatch, tmp_path, classifier_run):
    def fail(run_dir):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Cache(monkeypatch, tmp_path, classifier_run[0], fail).features()
    assert os.listdir(str(tmp_path / "features")) == []


@pytest.mark.parametrize("signum", [2, 15])
def test_an_interrupted_training_does_not_name_its_deleted_folder(
    monkeypatch, tmp_path, classifier_run, signum
):
    def interrupt(run_dir):
        message = f"Interrupted; step 2 is saved in {run_dir}."
        raise InterruptedRun(
            message, hint=f"Continue with: toolkit resume {run_dir}", signum=signum
        )

    with pytest.raises(InterruptedRun) as raised:
        Cache(monkeypatch, tmp_path, classifier_run[0], interrupt).features()
    assert str(tmp_path) not in str(raised.value) + raised.value.hint
    assert "the network of the features was trained; it is not saved" in raised.value.message
    assert raised.value.exit_code == 128 + signum
    assert os.listdir(str(tmp_path / "features")) == []


def test_of_two_trainings_at_once_both_use_the_first_to_end(monkeypatch, tmp_path, classifier_run):
    def finish_another(run_dir):
        if len(cache.trainings) == 1:
            cache.features()  # another process, which finishes before us
            os.remove(os.path.join(run_dir, "manifest.json"))  # ours could not be opened

    cache = Cache(monkeypatch, tmp_path, classifier_run[0], finish_another)
    assert cache.features().size > 1
    assert len(cache.trainings) == 2 and len(os.listdir(cache.folder)) == 1


def test_a_training_that_was_killed_long_ago_is_removed(cache):
    for name in (".making-old", ".making-new"):
        os.makedirs(os.path.join(cache.folder, name))
    os.utime(os.path.join(cache.folder, ".making-old"), (0, 0))
    cache.features()
    hidden = [name for name in os.listdir(cache.folder) if name[0] == "."]
    assert hidden == [".making-new"]


def test_half_a_training_in_the_cache_is_refused_with_its_folder(cache):
    cache.features()
    (folder,) = glob.glob(os.path.join(cache.folder, "*"))
    path = os.path.join(folder, "manifest.json")
    with open(path, encoding="utf-8") as file:
        manifest = json.load(file)
    manifest["summary"], manifest["status"] = None, "interrupted"
    with open(path, "w", encoding="utf-8") as file:
        json.dump(manifest, file)
    with pytest.raises(CheckpointError, match="is not trained to its end") as raised:
        cache.features()
    assert raised.value.hint == f"Delete {folder}; it will be trained again."


def test_a_damaged_classifier_in_the_cache_is_reported_with_its_folder(cache):
    cache.features()
    for path in glob.glob(os.path.join(cache.folder, "*", "checkpoints", "*.data-*")):
        os.truncate(path, 100)
    with pytest.raises(CheckpointError, match="Delete .*features.classifier-"):
        cache.features()


# --------------------------------------------------------------------------- code of a stranger

STRANGER = "import os\nopen(os.path.join(os.path.dirname(__file__), 'executed'), 'w').close()\n"


def test_code_that_the_run_of_the_features_names_is_not_executed(tmp_path, classifier_run):
    shutil.copytree(classifier_run[0], str(tmp_path / "run"))
    (tmp_path / "run" / "stranger.py").write_text(STRANGER)
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    (tmp_path / "run" / "config.json").write_text(json.dumps(dict(config, plugin="./stranger.py")))
    with pytest.raises(UsageError, match=r"config.json names the plugin '.*stranger.py', code"):
        open_features(make_options(features=str(tmp_path / "run")), SPEC)
    assert not (tmp_path / "run" / "executed").exists()


def test_a_plugin_file_that_options_name_for_the_features_is_not_executed(monkeypatch, tmp_path):
    """The options may be those of a stranger's run."""
    (tmp_path / "stranger.py").write_text(STRANGER)
    monkeypatch.setattr(toolkit, "cache_folder", lambda: str(tmp_path / "a" / "b" / "cache"))
    options = make_options(features_plugin=str(tmp_path / "stranger.py"))
    with pytest.raises(UsageError, match="option features_plugin names the plugin '.*stranger.py'"):
        open_features(options, SPEC, SPLITS["train"], lambda text: None)
    assert sorted(os.listdir(str(tmp_path))) == ["a", "stranger.py"]
    assert os.listdir(str(tmp_path / "a" / "b" / "cache" / "features")) == []


def test_the_cached_features_of_a_plugin_file_are_in_the_cache(cache):
    cache.features(features_plugin="../../../mine.py")
    (name,) = os.listdir(cache.folder)
    assert name.startswith("mine.py-")


def test_the_same_data_and_plugin_file_by_another_path_have_one_classifier(
    cache, tmp_path, monkeypatch
):
    (tmp_path / "mine.py").write_text("1")
    monkeypatch.chdir(tmp_path)
    for data in ("npz:a.npz", "npz:./a.npz"):
        for plugin in ("mine.py", "./mine.py", str(tmp_path / "mine.py")):
            cache.features(data=data, features_plugin=plugin)
    assert len(cache.trainings) == 1
    (tmp_path / "mine.py").write_text("2")  # other code has other features
    cache.features(features_plugin="mine.py")
    assert len(cache.trainings) == 2


# ------------------------------------------------------------------------------------- imports


def test_no_function_of_the_scores_imports_tensorflow_later():
    for path in glob.glob(os.path.join(os.path.dirname(toolkit_gan.scores.__file__), "*.py")):
        if os.path.basename(path) == "two_sample_network.py":
            continue  # a graph of its own, imported when the test is made
        with open(path, encoding="utf-8") as file:
            nodes = list(ast.walk(ast.parse(file.read())))
        imports = [n for n in nodes if isinstance(n, (ast.Import, ast.ImportFrom))]
        names = {alias.name.split(".")[0] for n in imports for alias in n.names}
        modules = {(n.module or "").split(".")[0] for n in imports if isinstance(n, ast.ImportFrom)}
        assert not {"tf", "tensorflow"} & (names | modules), path


# ------------------------------------------------------------------------------- a real training


def test_a_classifier_is_trained_cached_and_used_for_the_scores(
    monkeypatch, tmp_path, classifier_run
):
    monkeypatch.setenv("TOOLKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(extractor, "MIN_STEPS", 150)
    settings = make_options(data=classifier_run[1], score_seeds=1)
    run = types.SimpleNamespace(options=settings, data=SPEC)
    scorer = GanScorer(run, SPLITS.get)

    def generate(classes):
        labels = np.array(classes)[np.arange(200) % len(classes)]
        return lambda inputs: {"image": make_images(labels, seed=3) / np.float32(255)}

    complete = scorer.score(SPLITS["test"], generate((0, 1, 2, 3))).metrics
    lacking = scorer.score(SPLITS["test"], generate((0, 2, 3)))
    scorer.close()
    assert complete["classes_lost"] == 0
    assert list(lacking.lines) == ["classes lost (below a tenth of their share): east"]
    assert lacking.metrics["frechet_distance"] > 3 * complete["frechet_distance"]
    assert len(os.listdir(str(tmp_path / "cache" / "features"))) == 1
    monkeypatch.setattr(toolkit, "train", None)  # a second training would fail
    GanScorer(run, SPLITS.get).close()
