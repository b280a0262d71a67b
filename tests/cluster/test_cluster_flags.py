"""The flags of `run` and `resume` that say which task of which cluster a process is."""

import pytest
from linear_fixtures import LINEAR

from toolkit.cli.cluster_run import cluster_flags, pop_cluster
from toolkit.cluster.tasks import ClusterSettings

PRINT = ["run", "--plugin", LINEAR, "--print-config"]
JOBS = '{"chief": ["a:2222"], "worker": ["b:2222", "c:2222"]}'
SETTINGS = ["--channel-port", "7", "--join-secs", "30", "--peer-secs", "2.5"]


@pytest.fixture
def read(here):
    """A function that reads the cluster of a command with some flags."""
    import click

    def call(*argv):
        @click.command()
        @cluster_flags
        def command(**flags):
            result = pop_cluster(flags)
            assert flags == {}
            return result

        return command.main(args=list(argv), standalone_mode=False)

    return call


def test_flags_become_settings_and_each_has_a_variable(read, monkeypatch):
    cluster = read("--cluster", JOBS, "--task", "chief", *SETTINGS)
    assert cluster.settings == ClusterSettings(JOBS, "chief", 7, 30.0, 2.5)
    monkeypatch.setenv("TOOLKIT_CLUSTER", JOBS)
    monkeypatch.setenv("TOOLKIT_TASK", "chief")
    for name, value in zip(SETTINGS[::2], SETTINGS[1::2]):
        monkeypatch.setenv("TOOLKIT_" + name[2:].upper().replace("-", "_"), value)
    assert read() == cluster
    assert read("--task", "worker:0", "--peer-secs", "9").settings.peer_secs == 9.0
    monkeypatch.setenv("TOOLKIT_PEER_SECS", "")
    assert read().settings.peer_secs == ClusterSettings().peer_secs


@pytest.mark.parametrize(
    "flag, value",
    [
        *(("--channel-port", value) for value in ("0", "65536")),
        *(("--join-secs", value) for value in ("0", "2000000.0")),
        *(("--peer-secs", value) for value in ("1.9", "nan")),
    ],
)
def test_a_wrong_number_is_refused(cli, flag, value):
    result = cli.refuse(2, f"'{flag}'", *PRINT, f"{flag}={value}")
    assert result.out == "" and value in result.err


def test_the_configuration_shows_the_cluster(cli, monkeypatch):
    assert "cluster" not in cli(*PRINT, "--json").json()
    task = '{"type": "worker", "index": 1}'
    monkeypatch.setenv("TF_CONFIG", f'{{"cluster": {JOBS}, "task": {task}}}')
    rows = cli(*PRINT, "--json").json()
    assert rows["cluster"] == {"value": "worker 1 of chief + 2 workers", "origin": "TF_CONFIG"}
    (line,) = [line for line in cli(*PRINT).out.splitlines() if line.startswith("cluster ")]
    assert line.split(maxsplit=1)[1] == "worker 1 of chief + 2 workers  TF_CONFIG"


@pytest.mark.parametrize("command", ["run", "resume"])
def test_a_mistake_in_the_cluster_ends_the_command_before_the_work(
    cli, trained, monkeypatch, command
):
    words = ["run", "--plugin", LINEAR, "--data", "npz:none.npz", "--run-dir", "r"]
    monkeypatch.setenv("TF_CONFIG", f'{{"cluster": {JOBS}}}')
    text = "Error: TF_CONFIG has a cluster but no task.\nAdd the task of "
    result = cli.refuse(2, text, *(words if command == "run" else ["resume", trained / "run"]))
    assert result.out == ""


def test_other_commands_read_no_cluster(cli, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", "nonsense")
    cli.succeed("plugins", "list")
    cli.succeed("run", "--help")
