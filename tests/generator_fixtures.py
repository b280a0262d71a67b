"""A model that generates images from codes, and scorers of it."""

from pathlib import Path

import numpy as np
from linear_fixtures import Linear

from toolkit import Scorer, ScoreResult, hookimpl, tf

GENERATOR = "generator_fixtures:Generator"
SCORED_GENERATOR = "generator_fixtures:ScoredGenerator"


class Generator(Linear):
    """Linear, but predicts images from codes: code[0] times the label's column of W.

    code: float32 [N, 2], label: int32 [N] -> image: float32 [N, 6, 6, 1].
    """

    @hookimpl
    def inputs(self, run):
        return {"code": ("float32", [2]), "label": ("int32", [])}

    @hookimpl
    def call(self, model, features, labels, run):
        if run.mode != "predict":
            return Linear.call(self, model, features, run)
        assert labels is None
        columns = tf.gather(tf.transpose(model[0]), features["label"])  # [N, 36]
        return {"pixels": columns * features["code"][:, :1]}

    @hookimpl
    def predict(self, outputs, run):
        if run.mode != "predict":
            return Linear.predict(self, outputs)
        return {"image": tf.reshape(outputs["pixels"], [-1, 6, 6, 1])}


def expected_images(w, code, label):
    """What Generator predicts, in numpy."""
    return (w[:, label].T * np.asarray(code)[:, :1]).reshape(-1, 6, 6, 1)


class Brightness(Scorer):
    """The mean pixel of the images that the model generates for label 1."""

    names = ("brightness", "brightness_noise")
    closed = 0

    def __init__(self, splits):
        self.train = splits("train")

    def score(self, split, predict, folder):
        images = predict({"code": np.ones([4, 2]), "label": np.ones(4, int)})["image"]
        if folder:
            Path(folder, "brightness.txt").write_text("bright")
        facts = {"brightness": np.float32(images.mean()), "brightness_noise": 0.25}
        lines = [f"brightness against {len(split)} of {len(self.train)}"]
        return ScoreResult(facts, lines, {"brightness": {"with_folder": bool(folder)}})

    def close(self):
        Brightness.closed += 1


class ScoredGenerator(Generator):
    @hookimpl
    def scorers(self, run, splits):
        return [Brightness(splits)]


class NestedTraining(Generator):
    """Trains another model when its scorers are built, and has no scorer."""

    @hookimpl
    def scorers(self, run, splits):
        import toolkit

        options = {"data": run.options.data, "steps": 3, "seed": 7, "steps_per_call": 1}
        toolkit.train("linear_fixtures:Linear", "inner", options)
