"""Fixtures for the tests of clusters."""

import pytest
from channel_fixtures import Job
from process_fixtures import PATIENCE

from toolkit.cluster import channel


@pytest.fixture
def make_job(monkeypatch):
    """Make a job of threads; its channels are closed after the test."""
    jobs = []
    monkeypatch.setattr(channel, "_ANSWER_SECS", PATIENCE)

    def make(*args, **settings):
        jobs.append(Job(*args, **settings))
        return jobs[-1]

    yield make
    for job in jobs:
        job.clock.stop_waiting()
        job.close()
