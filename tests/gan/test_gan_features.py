"""The features of the scores: pixels, a classifier's run, and the cache of classifiers."""

from __future__ import annotations

import glob
import json
import os
import shutil

import numpy as np
import pytest
from gan_fixtures import options as gan_options
from score_fixtures import (
    SHAPE,
    SPEC,
    SPLITS,
    QuarterClassifier,
    make_images,
    make_options,
    make_split,
    write_quarters,
)
from toolkit_gan.scores import extractor
from toolkit_gan.scores.extractor import NetworkFeatures, PixelFeatures, open_features

import toolkit
from toolkit import CheckpointError, DataError, DataSpec, InterruptedRun, Split, UsageError
from toolkit.options import CoreOptions
from toolkit.storage.run_folder import RunFolder

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
    assert features.labels(image) is None
    assert features.sha256 != PixelFeatures((9, 10, 3)).sha256


def test_data_that_are_no_images_are_their_own_features():
    values = np.array([[0, 51, 255]], np.uint8)
    np.testing.assert_allclose(PixelFeatures((3,))(values), [[0, 0.2, 1]])


# ---------------------------------------------------------------------------- classifier features


def test_a_run_gives_features_labels_and_its_hash():
    features = NetworkFeatures(QuarterClassifier())
    images = make_images([2, 0])
    assert features(images).shape == (2, 4) and features.labels(images).tolist() == [2, 0]
    assert features.size == 4 and features.sha256 == "ab" * 32
    assert features.name == "classifier runs/quarters, step 700"


def test_a_run_without_a_test_has_the_accuracy_of_its_validation():
    trained = QuarterClassifier()
    trained.summary = {"test": None}
    trained.validation = {"metrics": {"accuracy": 0.75}, "examples": 40}
    features = NetworkFeatures(trained)
    assert features.accuracy is None and features.num_test_images == 0
    assert (features.validation_accuracy, features.num_validation_images) == (0.75, 40)


def test_a_run_without_features_is_refused_with_a_way_out():
    with pytest.raises(UsageError, match="predicts label, probability, and no features") as error:
        NetworkFeatures(QuarterClassifier(features=False))
    assert "pixels" in error.value.hint


def test_a_run_that_takes_no_images_has_no_features(monkeypatch):
    def predict(self, inputs, batch_size=None):
        raise DataError("Inputs: expected z, found features.")

    monkeypatch.setattr(QuarterClassifier, "predict", predict)
    with pytest.raises(UsageError, match="plugin 'classifier' predicts from other inputs than im"):
        NetworkFeatures(QuarterClassifier())


def test_a_run_on_images_of_another_shape_is_refused():
    with pytest.raises(DataError, match=r"are of images \[8, 8, 1\], but these are \[9, 8, 1\]"):
        NetworkFeatures(QuarterClassifier())(np.zeros((2, 9, 8, 1), np.uint8))


def test_a_run_on_floats_is_fed_floats():
    images = make_images([1, 3])
    of_floats, of_bytes = (
        NetworkFeatures(QuarterClassifier(SPEC._replace(dtype=dtype)))(images)
        for dtype in ("float32", "uint8")
    )
    np.testing.assert_allclose(of_floats, of_bytes, rtol=1e-6)


# ------------------------------------------------------------------------------------- the choice


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
    monkeypatch.setattr(toolkit, "train", None, raising=False)  # a call would fail
    train = count and Split(SPLITS["train"].features[:count], SPLITS["train"].labels[:count])
    assert open_features(make_options(features=name), spec, train).name == "pixels"


@pytest.mark.parametrize("name", ["self", "classifier"])
def test_features_by_name_that_the_data_does_not_allow_are_refused(name):
    with pytest.raises(
        UsageError, match=rf"features '{name}' need .* data has 400 examples \[64\]"
    ):
        open_features(make_options(features=name), SPEC._replace(shape=(64,)), SPLITS["train"])


@pytest.mark.parametrize(
    "test, validation, is_chosen, is_good",
    [
        ((0.99, 500), None, False, True),  # digits
        ((0.66, 191), None, False, False),  # icons in nine folders
        ((0.66, 191), None, True, False),
        ((0.88, 1000), None, False, True),
        ((0.88, 40), None, False, False),  # it may be 0.74 on other images
        ((0.80, 100000), None, False, False),  # of four equal classes, 0.85 is four fifths to 1
        ((0.86, 100000), None, False, True),
        (None, (0.86, 100000), False, True),
        (None, (0.66, 191), False, False),
        ((0.66, 191), (0.99, 500), False, False),
        (None, None, False, False),  # nobody knows
        (None, None, True, True),  # a plugin that the user chose may measure something else
    ],
)
def test_a_classifier_is_good_if_it_is_surely_far_from_chance(test, validation, is_chosen, is_good):
    features = extractor.Features()
    features.accuracy, features.num_test_images = test or (None, 0)
    features.validation_accuracy, features.num_validation_images = validation or (None, 0)
    assert extractor.recognizes_classes(features, SPLITS["train"], is_chosen) is is_good


def test_where_most_images_are_of_one_class_a_good_classifier_is_better():
    features = extractor.Features()
    features.accuracy, features.num_test_images = 0.95, 5000
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
    """The folder of a small classifier, trained on the quarters."""
    folder = tmp_path_factory.mktemp("classifier")
    settings = {"data": write_quarters(folder), "network": "mlp", "steps": 60}
    toolkit.train("classifier", str(folder / "run"), settings)
    return str(folder / "run")


class Cache:
    """An empty cache. To train a classifier, a copy of a run that was trained before is made.

    Attributes:
        trainings: (plugin, options) of each training.
        after_training: called with the folder of each.
    """

    def __init__(self, monkeypatch, folder, run):
        self.trainings = []
        self.folder = str(folder / "features")
        self._run, self.after_training = run, lambda run_dir: None
        monkeypatch.setattr(toolkit, "cache_folder", lambda: str(folder))
        monkeypatch.setattr(toolkit, "train", self.train)

    def train(self, plugin, run_dir, options, say, named_by):
        shutil.copytree(self._run, run_dir)
        self.trainings.append((plugin, options))
        self.after_training(run_dir)

    def features(self, train=SPLITS["train"], **changes):
        features = open_features(make_options(**changes), SPEC, train)
        features.close()
        return features


@pytest.fixture
def cache(monkeypatch, tmp_path, classifier_run):
    return Cache(monkeypatch, tmp_path, classifier_run)


def add_entries(folder, **entries):
    """Let the commit log of a run have these entries, too."""
    log = RunFolder(folder).commits
    for kind, values in entries.items():
        log.add(kind, **values)


def test_auto_trains_a_classifier_once_and_then_finds_it(cache):
    first, again = cache.features(), cache.features()
    (name,) = os.listdir(cache.folder)
    assert name.startswith("classifier-") and len(cache.trainings) == 1
    assert first.name == again.name == "classifier of mnist5k"
    assert first.sha256 == again.sha256 and first.knows_classes and first.accuracy > 0.5


@pytest.mark.parametrize(
    "plugin, last, is_refused",
    [("classifier", False, True), ("classifier", True, False), ("mine", False, False)],
)
def test_auto_refuses_a_classifier_of_unknown_accuracy_that_nobody_chose(
    cache, plugin, last, is_refused
):
    def forget_test(run_dir):
        known = {"step": 60, "metrics": {"accuracy": 0.99}, "examples": 500}
        validation = {"last": known, "best": None} if last else None
        evaluated = {"best": None, "validation": validation}
        add_entries(run_dir, evaluated=evaluated, end={"summary": {}})

    cache.after_training = forget_test
    few = Split(SPLITS["train"].features[:31], SPLITS["train"].labels[:31])  # too few for `self`
    assert (cache.features(few, features_plugin=plugin).name == "pixels") is is_refused
    name = cache.features(few, features_plugin=plugin, features="classifier").name
    assert name == f"{plugin} of mnist5k"  # chosen by its name


def test_other_data_another_size_or_another_plugin_have_their_own_classifier(cache):
    cache.features()
    cache.features(seed=7, latent_size=99)  # which are the GAN's alone
    assert len(cache.trainings) == 1 and "latent_size" not in cache.trainings[0][1]
    cache.features(train=make_split(400, seed=9))
    cache.features(image_size=8)
    cache.features(features_plugin="mine")
    assert len(os.listdir(cache.folder)) == len(cache.trainings) == 4
    assert cache.trainings[3][0] == "mine" and cache.trainings[2][1]["image_size"] == 8


def test_small_data_is_trained_on_for_1600_steps_and_full_mnist_for_three_epochs():
    # 4000 examples are 62.5 batches of 64.
    for count, epochs in {4000: 25.6, 54000: 3, 600000: 0.3}.items():
        assert extractor.training_options(make_options(), count)["epochs"] == epochs
    assert extractor.training_options(make_options(), 10)["batch_size"] == 10


def test_the_defaults_of_options_that_the_features_know_are_those_of_the_options():
    assert gan_options().features_plugin == extractor.DEFAULT_PLUGIN
    fields = CoreOptions.model_fields
    assert {n: fields[n].default for n in extractor.COLUMN_OPTIONS} == extractor.COLUMN_OPTIONS


def test_the_columns_of_a_table_that_were_chosen_are_those_of_the_classifier():
    plain = extractor.training_options(make_options(), 4000)
    defaults = dict(extractor.COLUMN_OPTIONS)
    assert extractor.training_options(make_options(**defaults), 4000) == plain
    chosen = {"label_column": ["breed"], "ignore_columns": ["split"], "split_column": "none"}
    values = extractor.training_options(make_options(**dict(defaults, **chosen)), 4000)
    assert values == dict(plain, **chosen)


def test_a_training_that_fails_leaves_nothing(cache):
    def fail(run_dir):
        raise KeyboardInterrupt

    cache.after_training = fail
    with pytest.raises(KeyboardInterrupt):
        cache.features()
    assert os.listdir(cache.folder) == []


@pytest.mark.parametrize("signum", [2, 15])
def test_an_interrupted_training_does_not_name_its_deleted_folder(cache, signum):
    def interrupt(run_dir):
        message, hint = f"Step 2 is saved in {run_dir}.", f"Continue with: toolkit resume {run_dir}"
        raise InterruptedRun(message, hint=hint, signum=signum)

    cache.after_training = interrupt
    with pytest.raises(InterruptedRun) as raised:
        cache.features()
    assert cache.folder not in str(raised.value) + raised.value.hint
    assert "the network of the features was trained; it is not saved" in raised.value.message
    assert raised.value.exit_code == 128 + signum and os.listdir(cache.folder) == []


def test_of_two_trainings_at_once_both_use_the_first_to_end(cache):
    def finish_another(run_dir):
        if len(cache.trainings) == 1:
            cache.features()  # another process, which finishes before us
            os.remove(os.path.join(run_dir, "commits.jsonl"))  # ours could not be opened

    cache.after_training = finish_another
    assert cache.features().size > 1
    assert len(cache.trainings) == 2 and len(os.listdir(cache.folder)) == 1


def test_a_training_that_was_killed_long_ago_is_removed(cache):
    for name in (".making-old", ".making-new"):
        os.makedirs(os.path.join(cache.folder, name))
    os.utime(os.path.join(cache.folder, ".making-old"), (0, 0))
    cache.features()
    hidden = [name for name in os.listdir(cache.folder) if name[0] == "."]
    assert hidden == [".making-new"]


def interrupt_training(folder):
    add_entries(folder, end={"summary": None, "status": "interrupted"})


def damage_checkpoint(folder):
    for path in glob.glob(os.path.join(folder, "checkpoints", "*.data-*")):
        os.truncate(path, 100)


@pytest.mark.parametrize("damage", [interrupt_training, damage_checkpoint])
def test_half_or_damaged_a_classifier_of_the_cache_is_refused_with_its_folder(cache, damage):
    cache.features()
    (folder,) = glob.glob(os.path.join(cache.folder, "*"))
    damage(folder)
    with pytest.raises(CheckpointError) as raised:
        cache.features()
    assert f"Delete {folder}; it will be trained again." in raised.value.hint


# --------------------------------------------------------------------------- code of a stranger

STRANGER = "import os\nopen(os.path.join(os.path.dirname(__file__), 'executed'), 'w').close()\n"


def test_code_that_the_run_of_the_features_names_is_not_executed(tmp_path, classifier_run):
    run = tmp_path / "run"
    shutil.copytree(classifier_run, str(run))
    (run / "stranger.py").write_text(STRANGER)
    config = json.loads((run / "config.json").read_text())
    (run / "config.json").write_text(json.dumps(dict(config, plugin="./stranger.py")))
    with pytest.raises(UsageError, match=r"config.json names the plugin '.*stranger.py', code"):
        open_features(make_options(features=str(run)), SPEC)
    assert not (run / "executed").exists()


def test_a_plugin_file_that_options_name_for_the_features_is_not_executed(monkeypatch, tmp_path):
    """The options may be those of a stranger's run."""
    (tmp_path / "stranger.py").write_text(STRANGER)
    monkeypatch.setattr(toolkit, "cache_folder", lambda: str(tmp_path / "a" / "b" / "cache"))
    options = make_options(features_plugin=str(tmp_path / "stranger.py"))
    with pytest.raises(UsageError, match="option features_plugin names the plugin '.*stranger.py'"):
        open_features(options, SPEC, SPLITS["train"])
    assert sorted(os.listdir(str(tmp_path))) == ["a", "stranger.py"]
    assert os.listdir(str(tmp_path / "a" / "b" / "cache" / "features")) == []


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
    cache.features(features_plugin=f"../{tmp_path.name}/mine.py")
    assert len(cache.trainings) == 2
    assert all(name.startswith("mine.py-") for name in os.listdir(cache.folder))
