"""Fixtures for the tests of clusters."""

from __future__ import annotations

import pytest
from channel_fixtures import Job

from toolkit.cluster import channel


@pytest.fixture
def make_job(monkeypatch):
    """Make a job of threads; its channels are closed after the test."""
    jobs = []
    monkeypatch.setattr(channel, "_LATE_SECS", 3.0)

    def make(*args, **settings):
        jobs.append(Job(*args, **settings))
        return jobs[-1]

    yield make
    monkeypatch.setattr(channel, "_LATE_SECS", 0.0)
    for job in jobs:
        job.close()
