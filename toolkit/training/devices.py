"""Several devices of one machine that train together, each a replica, in one process.

Each replica is built as in a cluster, then copied into the graph of the first one, whose session
trains all. Hooks, checkpoints and evaluations see the first alone.
"""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Dict, Iterator, List, Tuple

import numpy as np

from ..compat import count_gpus, tf
from ..errors import UsageError
from ..graph.replica import Replica, meet
from ..graph.replica_copy import CPU, GPU, ReplicaCopy, ReplicaDevice, ReplicaSession
from ..graph.step_sums import StepSums
from ..options import CoreOptions
from . import variable_values
from .peers import NoPeers, Place, check_hashes, describe_replicas
from .step_mode import TrainingPlan


def open_devices(options: CoreOptions) -> NoPeers:
    """The devices on which a process trains, or no peers if it is one. Raises UsageError if the
    machine has GPUs, but fewer.
    """
    if options.devices == 1:
        return NoPeers()
    num_gpus = count_gpus()
    if 0 < num_gpus < options.devices:
        noun = "GPU" if num_gpus == 1 else "GPUs"
        raise UsageError(
            f"--devices is {options.devices}, and this machine has {num_gpus} {noun}.",
            hint=f"Set --devices {num_gpus}; to try it on the processor, hide the {noun} with "
            "CUDA_VISIBLE_DEVICES=-1.",
        )
    return Devices(options.devices, GPU if num_gpus else CPU)


class Devices(NoPeers):
    """The other replicas of a process that trains on two or more devices of a kind, CPU or GPU."""

    def __init__(self, num_devices: int, kind: str = CPU):
        self.count = num_devices - 1
        self._devices = [ReplicaDevice(kind, number) for number in range(num_devices)]
        self._kind = kind
        self._others: List[Tuple[TrainingPlan, ReplicaCopy]] = []
        self._reader: Any = None  # of the first replica
        self._meetings: List[tf.Operation] = []
        self._has_failed = False  # a call, at any op of the others

    def place(self, options: CoreOptions) -> Place:
        """The first replica. Raises UsageError if the batch is too small for so many."""
        return Place(options, Replica(0, len(self._devices), options.batch_size))

    def facts(self) -> Dict[str, Any]:
        count = len(self._devices)
        return {"cluster": {"mode": "replicated", "replicas": count, "devices": count}}

    def describe(self, batch_size: int) -> List[str]:
        texts = [describe_replicas(batch_size, [device.name for device in self._devices])]
        if self._kind == CPU:
            texts.append("no GPU: the devices share the processor, which is a try-out, not faster")
        return texts

    def start(self, config: tf.ConfigProto) -> Tuple[str, tf.ConfigProto]:
        if self._kind == CPU:
            config.device_count[CPU] = len(self._devices)
        return "", config

    def complete(
        self, plan: TrainingPlan, build: Callable[[Replica], TrainingPlan]
    ) -> TrainingPlan:
        first, self._reader = plan.graph.run.replica, plan.reader
        for device in self._devices[1:]:
            other = build(Replica(device.number, first.count, first.batch_size))
            copy = ReplicaCopy(other.graph.tf_graph, plan.graph, device)
            self._others.append((other, copy))
        # The graph of the first replica, whose train op makes the steps of all.
        graph = plan.graph
        train_ops, averages = [graph.train_op], [*graph.averages]
        for other, copy in self._others:
            train_ops.append(copy.element(other.graph.train_op))
            averages += map(copy.element, other.graph.averages)
        with graph.tf_graph.as_default():
            for device in self._devices:
                with tf.device(device.place("")):
                    self._meetings.append(meet(len(self._devices)))
            train_op = tf.group(*train_ops, name="all_replicas")
            with tf.control_dependencies([train_op]):
                step_after = tf.identity(graph.step_after, name="all_replicas_step_after")
        return plan._replace(
            graph=graph._replace(train_op=train_op, step_after=step_after, averages=averages)
        )

    def begin(self, session: tf.Session, step: int) -> None:
        values = variable_values.read(session)
        for other, copy in self._others:
            own, collect = ReplicaSession(session, copy), copy.graph.get_collection
            # What a Saver does not restore.
            own.run(
                [variable.initializer for variable in collect(tf.GraphKeys.LOCAL_VARIABLES)]
                + collect(tf.GraphKeys.TABLE_INITIALIZERS)
            )
            variable_values.assign(own, values)
            other.reader.initialize(own, step)
        session.run(self._meetings)

    @contextlib.contextmanager
    def calling(self, command: str, num_steps: int = 1) -> Iterator[None]:
        try:
            yield
        except tf.errors.OpError:
            self._has_failed = True
            for other, _ in self._others:  # the loop asks the first reader why a read failed
                failure = getattr(other.reader, "failure", None)
                if failure is not None:
                    self._reader.failure = failure
            raise

    def assign_sums(self, session: tf.Session, sums: StepSums, rows: np.ndarray) -> None:
        super().assign_sums(session, sums, rows)
        for other, copy in self._others:
            super().assign_sums(ReplicaSession(session, copy), other.graph.sums, rows)

    def check_equal(self, session: tf.Session, step: int) -> None:
        """Compare the variables of all replicas. Raises ToolkitError where they differ.

        After a call that failed, the first alone has the state before the step.
        """
        if self._has_failed:
            return
        hashes = variable_values.hashes(session)
        for _, copy in self._others:
            others = variable_values.hashes(ReplicaSession(session, copy))
            check_hashes(copy.device.name, step, hashes, others)
