"""A script begins with the weights of another run, and a model function without a script."""

import os
import shutil

import numpy as np
from adopt_fixtures import SCRIPTS, adopted, commits, killed, write_script
from file_fixtures import edit, read_text
from test_lifting import CLASSIFIER, write
from toolkit_adopt.commands import write_plugin

from toolkit import tf


def parent(folder, value, shape=(4, 1)):
    """A checkpoint whose variable `w` has one value everywhere, and a slot of it."""
    folder.mkdir()
    with tf.Graph().as_default(), tf.Session() as session:
        tf.get_variable("w", initializer=tf.fill(shape, value))
        tf.get_variable("w/Adam", initializer=tf.fill(shape, 7.0))
        session.run(tf.global_variables_initializer())
        return tf.train.Saver().save(session, str(folder / "model"))


def test_a_script_begins_with_the_weights_of_a_checkpoint(tmp_path, capfd):
    prefix = parent(tmp_path / "parent", 100.0)
    path = adopted(tmp_path, SCRIPTS["saver"], "--init-from", prefix, "--steps", "1")
    assert f"1 of 1 variables start with the weights of {prefix}." in capfd.readouterr().err
    checkpoint = str(path.parent / "run" / "checkpoints" / "model.ckpt-1")
    change = np.abs(tf.train.load_variable(checkpoint, "w") - 100)
    np.testing.assert_allclose(change, 0.05, rtol=1e-2)  # Adam's first step, without its old slots


def test_a_run_that_is_killed_before_its_first_commit_begins_with_its_weights_again(tmp_path, cli):
    prefix = parent(tmp_path / "parent", 2.0)
    words = ["--commit-steps", "5", "--init-from", prefix, "--map", "w=v"]
    whole = adopted(tmp_path, SCRIPTS["feeds"], *words)
    parted = killed(write_script(tmp_path / "parted", SCRIPTS["feeds"]), 0, *words)
    shutil.move(str(tmp_path / "parent"), str(tmp_path / "away"))
    cli.refuse(2, "Put them back, or start a new run", "resume", parted.parent / "run")
    shutil.move(str(tmp_path / "away"), str(tmp_path / "parent"))
    cli.succeed("resume", parted.parent / "run")
    assert commits(parted) == commits(whole)


MODEL_FN = """
import tensorflow as tf

def model_fn(features, labels, mode):
    logits = tf.layers.dense(tf.layers.flatten(features), 3)
    loss = tf.losses.sparse_softmax_cross_entropy(labels, logits) if labels is not None else None
    step = tf.train.get_global_step()
    is_training = mode == tf.estimator.ModeKeys.TRAIN
    train_op = tf.train.AdamOptimizer(0.05).minimize(loss, step) if is_training else None
    label = tf.argmax(logits, 1)
    accuracy = {} if labels is None else {"accuracy": tf.metrics.accuracy(labels, label)}
    return tf.estimator.EstimatorSpec(
        mode, predictions={"label": label}, loss=loss, train_op=train_op, eval_metric_ops=accuracy
    )
"""


def test_a_model_function_becomes_a_plugin_and_trains(tmp_path, monkeypatch, cli):
    folder = write(tmp_path, CLASSIFIER).parent
    (folder / "own_model.py").write_text(MODEL_FN)
    monkeypatch.chdir(folder)
    words = ["adopt", "--model-fn", "own_model:model_fn", "--data", "npz:data.npz", "--steps", "4"]
    ended = cli.succeed(*words, "--run-dir", "run", "--", "--batch-size", "10")
    assert "accuracy" in ended.out
    cli.succeed("evaluate", "run")
    cli.succeed("verify", "run")
    # An edited plugin is used as it is, and what names no module is refused.
    edit("own_model_plugin.py", "import model_fn\n", "import model_fn  # edited\n")
    edited = read_text("own_model_plugin.py")
    assert write_plugin("own_model:model_fn") == "own_model_plugin:plugin"
    assert read_text("own_model_plugin.py") == edited
    assert cli("adopt", "--model-fn", "own_model", "--data", "npz:data.npz").code == 2
    text = "own_model_plugin.py is there, and is no plugin of other_fn."
    cli.refuse(2, text, "adopt", "--model-fn", "own_model:other_fn")
    assert cli(*words, "--dry-run").code == cli(*words[:3], "--mode", "drive").code == 2
    assert cli("adopt", "--model-fn", "no_model:model_fn").code == 2
    assert not os.path.exists("no_model_plugin.py")
