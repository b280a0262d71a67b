"""The files of samples/cluster are valid, and start the processes of one cluster.

`sample_fixtures.py` reads them; the batch script runs with the fake commands of `fake_slurm.py`.
"""

import json
import os
import re
import shutil
import subprocess
import sys

import pytest
from environment_fixtures import SOURCES
from sample_fixtures import SCRIPT, Process, read_objects, read_pods, read_sample, submit

from toolkit import errors
from toolkit.cluster.definition import read_cluster
from toolkit.cluster.tasks import ClusterSettings

OLDEST, NEWEST = "1.31", "1.37"  # versions of Kubernetes: the first with a success policy on
PRINT_TASK = f"""
exec "{sys.executable}" -c 'import json, os, sys
environ = {{k: v for k, v in os.environ.items() if k.startswith("SLURM")}}
print(json.dumps([sys.argv[1:], environ]), flush=True)' "$@"
"""


@pytest.fixture(scope="module")
def objects():
    return read_objects()


@pytest.fixture(scope="module")
def job(objects):
    return objects["Job"]


def cluster_of(process):
    settings = ClusterSettings(cluster=process.flag("--cluster"), task=process.flag("--task"))
    return read_cluster(settings, process.environ)


def clusters_of(processes):
    """The clusters of processes, which have the same jobs."""
    clusters = [cluster_of(process) for process in processes]
    assert all(cluster.jobs == clusters[0].jobs for cluster in clusters)
    return clusters


# The exit codes after which another try makes sense: interrupted, killed, try again.
RETRYABLE = {130, 137, 143, errors.RetryError.exit_code}
# Those of the toolkit after which another try would fail again.
PERMANENT = {
    each.exit_code
    for each in vars(errors).values()
    if isinstance(each, type) and issubclass(each, errors.ToolkitError)
} - RETRYABLE


@pytest.mark.skipif(
    sys.version_info < (3, 8), reason="kubernetes-validate, which has the schemas, needs Python 3.8"
)
@pytest.mark.parametrize("version", [OLDEST, NEWEST])
@pytest.mark.parametrize("kind", ["NetworkPolicy", "PersistentVolumeClaim", "Service", "Job"])
def test_an_object_fits_the_schema_of_kubernetes(objects, kind, version):
    import kubernetes_validate

    assert kubernetes_validate.validate(objects[kind], version, strict=True) == version


def test_the_pods_are_one_cluster_whose_chief_is_pod_0(job):
    clusters = clusters_of(read_pods(job))
    assert [cluster.rank for cluster in clusters] == [0, 1, 2] and clusters[0].is_chief


def test_a_pod_starts_a_command_that_the_toolkit_accepts(cli, here, job):
    for pod in read_pods(job):
        argv = [word.replace("/work/", "") for word in pod.argv]
        text = cli.succeed(*argv, "--print-config").out
        assert re.search(r"^epochs +20\.0 +flag", text, re.M)
        assert re.search(rf"^cluster .*{pod.environ['JOB_COMPLETION_INDEX']}", text, re.M)


def test_the_ports_are_those_of_the_tasks_and_of_the_channel(objects, job):
    cluster = cluster_of(read_pods(job)[0])
    ports = {"tensorflow": 2222, "channel": 2223}
    assert {task.address.split(":")[1] for task in cluster.tasks} == {"2222"}
    assert cluster.channel_address == ("train-0.train", 2223)
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert {p["name"]: p["containerPort"] for p in container["ports"]} == ports
    assert {p["name"]: p["port"] for p in objects["Service"]["spec"]["ports"]} == ports


def test_the_policy_for_failures_knows_every_exit_code(job):
    rules = job["spec"]["podFailurePolicy"]["rules"]
    codes = {rule["action"]: set(rule["onExitCodes"]["values"]) for rule in rules[::2]}
    assert codes["Count"] == RETRYABLE
    assert codes["FailJob"] == PERMANENT | {126, 127, 128, 134, 135, 139}
    assert job["spec"]["backoffLimit"] >= job["spec"]["completions"]
    assert job["spec"]["template"]["spec"]["restartPolicy"] == "Never"


def test_the_image_copies_what_the_package_is_built_from():
    copies = re.findall(r"^COPY (.*) /src/", read_sample("Dockerfile"), re.M)
    assert {source for sources in copies for source in sources.split()} == set(SOURCES)


def test_the_script_passes_shellcheck():
    folders = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    program = shutil.which("shellcheck", path=folders)
    result = subprocess.run([program, SCRIPT], stdout=subprocess.PIPE)
    assert result.returncode == 0, result.stdout.decode()


def test_the_tasks_are_one_cluster_whose_chief_is_task_0(tmp_path):
    job = submit(tmp_path, PRINT_TASK, nodes=["node1", "node2", "node3"])
    lines = [line for line in job.log.splitlines() if line.startswith("[")]
    processes = [Process(*json.loads(line)) for line in lines]
    clusters = clusters_of(processes)
    numbers = [int(process.environ["SLURM_PROCID"]) for process in processes]
    assert sorted(numbers) == [0, 1, 2], job.log
    assert [cluster.rank for cluster in clusters] == numbers
    hosts = [task.address.split(":")[0] for task in clusters[0].tasks]
    assert hosts == ["node1", "node2", "node3"]


REQUEUED = [["requeue", "77"]]


@pytest.mark.parametrize("code", [0, *sorted(PERMANENT | RETRYABLE)])
def test_a_job_is_queued_again_if_it_may_succeed_later(tmp_path, code):
    job = submit(tmp_path, f"exit {code}", tasks_per_node=2)
    assert (job.code, job.requests) == (code, REQUEUED if code in RETRYABLE else [])


def test_a_task_that_is_killed_has_the_job_queued_again(tmp_path):
    job = submit(tmp_path, '[ "$SLURM_PROCID" = 0 ] && exit 138; kill -KILL $$', tasks_per_node=2)
    assert (job.code, job.requests) == (138, REQUEUED)


@pytest.mark.parametrize("restarts, requests", [("19", REQUEUED), ("20", [])])
def test_a_job_is_not_queued_again_for_ever(tmp_path, restarts, requests):
    job = submit(tmp_path, "exit 138", SLURM_RESTART_COUNT=restarts)
    assert (job.code, job.requests) == (138, requests)
