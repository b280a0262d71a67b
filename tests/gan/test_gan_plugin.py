"""The plugin as a whole, on small images and with narrow networks: each preset, resume, samples."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest
from toolkit_gan.options import PRESETS

from toolkit import testing
from toolkit.storage.run_folder import RunFolder

SMALL = {
    "width": 4,
    "batch_size": 8,
    "latent_size": 8,
    "features": "pixels",
    "quick_samples": 100,
    "score_samples": 100,
    "score_seeds": 2,
    "norm_samples": 20,
    "sample_count": 9,
    "sample_steps": 2,
    "log_steps": 1,
}
FORMS = ["none", "concat", "acgan", "projection"]


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


@pytest.mark.parametrize("preset", sorted(PRESETS))
def test_each_preset_trains_a_few_steps_with_finite_losses_and_a_score(tmp_path, digits, preset):
    run, summary = train(tmp_path / "run", digits, preset=preset, steps=3)
    names = ("d_loss", "g_loss", "critic/gradient_norm", "generator/gradient_norm")
    check_finite(run, 3, *names)
    assert summary["test"]["metrics"]["frechet_distance"] > 0
    assert all(np.isfinite(v).all() for v in testing.tensors(run).values())


@pytest.mark.slow
@pytest.mark.parametrize("network", ["mlp", "dcgan", "resnet"])
@pytest.mark.parametrize("conditional", FORMS)
def test_each_network_trains_in_each_conditional_form(tmp_path, digits, network, conditional):
    run, _ = train(
        tmp_path / "run",
        digits,
        network=network,
        conditional=conditional,
        steps=2,
        evaluate="no",
    )
    check_finite(run, 2, "d_loss", "g_loss")


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["minimax", "non-saturating", "relativistic"])
@pytest.mark.parametrize("update", ["alternating", "simultaneous"])
def test_every_loss_trains_in_both_orders(tmp_path, digits, loss, update):
    run, _ = train(tmp_path / "run", digits, loss=loss, update=update, steps=2, evaluate="no")
    check_finite(run, 2, "d_loss", "g_loss")


@pytest.mark.slow
@pytest.mark.parametrize("penalty", ["wgan-gp", "lp", "dragan", "r1", "r1r2"])
def test_every_penalty_trains_with_a_condition_and_layer_norm(tmp_path, digits, penalty):
    run, _ = train(
        tmp_path / "run",
        digits,
        penalty=penalty,
        conditional="projection",
        discriminator_norm="layer",
        steps=2,
        evaluate="no",
    )
    check_finite(run, 2, "d_loss", "g_loss", "penalty")
    is_one_sided = penalty == "lp"  # costs nothing for slopes below one
    assert all(r["penalty"] > 0 or is_one_sided for r in training_records(run))
    assert all(r["penalty"] >= 0 for r in training_records(run))


def test_colour_images_of_another_size_train_too(tmp_path):
    data = testing.write_digits(str(tmp_path / "colour.npz"), count=160, shape=(16, 16, 3))
    run, _ = train(tmp_path / "run", data, steps=2)
    with open(os.path.join(run, "samples", "step-00000002.png"), "rb") as file:
        assert file.read(4) == b"\x89PNG"


# ------------------------------------------------------------------------------------- exactness


@pytest.mark.parametrize("values", [{"sample_steps": 0}, {"evaluate": "no"}])
def test_pictures_and_scores_do_not_change_the_training(tmp_path, digits, values):
    values_of = {}
    for name, changes in (("with", {}), ("without", values)):
        run, _ = train(tmp_path / name, digits, steps=4, checkpoint_steps=2, **changes)
        values_of[name] = testing.fingerprint(run)
    assert values_of["with"] == values_of["without"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "values",
    [
        {"preset": "sn-hinge"},
        {"preset": "wgan-gp", "n_critic": 2},
        {"preset": "dcgan", "update": "simultaneous", "conditional": "acgan"},
        {"preset": "r1r2", "network": "mlp", "accumulate": 2, "on_nonfinite": "skip"},
        {"preset": "wgan", "n_critic": 2, "schedule": "cosine", "decay_steps": 10},
    ],
    ids=lambda values: values["preset"],
)
def test_each_way_to_train_passes_the_checks_for_plugins(tmp_path, digits, values):
    settings = dict(SMALL, evaluate="no", **values)
    testing.check_plugin("gan", tmp_path, data=digits, **settings)


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
        assert json.load(file)["features"]["name"] == "pixels"


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
    run, summary = train(tmp_path / "run", digits, steps=2, ema=0)
    assert not [n for n in testing.tensors(run) if n.startswith("average/")]
    assert summary["test"]["metrics"]["frechet_distance"] > 0


@pytest.mark.slow
def test_a_healthy_run_on_digits_has_no_verdict(tmp_path):
    run = str(tmp_path / "run")
    values = dict(SMALL, width=8, batch_size=32, latent_size=32, norm_samples=200, sample_steps=100)
    testing.train("gan", run, data="mnist5k", steps=900, evaluate="no", **values)
    records = RunFolder(run).metrics.read()
    assert [r for r in records if r["kind"] == "event"] == []
    assert len(training_records(run)) == 900
