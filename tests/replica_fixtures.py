"""Replicas in one process: each has a server of TensorFlow on loopback; sessions run at once."""

from __future__ import annotations

import threading

from process_fixtures import PATIENCE, free_port

from toolkit import tf
from toolkit.cluster.server import configure, start_server
from toolkit.cluster.tasks import Cluster, ClusterSettings, Task
from toolkit.launch.ports import LOOPBACK


class Replicas:
    """Sessions of several replicas.

    Args:
        count: how many.
    """

    def __init__(self, count):
        addresses = [f"{LOOPBACK}:{free_port()}" for _ in range(count)]
        self.clusters = [
            Cluster({"worker": addresses}, Task("worker", rank, address), ClusterSettings())
            for rank, address in enumerate(addresses)
        ]
        self._configs = [configure(tf.ConfigProto(), cluster) for cluster in self.clusters]
        pairs = zip(self.clusters, self._configs)
        self._servers = [start_server(cluster, config) for cluster, config in pairs]

    def run(self, build):
        """The values of what `build(rank)` returns, for each replica.

        Args:
            build: builds a graph in the default graph, and returns what to fetch.
        """
        results, errors = {}, []
        graphs = [tf.Graph() for _ in self.clusters]
        fetches = []
        for rank, graph in enumerate(graphs):
            with graph.as_default():
                fetches.append((build(rank), tf.global_variables_initializer()))

        def work(rank):
            try:
                results[rank] = self._run(rank, graphs[rank], *fetches[rank])
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=work, args=[rank]) for rank in range(len(graphs))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        if errors:
            raise errors[0]
        return [results[rank] for rank in range(len(graphs))]

    def _run(self, rank, graph, fetches, initializer):
        target, config = self._servers[rank].target, self._configs[rank]
        with tf.Session(target, graph=graph, config=config) as session:
            session.run(initializer)
            return session.run(fetches)
