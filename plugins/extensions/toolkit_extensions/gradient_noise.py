"""`--with gradient-noise`: add noise to the gradients, less from step to step.

    gradient + N(0, eta / (1 + t)^gamma)    at step t = 0, 1, 2, ...

(Neelakantan et al. 2015, "Adding Gradient Noise Improves Learning for Very Deep Networks", who set
eta to 0.01, 0.3 or 1 and gamma to 0.55). The noise is added after clipping, which would otherwise
shrink the gradient together with the noise; with --accumulate, to the mean of the gradients.
"""

from __future__ import annotations

from toolkit import Options, hookimpl, option

GROUP = "Gradient noise"


class GradientNoiseOptions(Options):
    zero_strength = {"noise_eta": 0.0}

    noise_eta: float = option(
        0.01, "variance of the noise in the first step; 0 is off", group=GROUP, ge=0
    )
    noise_gamma: float = option(
        0.55, "power of the step at which the variance falls", group=GROUP, ge=0
    )


@hookimpl
def options():
    return GradientNoiseOptions


@hookimpl(wrapper=True)
def optimize(run):
    if run.options.noise_eta:

        def change(gradients, variables, name):
            return add_noise(run, gradients, variables, name)

        run.change_gradients(change)
    return (yield)


def add_noise(run, gradients, variables, name: str):
    """The gradients with noise of their own; `name` is that of the update, unique in a step."""
    from toolkit import tf

    step = tf.cast(run.step_index, tf.float32)
    stddev = tf.sqrt(run.options.noise_eta / (1 + step) ** run.options.noise_gamma)
    return [
        gradient
        + tf.cast(
            stddev * run.normal(f"gradient-noise/{name}/{v.op.name}", v.shape.as_list()),
            gradient.dtype,
        )
        for gradient, v in zip(gradients, variables)
    ]
