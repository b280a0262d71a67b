"""PyTorch's contenders: a plain loop, the same compiled, and Lightning; `training_speed.py` starts
them.

The digits lie in one float32 tensor, which a permutation per epoch indexes; Adam is the fused one
where this PyTorch has it for a CPU. How many threads, and in which memory format, is tried on the
machine, once the harness has let the contender run: see `fastest_way`.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import logging
import os
import time

import terms
import torch
from arrays import Arrays
from link import Link
from torch import nn

TRIED = {"mlp": 50, "cnn": 2}  # steps of which the time is taken
TRIES = 5


def mlp():
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(28 * 28, terms.HIDDEN),
        nn.ReLU(),
        nn.Dropout(terms.DROPOUT),
        nn.Linear(terms.HIDDEN, terms.CLASSES),
    )


def cnn():
    """The classifier plugin's Cnn."""
    parts, channels = [], 1
    for stage, filters in enumerate(terms.FILTERS):
        for position in range(2):
            parts.append(nn.Conv2d(channels, filters, 3, padding=1, bias=False))
            if position == 1 and stage < len(terms.FILTERS) - 1:
                parts.append(nn.MaxPool2d(2))
            norm = nn.BatchNorm2d(filters, terms.NORM_EPSILON, 1 - terms.NORM_MOMENTUM)
            parts += [norm, nn.ReLU()]
            channels = filters
    parts += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, terms.CLASSES)]
    return nn.Sequential(*parts)


NETWORKS = {"mlp": mlp, "cnn": cnn}


def network_of(name: str):
    made = NETWORKS[name]()
    terms.check_parameters(name, sum(p.numel() for p in made.parameters()))
    return made


def adam(parameters):
    """Adam in the form that takes the least: all parameters in one kernel, or op by op."""
    parameters = list(parameters)
    try:
        return torch.optim.Adam(parameters, terms.LEARNING_RATE, fused=True)
    except (RuntimeError, TypeError):  # this PyTorch has none for a CPU
        return torch.optim.Adam(parameters, terms.LEARNING_RATE, foreach=True)


class Step:
    """A network with its optimizer; called with a batch it makes one step."""

    def __init__(self, network):
        self._network, self._loss = network, nn.functional.cross_entropy
        self._parameters = list(network.parameters())
        self._optimizer = adam(self._parameters)

    def __call__(self, images, labels) -> None:
        self._optimizer.zero_grad(set_to_none=True)
        self._loss(self._network(images), labels).backward()
        nn.utils.clip_grad_value_(self._parameters, terms.CLIP)
        self._optimizer.step()


class Batches:
    """Images float32 [B, 1, 28, 28] and labels int64 [B] without end, each epoch shuffled anew."""

    def __init__(self, arrays, size: int, memory_format):
        images = torch.from_numpy(arrays.features).permute(0, 3, 1, 2)
        self._images = images.contiguous(memory_format=memory_format)
        self._labels = torch.from_numpy(arrays.labels).long()
        self._size = size

    def __iter__(self):
        count = len(self._labels)
        while True:
            # One gather an epoch, of which batches are views, is less than one a step.
            order = torch.randperm(count)[: count // self._size * self._size]
            images, labels = self._images.index_select(0, order), self._labels[order]
            yield from zip(images.split(self._size), labels.split(self._size))


def fastest_way(arguments, arrays):
    """(memory format, words for the way) with which a step takes the least; sets the threads."""
    threads = [1 << power for power in range(len(os.sched_getaffinity(0)).bit_length())]
    formats = [torch.contiguous_format]
    if arguments.network == "cnn":
        formats.append(torch.channels_last)
    ways = list(itertools.product(threads, formats))
    torch.set_num_threads(1)
    steps = {way: trial(arguments, arrays, way[1]) for way in ways}
    least = dict.fromkeys(ways, float("inf"))
    for _ in range(TRIES):
        for way in ways:
            torch.set_num_threads(way[0])
            least[way] = min(least[way], steps[way]())
        ways = [way for way in ways if least[way] < 2 * min(least.values())]
    count, chosen = min(ways, key=least.get)
    torch.set_num_threads(count)
    words = f"threads: {count}, {str(chosen).rpartition('.')[2]}"
    return chosen, words


def trial(arguments, arrays, memory_format):
    """A function that makes some steps of a network of its own and returns the seconds."""
    network, batches = prepared(arguments, arrays, memory_format)
    step, batches = Step(network), iter(batches)

    def make_steps() -> float:
        started = time.perf_counter()
        for _ in range(TRIED[arguments.network]):
            step(*next(batches))
        return time.perf_counter() - started

    make_steps()
    return make_steps


def plain(network, batches, go_on) -> None:
    """The usual loop and nothing else; go_on: told the steps made, says whether to make more."""
    step = Step(network)
    for made, batch in enumerate(batches, start=1):
        step(*batch)
        if not go_on(made):
            break


def compiled(network, batches, go_on) -> None:
    plain(torch.compile(network), batches, go_on)


def lightning(package, quiet, network, batches, go_on) -> None:
    """A Trainer with everything off that can be."""

    class Model(package.LightningModule):
        def __init__(self):
            super().__init__()
            self.network, self.made = network, 0

        def training_step(self, batch, index):
            images, labels = batch
            return nn.functional.cross_entropy(self.network(images), labels)

        def configure_optimizers(self):
            return adam(self.parameters())

        def on_train_batch_end(self, *_):
            self.made += 1
            self.trainer.should_stop = not go_on(self.made)

    trainer = package.Trainer(
        accelerator="cpu",
        devices=1,
        max_epochs=-1,
        gradient_clip_val=terms.CLIP,
        gradient_clip_algorithm="value",
        **quiet,
    )
    trainer.fit(Model(), batches)


def lightning_2():
    import lightning as package

    logging.getLogger("lightning").setLevel(logging.ERROR)
    return functools.partial(lightning, package, {"barebones": True})


def lightning_1():
    import pytorch_lightning as package

    off = ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary")
    quiet = dict(dict.fromkeys(off, False), num_sanity_val_steps=0)
    return functools.partial(lightning, package, quiet)


# name -> what gives the function that trains, importing what it needs
CONTENDERS = {
    "plain": lambda: plain,
    "compiled": lambda: compiled,
    "lightning": lightning_2,
    "pytorch_lightning": lightning_1,
}


def prepared(arguments, arrays, memory_format):
    network = network_of(arguments.network).to(memory_format=memory_format)
    return network, Batches(arrays, arguments.batch_size, memory_format)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("contender", choices=sorted(CONTENDERS))
    parser.add_argument("--network", default="mlp", choices=sorted(NETWORKS))
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--folder", help="where digits.npz lies")
    arguments = parser.parse_args()
    link = Link()
    train = CONTENDERS[arguments.contender]()
    arrays = Arrays(arguments.folder)
    link.mark("import")
    network, batches = prepared(arguments, arrays, torch.contiguous_format)
    link.mark("build")
    train(network, batches, lambda made: False)
    link.mark("step")
    memory_format, way = fastest_way(arguments, arrays)
    train(*prepared(arguments, arrays, memory_format), functools.partial(link.passed, way=way))


if __name__ == "__main__":
    main()
