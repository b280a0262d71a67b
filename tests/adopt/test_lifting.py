"""A script whose feeds are understood is lifted into the loop of steps."""

import json
import os

import numpy as np
import pytest
from adopt_fixtures import IMPORTS, INIT, adopt, write_script
from lift_graphs import GRAPHS
from toolkit_adopt.dry_run import FeedValues

from toolkit import tf

CLASSIFIER = f"""{IMPORTS}{GRAPHS["classifier"]}
data = np.load("data.npz")
rows, classes = data["x_train"].reshape(-1, 16) / np.float32(255), np.eye(3)[data["y_train"]]
step = tf.get_variable("step", [], trainable=False)
with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    sess.run(w.assign(tf.fill([16, 3], 0.5)))
    for i in range(40):
        k = np.random.randint(0, 90, 10)
        RATE
        sess.run(train, {{x: rows[k], y: classes[k], keep: 0.5, rate: value}})
        if i == 0:
            sess.run(loss, {{x: rows, y: classes, keep: 1.0}})
            with tf.Graph().as_default(), tf.Session() as other:
                ones = tf.placeholder(tf.float32, [], name="of_another_graph")
                other.run(2 * ones, {{ones: 1.0}})
"""
GAN = f"""{IMPORTS}{GRAPHS["gan"]}
rows = np.load("data.npz")["x_train"].reshape(-1, 16) / 127.5 - 1
{INIT}for i in range(40):
    noise = np.random.uniform(-1, 1, [8, 5])
    for _ in range(2):
        sess.run(d_train, {{x: rows[np.random.randint(0, 90, 8)], z: noise}})
    sess.run(g_train, {{z: noise}})
"""


def write(tmp_path, text, **changes):
    """A script beside the data that it reads."""
    for name, value in changes.items():
        text = text.replace(name, value)
    path = write_script(tmp_path / "script", text)
    rng = np.random.RandomState(0)
    classes = np.arange(100) % 3
    images = np.clip(rng.rand(100, 4, 4) * 200 + 30 * classes[:, None, None], 0, 255).astype("u1")
    images[0, 0, 0], images[0, 0, 1] = 0, 255
    arrays = {"x_train": images[:90], "y_train": classes[:90]}
    arrays.update(x_test=images[90:], y_test=classes[90:])
    np.savez(str(path.parent / "data.npz"), **arrays)
    return path


@pytest.mark.parametrize(
    "values, rule",
    [
        ([np.float32(0.5)] * 2, "0.5"),
        ([np.float32(0.1234567)] * 2, "0.1234567"),
        ([np.int64(12345678)] * 2, "12345678"),
        ([np.bool_(True)] * 2, "1"),
        ([np.zeros([8, 4], "f")] * 2, "0"),
        ([np.float32(0.5), np.float32(0.25)], ""),
        ([np.arange(8)] * 2, ""),
        ([np.arange(8) % 3, np.arange(8) % 5], "labels"),
        ([np.eye(3)[[0, 1, 1]], np.eye(3)[[2, 1, 0]]], "labels"),
        ([np.linspace(0, 1, 20).reshape(5, 4), np.zeros([5, 4])], "features"),
        ([np.linspace(-1, 1, 20).reshape(5, 4) ** 3, np.zeros([5, 4])], "features:range:-1:1"),
        ([np.linspace(0, 255, 20).reshape(5, 4), np.zeros([5, 4])], "features:range:0:255"),
        ([np.linspace(-3, 7, 20).reshape(5, 4), np.zeros([5, 4])], ""),
        ([np.random.RandomState(s).uniform(-1, 1, [64, 9]) for s in (0, 1)], "uniform:-1:1"),
        ([np.random.RandomState(s).randn(64, 9) for s in (0, 1)], "normal:0:1"),
        ([np.array(["a", "b"], object), np.array(["b", "a"], object)], ""),
    ],
)
def test_the_values_of_a_feed_suggest_its_rule(values, rule):
    fed = FeedValues()
    for value in values:
        fed.add(np.asarray(value))
    assert fed.guess()[0] == rule


def test_a_dry_run_says_how_a_gan_would_be_lifted(tmp_path, capfd):
    assert adopt(write(tmp_path, GAN), "--dry-run") == 0
    words = (
        "--train-op d_adam,d_adam,g_adam --losses Mean,Mean_1 "
        "--feed x=features:range:-1:1:part,z=uniform:-1:1:shared --batch-size 16"
    )
    assert f"lift    --mode lift --data DATA would train with {words}\n" in capfd.readouterr().out


def test_a_lifted_script_begins_with_its_values_and_trains_on_the_data(tmp_path, capfd):
    path = write(tmp_path, CLASSIFIER, RATE="value = 0.01")
    words = ["--mode", "lift", "--data", "npz:data.npz", "--steps", "1", "--seed", "5"]
    assert adopt(path, *words[2:], "--threads", "2") == 2
    assert "--threads is for scripts that are driven" in capfd.readouterr().err
    assert adopt(path, *words, "--log-steps", "1") == 0
    run = path.parent / "run"
    config = json.loads((run / "config.json").read_text())
    feeds = {"x": "features", "y": "labels", "keep": "0.5", "rate": "0.01"}
    assert (config["plugin"], config["seed"], config["feed"]) == ("lift", 5, feeds)
    assert (config["batch_size"], config["infer_feed"]) == (10, {"keep": "1"})
    prefix = tf.train.latest_checkpoint(str(run / "checkpoints"))
    change = np.abs(tf.train.load_variable(prefix, "w") - 0.5)
    np.testing.assert_allclose(change[change > 0], 0.01, rtol=1e-3)  # Adam's first step
    assert (change > 0).any()


@pytest.mark.parametrize(
    "rate, reason",
    [
        ("value = 0.01 / (1 + i)", "'rate' is fed a scalar that changes"),
        ("value = 0.01; sess.run(step.assign_add(1))", "changes a variable between the train c"),
        (
            "value = 0.01; slope = slope if i else tf.gradients(loss, w)\n"
            "        feed = {x: rows[k], y: classes[k], keep: 0.5, w: np.ones([16, 3])}\n"
            "        sess.run(slope, feed)",
            "trains outside of the graph",
        ),
        ("value = 0.01; sess.run(x * 1, {x: rows[k]})", "'x' is fed what a call before returned"),
        (
            "value = 0.01; slope = slope if i else tf.gradients(loss, x)\n"
            "        sess.run(slope, {x: rows[k], y: classes[k], keep: 0.5})",
            "'x' is fed what a call before returned, or is made of it",
        ),
    ],
)
def test_a_script_that_is_not_understood_is_refused(rate, reason, tmp_path, capfd):
    path = write(tmp_path, CLASSIFIER, RATE=rate)
    assert adopt(path, "--data", "npz:data.npz") == 2
    err = capfd.readouterr().err
    assert reason in err and "Omit --data and --mode lift to drive it" in err
    assert not os.path.exists(path.parent / "run")
