"""Models that are fed something else than examples, or keep what follows from their weights."""

from __future__ import annotations

import os

import numpy as np
from helpers import Linear

from toolkit import Scorer, ScoreResult, hookimpl

MAKER = "makers:Maker"
SCORED = "makers:Scoring"
DERIVED = "makers:Derived"


class Maker(Linear):
    """Linear, but it predicts images from codes: code[0] times the label's column of W.

    code: float32 [N, 2], label: int32 [N] -> image: float32 [N, 6, 6, 1].
    """

    @hookimpl
    def inputs(self, run):
        return {"code": ("float32", [2]), "label": ("int32", [])}

    @hookimpl
    def call(self, model, features, labels, run):
        from toolkit import tf

        if run.mode != "predict":
            return Linear.call(self, model, features, run)
        assert labels is None
        columns = tf.gather(tf.transpose(model[0]), features["label"])  # [N, 36]
        return {"made": columns * features["code"][:, :1]}

    @hookimpl
    def predict(self, outputs, run):
        from toolkit import tf

        if run.mode != "predict":
            return Linear.predict(self, outputs)
        return {"image": tf.reshape(outputs["made"], [-1, 6, 6, 1])}


def made(w, code, label):
    """What Maker predicts, by numpy."""
    return (w[:, label].T * np.asarray(code)[:, :1]).reshape(-1, 6, 6, 1)


class Brightness(Scorer):
    """The mean of what the model makes for label 1, as a measure of the split."""

    names = ("brightness", "brightness_noise")
    closed = 0

    def __init__(self, splits):
        self.train = splits("train")

    def score(self, split, predict, folder):
        images = predict({"code": np.ones([4, 2]), "label": np.ones(4, int)})["image"]
        if folder:
            with open(os.path.join(folder, "brightness.txt"), "w") as file:
                file.write("seen")
        facts = {"brightness": np.float32(images.mean()), "brightness_noise": 0.25}
        lines = [f"brightness against {len(split)} of {len(self.train)}"]
        return ScoreResult(facts, lines, {"brightness": {"with_folder": bool(folder)}})

    def close(self):
        Brightness.closed += 1


class Scoring(Maker):
    @hookimpl
    def scorers(self, run, splits):
        return [Brightness(splits)]


class Training(Maker):
    """Trains another model when its scorers are asked, and scores nothing."""

    @hookimpl
    def scorers(self, run, splits):
        import toolkit

        options = {"data": run.options.data, "steps": 3, "seed": 7}
        toolkit.train("helpers:Linear", "inner", options)


class Derived(Linear):
    """Linear with twice its weights, which it keeps in a local variable when it is not training."""

    @hookimpl
    def build(self, run):
        from toolkit import tf

        w, b = Linear.build(self, run)
        if run.mode != "train":
            w = tf.get_variable(
                "twice",
                initializer=2 * w.read_value(),
                trainable=False,
                collections=[tf.GraphKeys.LOCAL_VARIABLES],
                use_resource=True,
            )
        return w, b
