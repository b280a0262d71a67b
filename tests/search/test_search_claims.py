"""Claims: one process at a time trains a trial, until it ends or seems dead."""

import os
import subprocess
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from toolkit.search.claims import (
    Claim,
    Owner,
    Watch,
    has_ended,
    live_claims,
    release_record,
    this_process,
)

unhurried = settings(
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
KEYS = [(0, 1, 0), (0, 2, 0), (1, 1, 0)]


def claim_of(key, token, host="elsewhere", pid=1):
    return Claim(key, token, Owner(f"owner of {token}", host, pid, "5"))


@st.composite
def histories(draw):
    """Records of claims with tokens of their own, and of releases of any of them."""
    records = []
    for number in range(draw(st.integers(0, 12))):
        if number and draw(st.booleans()):
            records.append(release_record(f"token {draw(st.integers(0, number - 1))}"))
        else:
            claim = claim_of(draw(st.sampled_from(KEYS)), f"token {number}")
            records.append(claim.as_record())
    return records


@unhurried
@given(histories())
def test_a_claim_holds_until_its_own_release(records):
    before = {}
    for count in range(1, len(records) + 1):
        after = live_claims(records[:count])
        last = records[count - 1]
        for key, claim in before.items():
            is_released = last["kind"] == "release" and last["token"] == claim.token
            assert (after.get(key) == claim) != is_released
        before = after


@unhurried
@given(histories())
def test_a_void_claim_never_holds_later(records):
    void = set()
    for count in range(1, len(records) + 1):
        tokens = {claim.token for claim in live_claims(records[:count]).values()}
        assert not tokens & void
        last = records[count - 1]
        if last["kind"] == "claim" and last["token"] not in tokens:
            void.add(last["token"])


def test_an_owner_is_dead_after_the_timeout_without_a_beat():
    now = [100.0]
    watch = Watch(timeout_secs=60, clock=lambda: now[0])
    owner = Owner("a", "elsewhere", 1, "5")
    watch.observe({"a": 1})
    assert not watch.is_dead(owner)
    now[0] += 59
    watch.observe({"a": 1})
    assert not watch.is_dead(owner)
    now[0] += 1
    watch.observe({"a": 2})
    assert not watch.is_dead(owner)
    now[0] += 60
    watch.observe({"a": 2})
    assert watch.is_dead(owner)


def test_the_time_in_which_nobody_could_beat_does_not_count():
    now = [0.0]
    watch = Watch(timeout_secs=60, clock=lambda: now[0])
    owner = Owner("a", "elsewhere", 1, "5")
    watch.observe({"a": 7})
    now[0] += 1000
    watch.forget()
    watch.observe({"a": 7})
    assert not watch.is_dead(owner)


def test_a_process_of_this_host_is_dead_when_it_has_ended():
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    with open(f"/proc/{process.pid}/stat") as file:
        start = file.read().rpartition(")")[2].split()[19]
    owner = this_process()._replace(pid=process.pid, start=start)
    assert not has_ended(owner)
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert has_ended(owner)  # a zombie: nobody has waited for it
    process.wait()
    process.stdin.close()
    assert has_ended(owner)


def test_another_process_with_the_same_id_is_not_the_owner():
    assert not has_ended(this_process())
    assert has_ended(this_process()._replace(start="1"))


@pytest.mark.parametrize("host", ["", "another machine"])
def test_of_another_host_nothing_is_known(host):
    assert not has_ended(Owner("a", host, 1 << 30, "5"))
