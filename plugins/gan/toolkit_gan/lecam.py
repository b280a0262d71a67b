"""LeCam: bounds the distance between the logits of real and of generated images.

Tseng et al. 2021, Regularizing Generative Adversarial Networks under Limited Data. From few images
the discriminator soon tells all of them from generated ones, by logits that part further and
further. The penalty pulls the logits of each kind towards the average logit of the other kind.
"""

from __future__ import annotations

from typing import Any, List, Tuple

from toolkit import tf

from .architecture import DISCRIMINATOR

DECAY = 0.99  # of the averages, per update of the discriminator


def lecam_penalty(real, fake, average_real, average_fake):
    """E max(0, real - average_fake)^2 + E max(0, average_real - fake)^2, a scalar.

    The formula of the paper, with the maxima of its authors' code: the losses alone judge a real
    image whose logit is below that of the average generated one.

    Args:
        real: float32 [B], logits of real images.
        fake: float32 [B], logits of generated images.
        average_real: float32 scalar, a constant to the gradient.
        average_fake: float32 scalar, a constant to the gradient.
    """
    above, below = tf.nn.relu(real - average_fake), tf.nn.relu(average_real - fake)
    return tf.reduce_mean(tf.square(above)) + tf.reduce_mean(tf.square(below))


class AverageLogits:
    """The moving averages of the discriminator's logits for real and for generated images.

    Up to step `lecam_start` they are the means of the newest batch. The decay then grows with the
    number of steps n since, min(0.99, n / (n + 1)), so that no first value outweighs the others.

    Args:
        run: the `toolkit.Run`, in mode "train".
    """

    def __init__(self, run):
        self._run = run
        self._averages = [_create_average(kind) for kind in ("real", "fake")]

    def penalise(self, real, fake) -> Tuple[Any, List[Any]]:
        """Penalise the logits of one update of the discriminator.

        Args:
            real: float32 [B].
            fake: float32 [B].

        Returns:
            The weighted penalty, a scalar, zero before step `lecam_start`; and the ops that store
            the averages, which include this batch.
        """
        options = self._run.options
        step = tf.cast(self._run.step_index, tf.float32) - options.lecam_start
        means = self._run.mean_over_replicas([tf.reduce_mean(real), tf.reduce_mean(fake)])
        share = 1.0 - tf.minimum(DECAY, tf.nn.relu(step) / (tf.nn.relu(step) + 1.0))
        values, updates = [], []
        for average, mean in zip(self._averages, means):
            before = average.read_value()
            values.append(tf.stop_gradient(before + share * (mean - before)))
            updates.append(average.assign(values[-1], read_value=False))
        weight = options.lecam * tf.cast(step >= 0, tf.float32)
        return weight * lecam_penalty(real, fake, *values), updates


def _create_average(kind: str):
    return tf.get_variable(
        f"{DISCRIMINATOR}/average_logit/{kind}",
        [],
        initializer=tf.zeros_initializer(),
        trainable=False,
        use_resource=True,
    )
