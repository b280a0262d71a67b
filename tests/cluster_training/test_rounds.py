"""Rounds of asynchronous steps: a parameter server and workers, each a server of this process."""

from __future__ import annotations

import functools
import itertools
from typing import Any, NamedTuple

import numpy as np
import pytest
from graph_fixtures import Spec, make_plugin
from process_fixtures import free_port, run_threads
from reads_fixtures import COUNTS, STATE, Reads

from toolkit import tf
from toolkit.data.readers.reader import ReaderOptions, make_reader
from toolkit.graph.build import build_training
from toolkit.graph.replica import Replica
from toolkit.graph.run import Run
from toolkit.graph.step_strategy import AsynchronousStep
from toolkit.options import resolve
from toolkit.plugins import Plugins
from toolkit.training.parameter_servers import TicketRunner

BATCH = 8
EPOCH = COUNTS["train"] // BATCH  # steps


class Worker(NamedTuple):
    kind: str  # of the reader
    session: Any
    graph: Any
    reader: Any
    runner: TicketRunner

    def values(self):
        """The global step, and how often each example was read."""
        with self.graph.tf_graph.as_default():
            reads = next(v for v in tf.global_variables() if v.op.name == STATE)
            return self.session.run([tf.train.get_global_step(), reads])

    def first_reads(self, count):
        """How often each example is read in the first batches, by the reader of one process."""
        with tf.Graph().as_default(), tf.Session() as session:
            reader = make_reader(Reads().data("train"), BATCH, ReaderOptions(self.kind, 3))
            number = tf.placeholder(tf.int64, [])
            positions = reader.positions(number)
            reader.initialize(session)
            rows = [session.run(positions, {number: i}) for i in range(count)]
        return np.bincount(np.concatenate(rows), minlength=COUNTS["train"])


@pytest.fixture(scope="module")
def servers():
    """Job -> the server of its only task; TensorFlow cannot stop one."""
    jobs = {job: [f"127.0.0.1:{free_port()}"] for job in ("ps", "chief", "worker")}
    cluster = tf.train.ClusterSpec(jobs)
    return {job: tf.train.Server(cluster, job_name=job, config=_config(job)) for job in jobs}


def _config(job):
    filters = [f"/job:{job}/task:0", "/job:ps"]
    return tf.ConfigProto(allow_soft_placement=True, device_filters=filters)


@pytest.fixture
def workers(servers):
    """The chief and a worker, with the variables of step 0."""
    workers = []

    def start(kind="resident", **options):
        for rank, job in enumerate(("chief", "worker")):
            workers.append(_start(servers[job], job, rank, kind, options))
        return workers

    yield start
    for worker in workers:
        worker.session.close()


def _start(server, job, rank, kind, options):
    split, plugins = Reads().data("train"), Plugins(make_plugin(Reads), [])
    resolved = resolve(plugins.options(), [("test", {"seed": 3, **options})]).options
    strategy = AsynchronousStep(f"/job:{job}/task:0", 1)
    tf_graph = tf.Graph()
    with tf_graph.as_default(), tf.device(strategy.input_device):
        reader = make_reader(split, BATCH, ReaderOptions(kind, 3, by_number=True))
    replica = Replica(rank, 1, BATCH, is_asynchronous=True)
    run = Run("train", resolved, Spec(), None, 10 * EPOCH, strategy, replica=replica)
    graph = build_training(plugins, run, reader, tf_graph)
    session = tf.Session(server.target, tf_graph, _config(job))
    if rank == 0:
        with tf_graph.as_default():
            session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
    reader.initialize(session, 0)
    return Worker(kind, session, graph, reader, TicketRunner(session, graph))


def run_round(workers, first, until, should_interrupt=lambda: False):
    """Run a round on all workers, each in a thread. Returns their shares."""
    workers[0].runner.open(first)
    run = [functools.partial(each.runner.run, until, should_interrupt) for each in workers]
    return run_threads(run)


@pytest.mark.parametrize("kind", ["resident", "stream"])
def test_the_workers_of_a_round_read_each_batch_once(workers, kind):
    team = workers(kind)
    shares = run_round(team, 0, 2 * EPOCH - 3)
    assert sum(share.num_steps for share in shares) == 2 * EPOCH - 3
    step, reads = team[1].values()
    assert step == 2 * EPOCH - 3
    np.testing.assert_array_equal(reads, team[0].first_reads(step))
    run_round(team, step, 2 * EPOCH)
    step, reads = team[0].values()
    assert step == 2 * EPOCH and set(reads) == {2}


def test_a_round_that_one_process_ends_early_has_made_the_first_of_its_steps(workers):
    team = workers()
    calls = itertools.count()

    def interrupts_after_five():
        return next(calls) >= 5

    shares = run_round(team, 0, 10 * EPOCH, interrupts_after_five)
    step, reads = team[0].values()
    assert 5 <= step < 10 and step == sum(share.num_steps for share in shares)
    np.testing.assert_array_equal(reads, team[0].first_reads(step))
    # The next round begins behind it.
    run_round(team, step, EPOCH)
    assert set(team[0].values()[1]) == {1}


def test_a_refused_step_ends_the_round_for_all_and_changes_nothing(workers):
    team = workers("stream", poison=17)
    first, second = run_round(team, 0, EPOCH)
    (refused,) = {first.refused_step, second.refused_step} - {None}
    assert None in (first.refused_step, second.refused_step)
    assert (first.refusal or second.refusal)[0].loss == "nan"
    step, reads = team[0].values()
    num_tickets = step + 1  # all that were taken are used, but for that one
    expected = team[0].first_reads(num_tickets) - team[0].first_reads(refused)
    expected += team[0].first_reads(refused - 1) if refused > 1 else 0
    np.testing.assert_array_equal(reads, expected)
    assert reads[17] == 0


def test_with_the_policy_skip_a_refused_step_is_counted_and_the_round_goes_on(workers):
    team = workers(poison=17, on_nonfinite="skip")
    shares = run_round(team, 0, EPOCH)
    assert sum(share.num_steps for share in shares) == EPOCH
    step, reads = team[1].values()
    assert step == EPOCH and sum(reads) == COUNTS["train"] - BATCH


def test_the_learning_rate_of_a_step_follows_from_its_ticket(workers):
    for worker in workers(schedule="cosine", learning_rate=1.0):
        rate = worker.graph.step.logged["learning_rate"]
        number = worker.graph.run._builder.strategy.tickets.number
        rates = [worker.session.run(rate, {number: ticket}) for ticket in (0, 5 * EPOCH)]
        np.testing.assert_allclose(rates, [1.0, 0.5])
