"""MultiWorkerMirroredStrategy under Keras, in one process of a job; `cluster.py` starts it.

Each process gets the whole batch's size; the strategy divides it. The examples are random digits in
memory: their values do not change the speed.
"""

from __future__ import annotations

import json
import os
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow
import terms
import tf_keras as keras
from keras_contenders import cnn, mlp


class Timer(keras.callbacks.Callback):
    """Notes when each epoch ends."""

    def __init__(self):
        super().__init__()
        self.times = []

    def on_epoch_end(self, epoch, logs=None):
        self.times.append(time.perf_counter())


def main(batch_size: int, num_steps: int, network: str) -> None:
    strategy = tensorflow.distribute.MultiWorkerMirroredStrategy()
    epochs = 10
    per_epoch = max(1, num_steps // epochs)
    rng = np.random.RandomState(0)
    images = rng.rand(4000, 28, 28, 1).astype(np.float32)
    labels = rng.randint(0, 10, [4000])
    data = tensorflow.data.Dataset.from_tensor_slices((images, labels))
    data = data.cache().shuffle(4000).repeat().batch(batch_size, drop_remainder=True).prefetch(2)
    options = tensorflow.data.Options()
    policy = tensorflow.data.experimental.AutoShardPolicy.DATA
    options.experimental_distribute.auto_shard_policy = policy
    with strategy.scope():
        model = {"mlp": mlp, "cnn": cnn}[network](keras)
        model.compile(
            keras.optimizers.Adam(terms.LEARNING_RATE, clipvalue=terms.CLIP),
            keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            steps_per_execution=50 if per_epoch % 50 == 0 else 1,
        )
    timer = Timer()
    model.fit(
        data.with_options(options),
        epochs=epochs,
        steps_per_epoch=per_epoch,
        verbose=0,
        callbacks=[timer],
    )
    if strategy.cluster_resolver is None or strategy.cluster_resolver.task_id in (0, None):
        differences = np.diff(timer.times)[1:] / per_epoch
        with open("speed.json", "w") as file:
            json.dump(float(np.median(differences)), file)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
