"""The GAN on the command line, from a run to its samples, scores, exports, and after a move."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil

import numpy as np
import pytest
from PIL import Image
from toolkit_gan.scores import extractor

from toolkit import testing, tf
from toolkit.cli import run_command

SMALL = [
    "--network=mlp",
    "--width=4",
    "--batch-size=8",
    "--latent-size=8",
    "--features=pixels",
    "--sample-steps=2",
    "--sample-count=9",
    "--quick-samples=100",
    "--score-samples=100",
    "--score-seeds=2",
    "--no-two-sample",
    "--norm-samples=20",
]


@pytest.fixture(scope="module")
def _trained(tmp_path_factory):
    """A folder with a conditional run of four steps, `run`, and its summary as JSON."""
    folder = tmp_path_factory.mktemp("trained")
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(io.StringIO()) as out:
        patch.chdir(folder)
        data = testing.write_digits("digits.npz", count=160)
        argv = ["run", "--plugin", "gan", "--data", data, "--run-dir", "run", "--steps", "4"]
        assert run_command([*argv, "--conditional", "projection", "--json", *SMALL]) == 0
    return folder, json.loads(out.getvalue())


@pytest.fixture
def trained(_trained, here):
    """A copy of the run in this folder, and its summary."""
    folder, summary = _trained
    shutil.copytree(str(folder / "run"), "run")
    shutil.copy(str(folder / "digits.npz"), "digits.npz")
    return summary


def run_saved_model(folder, feeds):
    """Images of a SavedModel for each feed, with nothing but TensorFlow."""
    with tf.Graph().as_default(), tf.Session() as session:
        model = tf.saved_model.load(session, [tf.saved_model.tag_constants.SERVING], folder)
        (signature,) = model.signature_def.values()
        images = []
        for feed in feeds:
            values = {signature.inputs[name].name: array for name, array in feed.items()}
            images.append(session.run(signature.outputs["image"].name, values))
    return images


def test_an_export_makes_images_of_z_and_label_and_one_alone_is_as_in_its_batch(cli, trained):
    assert cli("export", "run", "saved", "--json").code == 0
    z = np.random.RandomState(0).normal(size=[6, 8]).astype(np.float32)
    label = np.arange(6, dtype=np.int32) % 3
    many, one = run_saved_model(
        "saved", [{"z": z, "label": label}, {"z": z[4:5], "label": label[4:5]}]
    )
    assert many.shape == (6, 8, 8, 1) and many.min() >= 0 and many.max() <= 1
    np.testing.assert_allclose(one[0], many[4], atol=1e-6)
    np.savez("z.npz", z=z, label=label)
    assert cli("predict", "run", "z.npz", "-o", "images.npz").code == 0
    with np.load("images.npz") as file:
        np.testing.assert_allclose(file["image"], many, atol=1e-6)


def test_predict_makes_the_samples_of_an_npz_from_their_z(cli, trained):
    assert cli("sample", "run", "-n", 5, "--out", "samples.npz", "--json").code == 0
    with np.load("samples.npz") as samples:
        np.savez("inputs.npz", z=samples["z"], label=samples["label"])
    assert cli("predict", "run", "inputs.npz", "-o", "again.npz").code == 0
    with np.load("samples.npz") as samples, np.load("again.npz") as again:
        np.testing.assert_array_equal(np.rint(again["image"] * 255), samples["images"])


def test_evaluating_again_gives_the_scores_of_the_run(cli, trained):
    report = json.loads(cli("evaluate", "run", "--json").out)
    assert report["metrics"] == pytest.approx(trained["test"]["metrics"])
    scores = report["details"]["scores"]
    for name in ("frechet_floor", "frechet_ratio", "kernel_distance", "precision", "recall"):
        assert name in scores
    assert len(scores["features"]["sha256"]) == 64 and len(scores["ruler"]) > 5
    assert Image.open(os.path.join("run", report["reports"], "nearest.png")).size[0] > 8 * 8


def test_other_data_is_scored_with_the_features_of_the_run(cli, here, monkeypatch):
    monkeypatch.setenv("TOOLKIT_CACHE", str(here / "cache"))
    monkeypatch.setattr(extractor, "MIN_STEPS", 20)
    argv = ["--plugin", "gan", "--data", testing.write_digits("digits.npz", count=160)]
    argv += ["--run-dir", "run", "--steps", "1", "--validation-share", "0.2"]
    small = [flag for flag in SMALL if flag != "--features=pixels"]
    assert cli("run", *argv, *small).code == 0
    other = testing.write_digits("other.npz", count=90)
    results = [
        json.loads(cli("evaluate", "run", "--json", *argv).out) for argv in ([], ["--data", other])
    ]
    own, others = [result["details"]["scores"] for result in results]
    assert others["features"] == own["features"] and own["features"]["name"] != "pixels"
    assert others["m"] == 30 and len(os.listdir("cache/features")) == 1
    assert others["ruler"] and "nearest" in others


def test_a_run_resumes_without_its_samples_and_in_another_place(cli, trained):
    shutil.rmtree(os.path.join("run", "samples"))
    os.rename("run", "moved")
    result = cli("resume", "moved", "--steps", 6, "--allow", "steps")
    assert result.code == 0, result.err
    assert set(os.listdir(os.path.join("moved", "samples"))) == {
        "noise.npz",
        "reals.png",
        "step-00000006.png",
        "progress.gif",
    }


@pytest.mark.parametrize(
    "argv, code, message",
    [
        (["--best-metric", "min:kernel_distance"], 2, "which only 'toolkit evaluate' measures"),
        (["--features", "nowhere"], 2, "There is no run at 'nowhere'"),
        (["--n-critic", 90], 2, "A step takes 90 batches of 8 = 720 examples"),
        (["--update", "simultaneous", "--n-critic", 2], 2, "n_critic is 2: set n_critic to 1"),
        (["--preset", "dcgan", "--penalty", "r1"], 2, "Batch norm in the discriminator"),
        (["--accumulate", 2, "--n-critic", 2], 2, "accumulate is 2 and n_critic is 2"),
        (["--validation-share", 0.02], 4, "needs 10 images or more, and the split 'validation'"),
    ],
)
def test_a_users_mistake_is_reported_before_the_first_step(cli, here, argv, code, message):
    data = testing.write_digits("digits.npz", count=160)
    small = [text for text in SMALL if text.partition("=")[0] != argv[0]]  # one value per option
    result = cli("run", "--plugin", "gan", "--data", data, "--run-dir", "run", *(small + argv))
    assert result.code == code and message in result.err and result.err.startswith("Error: ")
    assert result.err.count("\n") <= 2 and not os.path.exists("run")


def test_too_small_a_test_split_ends_the_training_well(cli, here):
    data = testing.write_digits("digits.npz", count=27)  # 9 of them to test with
    argv = ["--data", data, "--run-dir", "run", "--steps", "1", "--best-metric", "none"]
    result = cli("run", "--plugin", "gan", *(argv + SMALL))
    assert result.code == 0 and "no score: the split has 9 images" in result.out + result.err


def test_options_of_reports_and_scores_may_change_on_resume_and_the_method_may_not(cli, here):
    data = testing.write_digits(str(here / "digits.npz"), count=160)
    flags = ["--data", data, "--preset", "sn-hinge", "--run-dir", "run", "--evaluate-steps", 1]
    assert cli("run", "--plugin", "gan", "--steps", 2, *(flags + SMALL)).code == 0
    result = cli("resume", "run", "--steps", 4, "--sample-steps", 1, "--quick-samples", 120)
    assert result.code == 0, result.err
    assert "best checkpoint is chosen again from here: samples was 100, now 120;" in result.err
    refusal = cli("resume", "run", "--steps", 6, "--loss", "minimax")
    assert refusal.code == 2 and "loss was hinge, now minimax" in refusal.err


def test_vectors_train_without_grids_and_have_scores(cli, here):
    random = np.random.RandomState(0)
    parts = {"x_train": random.rand(160, 6), "x_test": random.rand(40, 6)}
    np.savez("vectors.npz", **{name: part.astype(np.float32) for name, part in parts.items()})
    argv = ["--plugin", "gan", "--data", "npz:vectors.npz", "--run-dir", "run", "--steps", "2"]
    result = cli("run", *argv, *SMALL, "--json")
    assert result.code == 0, result.err
    assert not os.path.exists("run/samples")
    with open(
        os.path.join("run", json.loads(result.out)["test"]["reports"], "scores.json")
    ) as file:
        scores = json.load(file)
    damages = {mark["name"] for mark in scores["ruler"]}
    assert "Gaussian pixels" in damages and "a 5-tap blur" not in damages
