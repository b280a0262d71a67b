"""A DCGAN with the settings of PyTorch's example: 64 pixels, 64 filters, Adam at 2e-4, 0.5.

Radford et al. 2016. Layers and settings are those of the example `dcgan` of PyTorch.
"""

import numpy as np
import protocol
import torch
from torch import nn

SIDE = 64  # pixels
NOISE, FILTERS, BATCH_SIZE = 100, 64, 64


def up(inputs, outputs, stride=2, padding=1):
    """Twice the side, or from 1 pixel to 4."""
    layer = nn.ConvTranspose2d(inputs, outputs, 4, stride, padding, bias=False)
    return [layer, nn.BatchNorm2d(outputs), nn.ReLU(True)]


def down(inputs, outputs):
    """Half the side."""
    layer = nn.Conv2d(inputs, outputs, 4, 2, 1, bias=False)
    return [layer, nn.BatchNorm2d(outputs), nn.LeakyReLU(0.2, inplace=True)]


def create_generator(channels):
    """[N, NOISE, 1, 1] -> [N, C, 64, 64]."""
    return nn.Sequential(
        *up(NOISE, 8 * FILTERS, 1, 0),
        *up(8 * FILTERS, 4 * FILTERS),
        *up(4 * FILTERS, 2 * FILTERS),
        *up(2 * FILTERS, FILTERS),
        nn.ConvTranspose2d(FILTERS, channels, 4, 2, 1, bias=False),
        nn.Tanh(),
    )


def create_discriminator(channels):
    """[N, C, 64, 64] -> probabilities [N]."""
    return nn.Sequential(
        nn.Conv2d(channels, FILTERS, 4, 2, 1, bias=False),
        nn.LeakyReLU(0.2, inplace=True),
        *down(FILTERS, 2 * FILTERS),
        *down(2 * FILTERS, 4 * FILTERS),
        *down(4 * FILTERS, 8 * FILTERS),
        nn.Conv2d(8 * FILTERS, 1, 4, 1, 0, bias=False),
        nn.Sigmoid(),
        nn.Flatten(0),
    )


def initialize(layer):
    """Draw the weights from N(0, 0.02), scales of batch norm from N(1, 0.02)."""
    if isinstance(layer, (nn.Conv2d, nn.ConvTranspose2d)):
        nn.init.normal_(layer.weight, 0.0, 0.02)
    elif isinstance(layer, nn.BatchNorm2d):
        nn.init.normal_(layer.weight, 1.0, 0.02)
        nn.init.zeros_(layer.bias)


def train(task, generator, discriminator):
    players = (discriminator, generator)
    optimizers = [torch.optim.Adam(p.parameters(), lr=2e-4, betas=(0.5, 0.999)) for p in players]
    cross_entropy = nn.BCELoss()
    batches = task.batches(BATCH_SIZE)
    for _ in task.steps():
        reals = torch.from_numpy(np.ascontiguousarray(next(batches).transpose(0, 3, 1, 2)))
        ones, zeros = torch.ones(len(reals)), torch.zeros(len(reals))
        fakes = generator(torch.randn(len(reals), NOISE, 1, 1))
        discriminator.zero_grad()
        cross_entropy(discriminator(reals), ones).backward()
        cross_entropy(discriminator(fakes.detach()), zeros).backward()
        optimizers[0].step()
        generator.zero_grad()
        cross_entropy(discriminator(fakes), ones).backward()
        optimizers[1].step()


def main():
    task = protocol.Task()
    torch.manual_seed(task.seed)
    task.resize(SIDE, SIDE)
    channels = task.shape[-1]
    generator, discriminator = create_generator(channels), create_discriminator(channels)
    generator.apply(initialize)
    discriminator.apply(initialize)
    train(task, generator, discriminator)

    def draw(count):  # batch norm uses the moments of the batch, as in the example
        with torch.no_grad():
            return generator(torch.randn(count, NOISE, 1, 1)).numpy().transpose(0, 2, 3, 1)

    task.write(draw, BATCH_SIZE)


if __name__ == "__main__":
    main()
