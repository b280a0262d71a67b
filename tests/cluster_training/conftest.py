"""Makes the fixtures of this folder importable, and ends the processes of each test."""

import os
import sys

import pytest

sys.path.insert(0, os.path.dirname(__file__))


@pytest.fixture
def start(here):
    """A function that starts a cluster as `LocalCluster`, which ends with the test."""
    from cluster_fixtures import LocalCluster

    clusters = []

    def start_cluster(*arguments, **settings):
        clusters.append(LocalCluster(*arguments, **settings))
        return clusters[-1]

    yield start_cluster
    for cluster in clusters:
        cluster.kill_all()
