"""The plugin as a whole, on small images and with narrow networks: each preset, resume, samples."""

from __future__ import annotations

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
# Each network with each conditional form; beside them each loss in both orders, each penalty twice.
CASES = [
    ("mlp", "none", "minimax", "alternating", "none"),
    ("mlp", "concat", "minimax", "simultaneous", "wgan-gp"),
    ("mlp", "acgan", "non-saturating", "alternating", "lp"),
    ("mlp", "projection", "non-saturating", "simultaneous", "dragan"),
    ("dcgan", "none", "relativistic", "alternating", "r1"),
    ("dcgan", "concat", "relativistic", "simultaneous", "r1r2"),
    ("dcgan", "acgan", "minimax", "alternating", "none"),
    ("dcgan", "projection", "minimax", "simultaneous", "wgan-gp"),
    ("resnet", "none", "non-saturating", "alternating", "lp"),
    ("resnet", "concat", "non-saturating", "simultaneous", "dragan"),
    ("resnet", "acgan", "relativistic", "alternating", "r1"),
    ("resnet", "projection", "relativistic", "simultaneous", "r1r2"),
]


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    folder = tmp_path_factory.mktemp("digits")
    return testing.write_digits(str(folder / "digits.npz"), count=160)


@pytest.fixture(scope="module")
def digits_in_memory(digits):
    plugins = load_plugins("gan")
    return open_run_data(plugins, resolve_options(plugins, {"data": digits}))


def check_steps(run_data, **values):
    """Make two steps, which have to move every kernel of both networks by finite amounts.

    The first one leaves those where they are that feed a layer of zeros.

    Returns:
        The losses of the second step by name.
    """
    plugins = load_plugins("gan")
    options = resolve_options(plugins, dict(SMALL, **values), run_data)
    with TrainingSteps(plugins, options, run_data) as steps:
        before = steps.values()
        steps.step()
        losses = steps.step_and_read(steps.graph.losses)
        after = steps.values()
        trained = [v.op.name for v in steps.graph.tf_graph.get_collection("trainable_variables")]
    assert all(np.isfinite(value).all() for value in after.values())
    assert np.isfinite(list(losses.values())).all() and {"d_loss", "g_loss"} <= set(losses)
    kernels = [name for name in trained if name.endswith("/kernel")]
    assert {name.split("/")[0] for name in kernels} == {"critic", "generator"}
    assert [name for name in kernels if np.array_equal(before[name], after[name])] == []
    return losses


@pytest.mark.parametrize("network, conditional, loss, update, penalty", CASES)
def test_steps_move_every_kernel_of_both_networks(
    digits_in_memory, network, conditional, loss, update, penalty
):
    values = {"network": network, "conditional": conditional, "loss": loss, "update": update}
    if penalty != "none":
        values.update(penalty=penalty, discriminator_norm="layer")
    losses = check_steps(digits_in_memory, **values)
    if penalty not in ("none", "lp"):  # which costs nothing for slopes below one
        assert losses["penalty"] > 0


@pytest.mark.parametrize("preset", sorted(PRESETS))
def test_steps_of_each_preset_move_every_kernel_of_both_networks(
    digits_in_memory, tmp_path, preset, monkeypatch
):
    monkeypatch.setattr(extractor, "MIN_STEPS", 40)  # of the network that makes clusters
    monkeypatch.setenv("TOOLKIT_CACHE", str(tmp_path / "cache"))
    check_steps(digits_in_memory, preset=preset)


# ------------------------------------------------------------------------------------- exactness


def train(folder, digits, **values):
    """Train; the folder of the run, and its summary."""
    run = str(folder)
    return run, testing.train("gan", run, data=digits, **dict(SMALL, **values))


@pytest.fixture(scope="module")
def trained(digits, tmp_path_factory):
    """A run of four steps with pictures and scores, which no test changes, and its summary."""
    folder = tmp_path_factory.mktemp("trained")
    values = {"steps": 4, "checkpoint_steps": 2, "conditional": "projection", "network": "mlp"}
    return train(folder / "run", digits, **values)


@pytest.mark.parametrize("values", [{"sample_steps": 0}, {"evaluate": "no"}])
def test_pictures_and_scores_do_not_change_the_training(tmp_path, digits, values, trained):
    values = dict(values, steps=4, checkpoint_steps=2, conditional="projection", network="mlp")
    without, _ = train(tmp_path / "without", digits, **values)
    assert testing.fingerprint(without) == testing.fingerprint(trained[0])


ACGAN = {"network": "mlp", "update": "simultaneous", "conditional": "acgan"}


@pytest.mark.parametrize(
    "values",
    [
        {"preset": "wgan", "n_critic": 2, "schedule": "cosine", "decay_steps": 10},
        dict(ACGAN, penalty="r1r2", accumulate=2, on_nonfinite="skip"),
    ],
    ids=["several updates", "accumulated"],
)
def test_each_way_to_train_is_the_same_in_a_loop_and_after_a_resume(tmp_path, digits, values):
    settings = dict(SMALL, data=digits, evaluate="no", **values)
    testing.check_step_in_a_loop("gan", **settings)
    testing.check_resume("gan", str(tmp_path / "run"), **settings)


def test_a_discriminator_that_needs_no_labels_passes_the_checks_of_inference(tmp_path, digits):
    settings = dict(SMALL, data=digits, evaluate="no", **ACGAN)
    testing.check_inference("gan", str(tmp_path / "run"), **settings)


def test_a_streamed_run_of_several_discriminator_updates_resumes_exactly(tmp_path, digits):
    # Not the default preset: its cosine is as long as the run.
    values = {"preset": "sn-hinge", "n_critic": 2, "reader": "stream", "evaluate": "no"}
    values["network"] = "mlp"
    whole, _ = train(tmp_path / "whole", digits, steps=4, **values)
    halves, _ = train(tmp_path / "halves", digits, steps=2, **values)
    train(tmp_path / "halves", digits, steps=4)
    assert testing.fingerprint(whole) == testing.fingerprint(halves)


# --------------------------------------------------------------------------------------- the run


def test_a_run_leaves_reals_grids_an_animation_noise_and_scores(trained):
    run, summary = trained
    samples = set(os.listdir(os.path.join(run, "samples")))
    steps = {f"step-{step:08d}.png" for step in (0, 2, 4)}
    assert samples == steps | {"reals.png", "progress.gif", "noise.npz"}
    reports = os.path.join(run, summary["test"]["reports"])
    assert {"nearest.png", "scores.json"} <= set(os.listdir(reports))
    with open(os.path.join(reports, "scores.json")) as file:
        assert json.load(file)["features"]["name"] == "pixels, 4 principal components of 64"


def test_a_run_trains_a_classifier_for_its_scores(tmp_path, digits, monkeypatch):
    monkeypatch.setenv("TOOLKIT_CACHE", str(tmp_path / "cache"))
    run, summary = train(
        tmp_path / "run", digits, network="mlp", steps=1, sample_steps=0, features="classifier"
    )
    (name,) = os.listdir(str(tmp_path / "cache" / "features"))
    assert name.startswith("classifier-")
    with open(os.path.join(run, summary["test"]["reports"], "scores.json")) as file:
        assert json.load(file)["features"]["name"].startswith("classifier of ")


def test_a_conditional_grid_has_a_row_per_class(trained):
    with np.load(os.path.join(trained[0], "samples", "noise.npz")) as noise:
        assert noise["label"].tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]


def test_the_checkpoint_holds_the_average_and_no_moving_statistics(tmp_path, digits):
    # The network of the default preset has batch norm.
    run, _ = train(tmp_path / "run", digits, steps=1, evaluate="no", sample_steps=0)
    names = set(testing.tensors(run))
    averaged = {n[len("average/") :] for n in names if n.startswith("average/")}
    weights = {n[len("generator/") :] for n in names if n.startswith("generator/")}
    assert averaged == {n for n in weights if "/Adam" not in n}
    assert not [n for n in names if "moving" in n]


def test_without_an_average_samples_come_from_the_generator_itself(tmp_path, digits):
    run, _ = train(tmp_path / "run", digits, steps=2, ema=0, network="mlp", evaluate="no")
    assert not [n for n in testing.tensors(run) if n.startswith("average/")]
    assert os.path.exists(os.path.join(run, "samples", "step-00000002.png"))


def test_a_healthy_run_on_digits_has_no_verdict(tmp_path):
    run = str(tmp_path / "run")
    values = dict(SMALL, width=8, batch_size=32, latent_size=32, norm_samples=200, sample_steps=100)
    testing.train("gan", run, data="mnist5k", steps=900, evaluate="no", **values)
    kinds = [record["kind"] for record in RunFolder(run).metrics.read()]
    assert kinds.count("event") == 0 and kinds.count("train") == 900
