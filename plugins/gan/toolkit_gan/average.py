"""The moving average of the generator's weights, from which samples come.

Its decay is counted in steps (`ema`), or as a half-life in images (`ema_images`), which does not
depend on the batch size and grows with the run.
"""

from __future__ import annotations

from toolkit import tf

RAMP = 0.05  # the half-life is at most this share of the images so far (Karras et al. 2020)


def update_average(model, run):
    """Build the op that moves the averaged weights towards the generator's; it runs after those."""
    share = 1 - decay(run)
    moves = []
    for average, variable in zip(model.average.variables, model.generator.variables):
        difference = average.read_value() - variable.read_value()
        moves.append(average.assign_sub(share * difference, read_value=False))
    return tf.group(*moves)


def decay(run):
    """The share of its old value that the average keeps in this step, a float32 scalar tensor."""
    options = run.options
    step = tf.cast(run.step_index, tf.float32)
    if options.ema_images is None:
        # It grows with the step, so that the average forgets the initial weights.
        return tf.minimum(options.ema, (1 + step) / (10 + step))
    batch = images_per_step(run)
    return decay_of_half_life(batch * options.accumulate, step * batch, options.ema_images)


def decay_of_half_life(update_images: int, past_images, half_life: int):
    """0.5 ** (update_images / h), with h = min(half_life, RAMP * past_images); 0 at the start.

    Karras et al. 2020, Analyzing and Improving the Image Quality of StyleGAN.

    Args:
        update_images: of one update of the average.
        past_images: float32 scalar, the images before this step.
        half_life: in images, after which a weight counts half as much.
    """
    half_life = tf.minimum(float(half_life), RAMP * past_images)
    return tf.pow(0.5, update_images / tf.maximum(half_life, 1e-8))


def images_per_step(run) -> int:
    """The examples of a generator's batch, those of all replicas."""
    replica = run.replica
    return replica.batch_size if replica.count > 1 else run.options.batch_size
