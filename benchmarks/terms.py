"""The settings that all contenders share: networks, optimizers, rates. Imports nothing."""

from __future__ import annotations

# The classifiers.
LEARNING_RATE = 1e-3  # of Adam
CLIP = 1.0  # of each value of a gradient, above and below zero
DROPOUT = 0.2  # of the perceptron's hidden values
HIDDEN = 128  # units of the perceptron's hidden layer
FILTERS = (16, 32, 64)  # of the stages of the cnn, two convolutions each
NORM_MOMENTUM = 0.95  # of the cnn's batch norms
NORM_EPSILON = 1e-3
CLASSES = 10
# Trainable numbers of the two networks for digits of 28 x 28 pixels.
PARAMETERS = {"mlp": 101770, "cnn": 72666}

# The preset dcgan: Adam of both players, and the batch norms.
GAN_RATE, GAN_BETA_1 = 2e-4, 0.5
GAN_NORM_EPSILON = 1e-5


def check_parameters(network: str, count: int) -> None:
    """Fail unless a contender's network has the expected size."""
    expected = PARAMETERS[network]
    assert count == expected, f"{network} has {count} parameters, not {expected}"


def check_gan_parameters(player: str, width: int, latent_size: int, count: int) -> None:
    """Fail unless a player of a GAN for digits of 28 x 28 pixels has the expected size."""
    down_and_up = 16 * width + 16 * width * 2 * width  # two kernels of 4 x 4
    if player == "discriminator":  # biases, gamma and beta, the last layer
        expected = down_and_up + width + 4 * width + 49 * 2 * width + 1
    else:  # the first layer, gammas and betas, a bias
        expected = down_and_up + latent_size * 49 * 2 * width + 4 * width + 2 * width + 1
    assert count == expected, f"{player} has {count} parameters, not {expected}"
