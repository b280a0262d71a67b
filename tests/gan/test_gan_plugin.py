"""The plugin as a whole, on small images and with narrow networks: each preset, resume, samples."""

from __future__ import annotations

import glob
import json
import os

import numpy as np
import pytest
from toolkit_gan.options import PRESETS
from toolkit_gan.scores import extractor

from toolkit import testing
from toolkit.api import load_plugins
from toolkit.run_data import open_run_data
from toolkit.storage.run_folder import RunFolder
from toolkit.testing.runs import resolve_options
from toolkit.testing.steps import TrainingSteps

SMALL = {
    "width": 4,
    "batch_size": 8,
    "latent_size": 8,
    "features": "pixels",
    "quick_samples": 100,
    "score_samples": 100,
    "score_seeds": 2,
    "two_sample": False,
    "norm_samples": 20,
    "sample_count": 9,
    "sample_steps": 2,
    "log_steps": 1,
}
FORMS = ["none", "concat", "acgan", "projection"]
PAIRS = [(network, form) for network in ("mlp", "dcgan", "resnet") for form in FORMS]
# Each network and each form at least once; the other pairs make steps in memory.
WHOLE_RUNS = [("mlp", "acgan"), ("dcgan", "concat"), ("resnet", "none"), ("resnet", "projection")]


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    folder = tmp_path_factory.mktemp("digits")
    return testing.write_digits(str(folder / "digits.npz"), count=160)


def train(folder, digits, **values):
    """Train; the folder of the run, and its summary."""
    run = str(folder)
    return run, testing.train("gan", run, data=digits, **dict(SMALL, **values))


def training_records(run):
    return [r for r in RunFolder(run).metrics.read() if r["kind"] == "train"]


def check_finite(run, steps, *names):
    """Every step up to `steps` is recorded, with finite values of these names."""
    records = training_records(run)
    assert [r["step"] for r in records] == list(range(1, steps + 1))
    for name in names:
        assert all(np.isfinite(r[name]) for r in records), name


def check_score(run):
    """The test split was scored; which measures mean something depends on the features."""
    (path,) = glob.glob(os.path.join(run, "reports", "*", "scores.json"))
    with open(path, encoding="utf-8") as file:
        assert json.load(file)["n"] == SMALL["score_samples"]


# Those that the data may choose; the papers' are slow.
CHOSEN = ("quick", "small-data", "unlabelled")
PRESET_ROWS = [
    preset if preset in CHOSEN else pytest.param(preset, marks=pytest.mark.slow)
    for preset in sorted(PRESETS)
]


@pytest.mark.parametrize("preset", PRESET_ROWS)
def test_each_preset_trains_a_few_steps_with_finite_losses_and_a_score(
    tmp_path, digits, preset, monkeypatch
):
    monkeypatch.setattr(extractor, "MIN_STEPS", 40)  # of the network that makes clusters
    run, _ = train(tmp_path / "run", digits, preset=preset, steps=3)
    names = ("d_loss", "g_loss", "critic/gradient_norm", "generator/gradient_norm")
    check_finite(run, 3, *names)
    check_score(run)
    assert all(np.isfinite(v).all() for v in testing.tensors(run).values())


@pytest.mark.slow
@pytest.mark.parametrize("network, conditional", WHOLE_RUNS)
def test_each_network_and_each_conditional_form_has_a_whole_run(
    tmp_path, digits, network, conditional
):
    values = {"network": network, "conditional": conditional, "steps": 2, "evaluate": "no"}
    run, _ = train(tmp_path / "run", digits, **values)
    check_finite(run, 2, "d_loss", "g_loss")
    assert all(np.isfinite(value).all() for value in testing.tensors(run).values())


@pytest.fixture(scope="module")
def digits_in_memory(digits):
    return open_run_data(
        load_plugins("gan"), resolve_options(load_plugins("gan"), {"data": digits})
    )


def two_steps(run_data, **values):
    """The losses of each of two steps in memory, by name."""
    plugins = load_plugins("gan")
    options = resolve_options(plugins, dict(SMALL, **values), run_data)
    with TrainingSteps(plugins, options, run_data) as steps:
        losses = [steps.step_and_read(steps.graph.losses) for _ in range(2)]
        assert all(np.isfinite(value).all() for value in steps.values().values())
    assert all(np.isfinite([each["d_loss"], each["g_loss"]]).all() for each in losses)
    return losses


@pytest.mark.slow
@pytest.mark.parametrize("network, conditional", [pair for pair in PAIRS if pair not in WHOLE_RUNS])
def test_each_network_trains_in_the_other_conditional_forms(digits_in_memory, network, conditional):
    two_steps(digits_in_memory, network=network, conditional=conditional)


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["minimax", "non-saturating", "relativistic"])
@pytest.mark.parametrize("update", ["alternating", "simultaneous"])
def test_every_loss_trains_in_both_orders(digits_in_memory, loss, update):
    two_steps(digits_in_memory, loss=loss, update=update)


@pytest.mark.slow
@pytest.mark.parametrize("penalty", ["wgan-gp", "lp", "dragan", "r1", "r1r2"])
def test_every_penalty_trains_with_a_condition_and_layer_norm(digits_in_memory, penalty):
    forms = {"conditional": "projection", "discriminator_norm": "layer"}
    penalties = [each["penalty"] for each in two_steps(digits_in_memory, penalty=penalty, **forms)]
    assert np.isfinite(penalties).all() and min(penalties) >= 0
    assert min(penalties) > 0 or penalty == "lp"  # it costs nothing for slopes below one


def test_colour_images_of_another_size_train_too(tmp_path):
    data = testing.write_digits(str(tmp_path / "colour.npz"), count=160, shape=(16, 16, 3))
    run, _ = train(tmp_path / "run", data, steps=2)
    with open(os.path.join(run, "samples", "step-00000002.png"), "rb") as file:
        assert file.read(4) == b"\x89PNG"


# ------------------------------------------------------------------------------------- exactness


@pytest.fixture(scope="module")
def with_pictures_and_scores(digits, tmp_path_factory):
    folder = tmp_path_factory.mktemp("with")
    return testing.fingerprint(train(folder / "run", digits, steps=4, checkpoint_steps=2)[0])


@pytest.mark.parametrize("values", [{"sample_steps": 0}, {"evaluate": "no"}])
def test_pictures_and_scores_do_not_change_the_training(
    tmp_path, digits, values, with_pictures_and_scores
):
    without, _ = train(tmp_path / "without", digits, steps=4, checkpoint_steps=2, **values)
    assert testing.fingerprint(without) == with_pictures_and_scores


ACGAN = {"preset": "dcgan", "update": "simultaneous", "conditional": "acgan"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "values",
    [
        {"preset": "wgan-gp", "n_critic": 2},
        ACGAN,
        {"preset": "r1r2", "network": "mlp", "accumulate": 2, "on_nonfinite": "skip"},
        {"preset": "wgan", "n_critic": 2, "schedule": "cosine", "decay_steps": 10},
    ],
    ids=lambda values: values["preset"],
)
def test_each_way_to_train_is_the_same_in_a_loop_and_after_a_resume(tmp_path, digits, values):
    settings = dict(SMALL, data=digits, evaluate="no", **values)
    testing.check_step_in_a_loop("gan", **settings)
    testing.check_resume("gan", str(tmp_path / "run"), **settings)


@pytest.mark.slow
def test_a_discriminator_that_needs_no_labels_passes_the_checks_of_inference(tmp_path, digits):
    settings = dict(SMALL, data=digits, evaluate="no", **ACGAN)
    testing.check_inference("gan", str(tmp_path / "run"), **settings)


def test_a_streamed_run_of_several_discriminator_updates_resumes_exactly(tmp_path, digits):
    # Not the default preset: its cosine is as long as the run.
    values = {"preset": "sn-hinge", "n_critic": 2, "reader": "stream", "evaluate": "no"}
    whole, _ = train(tmp_path / "whole", digits, steps=4, **values)
    halves, _ = train(tmp_path / "halves", digits, steps=2, **values)
    train(tmp_path / "halves", digits, steps=4)
    assert testing.fingerprint(whole) == testing.fingerprint(halves)


# --------------------------------------------------------------------------------------- the run


def test_a_run_leaves_reals_grids_an_animation_noise_and_scores(tmp_path, digits):
    run, summary = train(tmp_path / "run", digits, steps=4, conditional="projection")
    samples = set(os.listdir(os.path.join(run, "samples")))
    steps = {f"step-{step:08d}.png" for step in (0, 2, 4)}
    assert samples == steps | {"reals.png", "progress.gif", "noise.npz"}
    reports = os.path.join(run, summary["test"]["reports"])
    assert {"nearest.png", "scores.json"} <= set(os.listdir(reports))
    with open(os.path.join(reports, "scores.json")) as file:
        assert json.load(file)["features"]["name"] == "pixels, 4 principal components of 64"


@pytest.mark.slow
def test_a_run_trains_a_classifier_for_its_scores(tmp_path, digits, monkeypatch):
    monkeypatch.setenv("TOOLKIT_CACHE", str(tmp_path / "cache"))
    run, summary = train(
        tmp_path / "run", digits, network="mlp", steps=1, sample_steps=0, features="classifier"
    )
    (name,) = os.listdir(str(tmp_path / "cache" / "features"))
    assert name.startswith("classifier-")
    with open(os.path.join(run, summary["test"]["reports"], "scores.json")) as file:
        assert json.load(file)["features"]["name"].startswith("classifier of ")


def test_a_conditional_grid_has_a_row_per_class(tmp_path, digits):
    run, _ = train(tmp_path / "run", digits, steps=1, conditional="concat", sample_count=12)
    with np.load(os.path.join(run, "samples", "noise.npz")) as noise:
        assert noise["label"].tolist() == [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2]


def test_the_checkpoint_holds_the_average_and_no_moving_statistics(tmp_path, digits):
    run, _ = train(tmp_path / "run", digits, steps=1, evaluate="no")
    names = set(testing.tensors(run))
    averaged = {n[len("average/") :] for n in names if n.startswith("average/")}
    weights = {n[len("generator/") :] for n in names if n.startswith("generator/")}
    assert averaged == {n for n in weights if "/Adam" not in n}
    assert not [n for n in names if "moving" in n]


def test_without_an_average_samples_come_from_the_generator_itself(tmp_path, digits):
    run, _ = train(tmp_path / "run", digits, steps=2, ema=0)
    assert not [n for n in testing.tensors(run) if n.startswith("average/")]
    check_score(run)


@pytest.mark.slow
def test_a_healthy_run_on_digits_has_no_verdict(tmp_path):
    run = str(tmp_path / "run")
    values = dict(SMALL, width=8, batch_size=32, latent_size=32, norm_samples=200, sample_steps=100)
    testing.train("gan", run, data="mnist5k", steps=900, evaluate="no", **values)
    records = RunFolder(run).metrics.read()
    assert [r for r in records if r["kind"] == "event"] == []
    assert len(training_records(run)) == 900
