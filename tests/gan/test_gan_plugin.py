"""The plugin as a whole, on small images and with narrow networks: its steps, runs and commands."""

import os
import shutil

import numpy as np
import pytest
from file_fixtures import read_json
from gan_fixtures import SMALL, TRAINED, train_digits
from run_fixtures import records

from toolkit import testing, tf
from toolkit.api import load_plugins
from toolkit.options import resolve
from toolkit.preset_choice import choose_presets
from toolkit.run_data import open_run_data
from toolkit.testing.steps import TrainingSteps

CASES = [  # each conditional form, each network, penalties of both kinds, both orders
    {"preset": "small-data"},
    {"preset": "unlabelled"},
    {"preset": "r1r2"},
    {"preset": "dcgan", "conditional": "concat"},
    {"preset": "sn-hinge", "conditional": "acgan", "update": "simultaneous"},
    {"preset": "wgan-gp", "conditional": "projection", "discriminator_steps": 2},
    {"network": "resnet", "discriminator_norm": "layer", "penalty": "wgan-gp", "loss": "minimax"},
]


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    folder = tmp_path_factory.mktemp("digits")
    return testing.write_digits(str(folder / "digits.npz"), count=160)


@pytest.fixture(scope="module")
def digits_in_memory(digits):
    plugins = load_plugins("gan")
    return open_run_data(plugins, resolve(plugins.options(), flags={"data": digits}).options)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache, and short trainings of the networks in it."""
    monkeypatch.setenv("TOOLKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("toolkit_image_scores.features.NUM_STEPS", 20)
    monkeypatch.setattr("toolkit_agreement.NUM_STEPS", 20)
    return tmp_path / "cache"


@pytest.mark.parametrize("values", CASES, ids=lambda values: "-".join(map(str, values.values())))
@pytest.mark.usefixtures("cache")
def test_two_steps_move_every_kernel_of_both_networks(digits_in_memory, values):
    plugins = load_plugins("gan")
    resolved = resolve(plugins.options(), flags=dict(SMALL, **values))
    options = choose_presets(resolved, digits_in_memory).options
    with TrainingSteps(plugins, options, digits_in_memory) as steps:
        before = steps.values()
        for _ in range(2):  # the first leaves kernels where they are that feed a layer of zeros
            losses = steps.step_and_read(steps.graph.step.losses)
        after = steps.values()
        trained = [v.op.name for v in steps.graph.tf_graph.get_collection("trainable_variables")]
    assert all(np.isfinite(value).all() for value in after.values())
    assert np.isfinite(list(losses.values())).all() and {"d_loss", "g_loss"} <= set(losses)
    kernels = [name for name in trained if name.endswith("/kernel")]
    assert {name.split("/")[0] for name in kernels} == {"discriminator", "generator"}
    assert [name for name in kernels if np.array_equal(before[name], after[name])] == []
    assert ("penalty" in losses) == (options.penalty != "none") and losses.get("penalty", 1) > 0


@pytest.fixture
def trained(cli, made_once, monkeypatch):
    """The working folder has a run `run` of four steps and its data; the summary of the run."""
    monkeypatch.chdir(made_once(train_digits))
    return read_json("run", "manifest.json")["summary"]


@pytest.mark.usefixtures("trained")
def test_neither_pictures_and_scores_nor_a_loop_and_a_resume_change_the_training():
    settings = dict(SMALL, **TRAINED, data="npz:digits.npz", evaluate="no", best_metric="none")
    for pause_at in (3, None):
        several = dict(settings, sample_steps=0, steps_per_call=2)
        testing.train("gan", "without", pause_at=pause_at, **several)
    assert testing.fingerprint("without") == testing.fingerprint("run")
    assert records("run") == records("without") and len(records("run")) == 4


def test_a_run_leaves_reals_grids_an_animation_and_scores(trained):
    steps = {f"step-{step:08d}.png" for step in (0, 2, 4)}
    assert set(os.listdir("run/samples")) == steps | {"reals.png", "progress.gif"}
    reports = os.path.join("run", trained["test"]["reports"])
    assert {"nearest.png", "scores.json"} <= set(os.listdir(reports))
    name = read_json(reports, "scores.json")["features"]["name"]
    assert name == "pixels"


def test_a_healthy_run_on_digits_has_no_verdict(tmp_path):
    run = str(tmp_path / "run")
    values = dict(SMALL, width=8, batch_size=32, latent_size=32, norm_samples=200, sample_steps=100)
    testing.train("gan", run, data="mnist5k", steps=900, evaluate="no", **values)
    assert records(run, "event") == [] and len(records(run)) == 900


def flags_of(**values):
    """Flags of the command line, of the small network with these values."""
    texts = {**SMALL, "network": "mlp", **values}
    texts.pop("two_sample")  # is off
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in texts.items()]
    return [*flags, "--no-two-sample"]


def run_saved_model(folder, **inputs):
    """Images of a SavedModel, with nothing but TensorFlow."""
    with tf.Graph().as_default(), tf.Session() as session:
        model = tf.saved_model.load(session, [tf.saved_model.tag_constants.SERVING], folder)
        (signature,) = model.signature_def.values()
        feeds = {signature.inputs[name].name: array for name, array in inputs.items()}
        return session.run(signature.outputs["image"].name, feeds)


@pytest.mark.usefixtures("trained")
def test_export_and_predict_make_the_samples_of_their_z_and_label_one_alone_as_in_its_batch(cli):
    cli.succeed("export", "run", "saved", "--json")
    cli.succeed("sample", "run", "-n", 6, "--out", "samples.npz", "--json")
    with np.load("samples.npz") as samples:
        z, label, sampled = (samples[name] for name in ("z", "label", "images"))
    many = run_saved_model("saved", z=z, label=label)
    one = run_saved_model("saved", z=z[4:5], label=label[4:5])
    assert many.shape == (6, 8, 8, 1) and many.min() >= 0 and many.max() <= 1
    assert np.abs(255 * many - sampled).max() <= 0.51
    np.testing.assert_allclose(one[0], many[4], atol=1e-6)
    np.savez("z.npz", z=z, label=label)
    assert cli("predict", "run", "z.npz", "-o", "images.npz").code == 0
    with np.load("images.npz") as file:
        np.testing.assert_allclose(file["image"], many, atol=1e-6)


def test_evaluating_again_gives_the_scores_of_the_run(cli, trained):
    report = cli("evaluate", "run", "--json").json()
    assert report["metrics"] == pytest.approx(trained["test"]["metrics"])


def test_other_data_is_scored_with_the_features_of_the_run(cli, cache):
    data = testing.write_digits("digits.npz", count=160)
    values = {"data": data, "run_dir": "run", "steps": 1, "validation_share": 0.2}
    flags = [flag for flag in flags_of(**values) if flag != "--features=pixels"]
    assert cli("run", "--plugin", "gan", *flags).code == 0
    reports = read_json("run", "manifest.json")["summary"]["test"]["reports"]
    own = read_json("run", reports, "scores.json")
    other = testing.write_digits("other.npz", count=90)
    others = cli("evaluate", "run", "--json", "--data", other).json()["details"]["scores"]
    assert others["features"] == own["features"] and own["features"]["name"] != "pixels"
    assert others["m"] == 30 and len(os.listdir(str(cache / "features"))) == 1
    assert others["ruler"] and "nearest" in others


@pytest.mark.usefixtures("trained")
def test_a_run_resumes_elsewhere_without_its_samples_with_other_scores_and_the_same_method(cli):
    shutil.rmtree("run/samples")
    os.rename("run", "moved")
    longer = ["resume", "moved", "--allow", "steps", "--steps"]
    cli.succeed(*longer, 6, "--sample-steps", 1, "--score-samples", 120)
    samples = {"reals.png", "step-00000005.png", "step-00000006.png", "progress.gif"}
    assert set(os.listdir("moved/samples")) == samples
    cli.refuse(2, "loss was hinge, now minimax", *longer, 8, "--loss", "minimax")


@pytest.mark.parametrize(
    "values, code, message",
    [
        ({"discriminator_steps": 90}, 2, "A step takes 90 batches of 8 = 720 examples"),
        ({"validation_share": 0.02}, 4, "needs 10 images or more, and the split 'validation'"),
        ({"data": "npz:vectors.npz"}, 4, "The generator makes numbers from 0 to 1"),
    ],
)
def test_a_users_mistake_is_reported_before_the_first_step(cli, digits, values, code, message):
    np.savez("vectors.npz", x_train=np.random.RandomState(0).randn(160, 6).astype(np.float32))
    flags = flags_of(**{"data": digits, "run_dir": "run", **values})
    result = cli("run", "--plugin", "gan", *flags)
    assert result.code == code and message in result.err and result.err.startswith("Error: ")
    assert result.err.count("\n") <= 2 and not os.path.exists("run")


@pytest.mark.parametrize("shape", [(6,), (8, 8, 2)])
def test_what_makes_no_picture_trains_without_grids_and_has_scores(cli, shape):
    random = np.random.RandomState(0)
    parts = {"x_train": random.rand(160, *shape), "x_test": random.rand(40, *shape)}
    np.savez("data.npz", **{name: part.astype(np.float32) for name, part in parts.items()})
    flags = flags_of(data="npz:data.npz", run_dir="run", steps=2)
    result = cli.succeed("run", "--plugin", "gan", *flags, "--json").json()
    assert not os.path.exists("run/samples")
    scores = read_json("run", result["test"]["reports"], "scores.json")
    damages = {mark["name"] for mark in scores["ruler"]}
    assert "Gaussian pixels" in damages and ("a 5-tap blur" in damages) == (len(shape) == 3)
