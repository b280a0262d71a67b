"""PyTorch's contenders: a plain loop, the same compiled, and Lightning; `training_speed.py` starts
them.

The digits are one float32 tensor, indexed by one permutation per epoch. Adam is the fused one if
this PyTorch has it for a CPU. Trials choose the number of threads and the memory format when the
harness first lets the contender run: see `fastest_way`.
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

STEPS_PER_TRIAL = {"mlp": 50, "cnn": 2}
NUM_TRIALS = 5


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
    network = NETWORKS[name]()
    terms.check_parameters(name, sum(p.numel() for p in network.parameters()))
    return network


def adam(parameters):
    """Adam in its fastest form: all parameters in one kernel, or op by op."""
    parameters = list(parameters)
    try:
        return torch.optim.Adam(parameters, terms.LEARNING_RATE, fused=True)
    except (RuntimeError, TypeError):  # this PyTorch has none for a CPU
        return torch.optim.Adam(parameters, terms.LEARNING_RATE, foreach=True)


class Step:
    """A network with its optimizer; calling it with a batch is one training step."""

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
    """Images float32 [B, 1, 28, 28] and labels int64 [B] endlessly, reshuffled each epoch."""

    def __init__(self, arrays, size: int, memory_format):
        images = torch.from_numpy(arrays.features).permute(0, 3, 1, 2)
        self._images = images.contiguous(memory_format=memory_format)
        self._labels = torch.from_numpy(arrays.labels).long()
        self._size = size

    def __iter__(self):
        count = len(self._labels)
        while True:
            # One gather per epoch, with batches as views, costs less than one per step.
            order = torch.randperm(count)[: count // self._size * self._size]
            images, labels = self._images.index_select(0, order), self._labels[order]
            yield from zip(images.split(self._size), labels.split(self._size))


def fastest_way(arguments, arrays):
    """The fastest memory format and its description; sets the number of threads."""
    threads = [1 << power for power in range(len(os.sched_getaffinity(0)).bit_length())]
    formats = [torch.contiguous_format]
    if arguments.network == "cnn":
        formats.append(torch.channels_last)
    ways = list(itertools.product(threads, formats))
    torch.set_num_threads(1)
    steps = {way: trial(arguments, arrays, way[1]) for way in ways}
    least = dict.fromkeys(ways, float("inf"))
    for _ in range(NUM_TRIALS):
        for way in ways:
            torch.set_num_threads(way[0])
            least[way] = min(least[way], steps[way]())
        ways = [way for way in ways if least[way] < 2 * min(least.values())]
    count, memory_format = min(ways, key=least.get)
    torch.set_num_threads(count)
    description = f"threads: {count}, {str(memory_format).rpartition('.')[2]}"
    return memory_format, description


def trial(arguments, arrays, memory_format):
    """A function that trains some steps of its own network and returns the seconds."""
    network, batches = prepare(arguments, arrays, memory_format)
    step, batches = Step(network), iter(batches)

    def run_steps() -> float:
        start = time.perf_counter()
        for _ in range(STEPS_PER_TRIAL[arguments.network]):
            step(*next(batches))
        return time.perf_counter() - start

    run_steps()
    return run_steps


def plain(network, batches, should_continue) -> None:
    """The usual loop and nothing else.

    Args:
        should_continue: steps so far -> whether to train further.
    """
    step = Step(network)
    for count, batch in enumerate(batches, start=1):
        step(*batch)
        if not should_continue(count):
            break


def compile_and_train(network, batches, should_continue) -> None:
    plain(torch.compile(network), batches, should_continue)


def lightning(package, quiet, network, batches, should_continue) -> None:
    """A Trainer with everything switched off that can be."""

    class Model(package.LightningModule):
        def __init__(self):
            super().__init__()
            self.network, self.steps = network, 0

        def training_step(self, batch, index):
            images, labels = batch
            return nn.functional.cross_entropy(self.network(images), labels)

        def configure_optimizers(self):
            return adam(self.parameters())

        def on_train_batch_end(self, *_):
            self.steps += 1
            self.trainer.should_stop = not should_continue(self.steps)

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

    switches = ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary")
    quiet = dict(dict.fromkeys(switches, False), num_sanity_val_steps=0)
    return functools.partial(lightning, package, quiet)


# name -> a function that imports what it needs and returns the training function
CONTENDERS = {
    "plain": lambda: plain,
    "compiled": lambda: compile_and_train,
    "lightning": lightning_2,
    "pytorch_lightning": lightning_1,
}


def prepare(arguments, arrays, memory_format):
    network = network_of(arguments.network).to(memory_format=memory_format)
    return network, Batches(arrays, arguments.batch_size, memory_format)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("contender", choices=sorted(CONTENDERS))
    parser.add_argument("--network", default="mlp", choices=sorted(NETWORKS))
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--folder", help="folder of digits.npz")
    arguments = parser.parse_args()
    link = Link()
    train = CONTENDERS[arguments.contender]()
    arrays = Arrays(arguments.folder)
    link.mark("import")
    network, batches = prepare(arguments, arrays, torch.contiguous_format)
    link.mark("build")
    train(network, batches, lambda count: False)
    link.mark("step")
    memory_format, way = fastest_way(arguments, arrays)
    train(
        *prepare(arguments, arrays, memory_format), functools.partial(link.should_continue, way=way)
    )


if __name__ == "__main__":
    main()
