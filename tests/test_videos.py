"""A model on videos trains, resumes, evaluates, predicts and exports.

It is as another author would write it. `samples/` has models of texts, of ids of words, of two
inputs and of a label for each pixel.
"""

import numpy as np
import pytest

from toolkit import Split, hookimpl, testing, tf

COUNTS = {"train": 60, "validation": 13, "test": 17}  # examples
VIDEO = f"{__name__}:Video"


class Video:
    """Sequences of images, [T, H, W, C]."""

    @hookimpl
    def data(self, split):
        random = np.random.RandomState(len(split))
        sizes = [(random.randint(2, 6), 4, 4, 1) for _ in range(COUNTS[split])]
        frames = [random.randint(0, 256, size).astype(np.uint8) for size in sizes]
        return Split({"frames": frames}, [len(video) % 2 for video in frames])

    @hookimpl
    def build(self, run):
        start = run.initializer("glorot_uniform", "w")
        return tf.get_variable("w", [16, run.data.num_classes], initializer=start)

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

    @hookimpl
    def optimize(self, losses, run):
        return run.minimize(losses)

    @hookimpl
    def predict(self, outputs):
        return dict(outputs)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TOOLKIT_CACHE", str(tmp_path / "cache"))


def test_it_is_evaluated_predicts_and_exports(tmp_path):
    testing.check_inference(VIDEO, str(tmp_path / "run"), batch_size=8)


def test_it_is_the_same_in_a_loop_and_resumes_from_a_stream(tmp_path):
    testing.check_step_in_a_loop(VIDEO, batch_size=8)
    testing.check_resume(VIDEO, str(tmp_path / "run"), batch_size=8, reader="stream")
