"""Two hosts: network namespaces with a cable between them. Needs root and the command `ip`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time

import pytest

CABLE = ("end0", "end1")  # the names of its interfaces
ADDRESSES = ("10.77.0.1", "10.77.0.2")
END_SECS = 30  # the watch takes 6 s and a grace; the rest is for a busy machine
FLAGS = ["--network", "mlp", "--log-steps", "10", "--no-evaluate"]


def ip(*words):
    subprocess.run(["ip", *words], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


class Hosts:
    """Two network namespaces with the ends of one cable."""

    def __init__(self):
        self.names = [f"toolkit-{os.getpid()}-{number}" for number in range(2)]

    def create(self):
        for name in self.names:
            ip("netns", "add", name)
        first, second = (["name", end, "netns", name] for end, name in zip(CABLE, self.names))
        ip("link", "add", *first, "type", "veth", "peer", *second)
        for name, interface, address in zip(self.names, CABLE, ADDRESSES):
            ip("-n", name, "addr", "add", f"{address}/24", "dev", interface)
            ip("-n", name, "link", "set", "lo", "up")
            ip("-n", name, "link", "set", interface, "up")

    def pull_the_cable(self):
        ip("-n", self.names[1], "link", "set", CABLE[1], "down")

    def remove(self):
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], stderr=subprocess.DEVNULL)

    def start(self, number, folder, *flags):
        """Start `toolkit run` in a namespace, which also has its own working directory."""
        cluster = {"worker": [f"{address}:2222" for address in ADDRESSES]}
        config = {"cluster": cluster, "task": {"type": "worker", "index": number}}
        words = ["run", "--plugin", "classifier", "--run-dir", "run", *FLAGS, *flags]
        path = folder / str(number)
        path.mkdir()
        with open(str(path / "log"), "w") as log:
            return subprocess.Popen(
                [
                    "ip",
                    "netns",
                    "exec",
                    self.names[number],
                    sys.executable,
                    "-m",
                    "toolkit",
                    *words,
                ],
                cwd=str(path),
                env=dict(os.environ, TF_CONFIG=json.dumps(config)),
                stdout=log,
                stderr=log,
            )


@pytest.fixture
def hosts():
    hosts = Hosts()
    try:
        if shutil.which("ip") is None:
            pytest.skip("no command 'ip'")
        try:
            hosts.create()
        except subprocess.CalledProcessError as error:
            pytest.skip(f"no network namespaces: {error.stderr.decode().strip()}")
        yield hosts
    finally:
        hosts.remove()


def log_of(folder, number):
    return (folder / str(number) / "log").read_text()


@pytest.mark.slow
def test_two_hosts_train_and_share_no_folder(hosts, tmp_path):
    processes = [hosts.start(number, tmp_path, "--steps", "30") for number in range(2)]
    assert [process.wait(200) for process in processes] == [0, 0], log_of(tmp_path, 0)
    assert "reached step 30" in log_of(tmp_path, 0)
    assert (tmp_path / "0" / "run" / "commits.jsonl").exists()
    assert not (tmp_path / "1" / "run").exists()


@pytest.mark.slow
def test_a_cable_that_is_pulled_ends_both_hosts(hosts, tmp_path):
    processes = [hosts.start(number, tmp_path, "--steps", "1000000") for number in range(2)]
    try:
        deadline = time.monotonic() + 200
        while "step 10/" not in log_of(tmp_path, 0) and time.monotonic() < deadline:
            assert processes[0].poll() is None, log_of(tmp_path, 0)
            time.sleep(0.1)
        hosts.pull_the_cable()
        assert [process.wait(END_SECS) for process in processes] == [138, 138]
    finally:
        for process in processes:
            process.kill()
    for number in range(2):
        other = 1 - number
        text = f"worker {other} ({ADDRESSES[other]}:2222) has not answered for 6 s."
        assert text in log_of(tmp_path, number)
