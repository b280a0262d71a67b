"""Models on videos and on converted examples train, resume, evaluate, predict and export.

Each is as another author would write it. `samples/` has models of texts, of ids of words, of two
inputs and of a label for each pixel.
"""

import numpy as np
import pytest

from toolkit import Split, hookimpl, testing, tf

COUNTS = {"train": 60, "validation": 13, "test": 17}  # examples


class Model:
    """What the models below have in common; each has `split(random, count)`."""

    @hookimpl
    def data(self, split):
        return self.split(np.random.RandomState(len(split)), COUNTS[split])

    @hookimpl
    def loss(self, labels, outputs):
        return tf.reduce_mean(tf.square(outputs["value"] - labels))

    @hookimpl
    def optimize(self, losses, run):
        return run.minimize(losses)

    @hookimpl
    def predict(self, outputs):
        return dict(outputs)


def weights(run, name, *shape):
    return tf.get_variable(name, shape, initializer=run.initializer("glorot_uniform", name))


class Video(Model):
    """Sequences of images, [T, H, W, C]."""

    def split(self, random, count):
        sizes = [(random.randint(2, 6), 4, 4, 1) for _ in range(count)]
        frames = [random.randint(0, 256, size).astype(np.uint8) for size in sizes]
        return Split({"frames": frames}, [len(video) % 2 for video in frames])

    @hookimpl
    def build(self, run):
        return weights(run, "w", 16, run.data.num_classes)

    @hookimpl
    def call(self, model, features):
        frames = features["frames"]  # [N, L, 4, 4, 1]
        length = tf.shape(frames)[1]
        is_frame = tf.sequence_mask(features["frames_length"], length, tf.float32)
        flat = tf.reshape(frames, [-1, length, 16]) * is_frame[..., tf.newaxis]
        return {"logits": tf.matmul(tf.reduce_sum(flat, axis=1), model)}

    @hookimpl
    def loss(self, labels, outputs):
        return tf.losses.sparse_softmax_cross_entropy(labels, outputs["logits"])


class Converted(Model):
    """The hooks `filter` and `convert` get and return names, and sequences in their own length."""

    def split(self, random, count):
        words = [random.randint(0, 9, random.randint(1, 6)) for _ in range(count)]
        features = {"words": words, "x": random.normal(size=[count, 3])}
        return Split(features, {"y": random.normal(size=count)})

    @hookimpl
    def filter(self, labels):
        return bool(labels["y"] > -1)

    @hookimpl
    def convert(self, features, labels):
        return {"words": features["words"][::-1], "double": features["x"] * 2}, labels["y"]

    @hookimpl
    def build(self, run):
        return weights(run, "w", 3, 1)

    @hookimpl
    def call(self, model, features):
        lengths = tf.cast(features["words_length"], tf.float32)
        return {"value": tf.matmul(features["double"], model)[:, 0] + lengths}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TOOLKIT_CACHE", str(tmp_path / "cache"))


def name_of(model):
    return f"{__name__}:{model.__name__}"


@pytest.mark.parametrize("model", [Video, Converted])
def test_a_model_is_evaluated_predicts_and_exports(model, tmp_path):
    testing.check_inference(name_of(model), str(tmp_path / "run"), batch_size=8)


@pytest.mark.parametrize("model", [Video, Converted])
def test_a_model_is_the_same_in_a_loop_and_resumes_from_a_stream(model, tmp_path):
    testing.check_step_in_a_loop(name_of(model), batch_size=8)
    options = {"batch_size": 8, "reader": "stream"}
    testing.check_resume(name_of(model), str(tmp_path / "run"), **options)
