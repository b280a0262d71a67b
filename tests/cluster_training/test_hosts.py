"""Two hosts: network namespaces with a cable between them. Needs root and the command `ip`."""

import json
import os
import shutil
import subprocess
import sys

import pytest
from job_fixtures import Job
from process_fixtures import PATIENCE, end_with_test

from toolkit.child_process import COMMAND_LINE, python_code

CABLE = ("end0", "end1")  # the names of its interfaces
ADDRESSES = ("10.77.0.1", "10.77.0.2")
COMMAND = f"import silence_fixtures; silence_fixtures.install(); {COMMAND_LINE}"
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

    def start(self, folder, *flags):
        """Start `toolkit run` in each namespace, with a working directory of its own."""
        job = Job()
        for number in range(2):
            path = folder / str(number)
            path.mkdir()
            job.start(number, "--run-dir", "run", *FLAGS, *flags, start=self._start, cwd=str(path))
        return job

    def _start(self, *words, cwd, **streams):
        number = int(os.path.basename(cwd))
        cluster = {"worker": [f"{address}:2222" for address in ADDRESSES]}
        config = {"cluster": cluster, "task": {"type": "worker", "index": number}}
        settings = {"TOOLKIT_JOIN_SECS": str(PATIENCE), "TOOLKIT_PEER_SECS": str(PATIENCE)}
        command = ["ip", "netns", "exec", self.names[number], sys.executable, "-c"]
        command += [python_code(COMMAND), "run", "--plugin", "classifier", *words]
        env = dict(os.environ, TF_CONFIG=json.dumps(config), **settings)
        return end_with_test(subprocess.Popen(command, cwd=cwd, env=env, **streams))


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


def test_two_hosts_train_and_share_no_folder(hosts, here):
    assert "reached step 30" in hosts.start(here, "--steps", "30").succeed()[0].out
    assert (here / "0" / "run" / "commits.jsonl").exists()
    assert not (here / "1" / "run").exists()


def test_a_cable_that_is_pulled_ends_both_hosts(hosts, here):
    job = hosts.start(here, "--steps", "1000000")
    job.wait_for_line("step 10/", 0)
    hosts.pull_the_cable()
    for number in range(2):
        (here / str(number) / "silent").write_text(f"worker {1 - number}")
    for number, ended in job.check_codes({0: 138, 1: 138}).items():
        other = 1 - number
        text = f"worker {other} ({ADDRESSES[other]}:2222) has not answered for {PATIENCE:g} s."
        assert text in ended.err
