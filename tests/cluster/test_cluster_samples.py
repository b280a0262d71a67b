"""The files of samples/cluster are valid, and start the processes of one cluster.

`sample_fixtures.py` reads them; the batch script runs with the fake commands of `fake_slurm.py`.
"""

import glob
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile

import pytest
from environment_fixtures import SOURCES, wheels_of
from file_fixtures import REPOSITORY
from sample_fixtures import (
    SCRIPT,
    Process,
    container_of,
    pod_of,
    read_objects,
    read_pods,
    read_sample,
    submit,
)

from toolkit import errors
from toolkit.cluster.definition import read_cluster
from toolkit.cluster.tasks import ClusterSettings

SAMPLES_IN_TEMPLATES = {"plugins": "plugins", "vae/toolkit_vae": "vae/toolkit_vae"}
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


def retryable_codes():
    """The exit codes after which another try makes sense: interrupted, killed, try again."""
    return {130, 137, 143, errors.RetryError.exit_code}


def permanent_codes():
    """The exit codes of the toolkit after which another try would fail again."""
    classes = [value for value in vars(errors).values() if isinstance(value, type)]
    codes = {each.exit_code for each in classes if issubclass(each, errors.ToolkitError)}
    return codes - retryable_codes()


# ------------------------------------------------------------------------------------ Kubernetes


@pytest.fixture
def validate():
    """Check an object against the schemas of a version of Kubernetes."""
    import kubernetes_validate

    return kubernetes_validate.validate


@pytest.mark.skipif(
    sys.version_info < (3, 8),
    reason="kubernetes-validate, which has the schemas, needs Python 3.8",
)
@pytest.mark.parametrize("version", [OLDEST, NEWEST])
@pytest.mark.parametrize("kind", ["NetworkPolicy", "PersistentVolumeClaim", "Service", "Job"])
def test_an_object_fits_the_schema_of_kubernetes(validate, objects, kind, version):
    assert validate(objects[kind], version, strict=True) == version


def test_the_pods_are_one_cluster_whose_chief_is_pod_0(job):
    clusters = [cluster_of(pod) for pod in read_pods(job)]
    assert [cluster.rank for cluster in clusters] == [0, 1, 2]
    assert clusters[0].is_chief
    assert {json.dumps(cluster.jobs) for cluster in clusters} == {json.dumps(clusters[0].jobs)}


def test_a_pod_starts_a_command_that_the_toolkit_accepts(cli, here, job):
    for pod in read_pods(job):
        argv = [word.replace("/work/", "") for word in pod.argv]
        result = cli(*argv, "--print-config")
        assert result.code == 0, result.err
        assert re.search(r"^epochs +20\.0 +flag", result.out, re.M)
        assert re.search(rf"^cluster .*{pod.environ['JOB_COMPLETION_INDEX']}", result.out, re.M)


def test_the_ports_are_those_of_the_tasks_and_of_the_channel(objects, job):
    cluster = cluster_of(read_pods(job)[0])
    ports = {"tensorflow": 2222, "channel": 2223}
    assert {task.address.split(":")[1] for task in cluster.tasks} == {"2222"}
    assert cluster.channel_address == ("train-0.train", 2223)
    assert {p["name"]: p["containerPort"] for p in container_of(job)["ports"]} == ports
    assert {p["name"]: p["port"] for p in objects["Service"]["spec"]["ports"]} == ports


def test_the_policy_for_failures_knows_every_exit_code(job):
    rules = job["spec"]["podFailurePolicy"]["rules"]
    codes = {rule["action"]: set(rule["onExitCodes"]["values"]) for rule in rules[::2]}
    assert codes["Count"] == retryable_codes()
    assert codes["FailJob"] == permanent_codes() | {126, 127, 128, 134, 135, 139}
    assert job["spec"]["backoffLimit"] >= job["spec"]["completions"]
    assert pod_of(job)["restartPolicy"] == "Never"


# ------------------------------------------------------------------------------------ Dockerfile


def test_the_image_copies_what_the_package_is_built_from():
    copies = re.findall(r"^COPY (.*) /src/", read_sample("Dockerfile"), re.M)
    assert {source for sources in copies for source in sources.split()} == set(SOURCES)


def test_the_wheel_from_these_sources_is_the_whole_package(installed):
    (wheel,) = [path for path in wheels_of(installed) if "toolkit-" in os.path.basename(path)]
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    expected = {
        os.path.relpath(os.path.join(folder, name), root)
        for root in package_roots()
        for folder, _, files in os.walk(root)
        for name in files
        if is_of_a_package(os.path.relpath(os.path.join(folder, name), root))
    }
    for package, folder in SAMPLES_IN_TEMPLATES.items():
        modules = glob.glob(os.path.join(REPOSITORY, "samples", folder, "*.py"))
        expected |= {f"toolkit/templates/{package}/{os.path.basename(path)}" for path in modules}
    assert names == expected


def package_roots():
    """The folders of the packages of this distribution."""
    plugins = os.path.join(REPOSITORY, "plugins")
    folders = [os.path.join(plugins, name) for name in os.listdir(plugins)]
    return [REPOSITORY, *(f for f in folders if not os.path.exists(f"{f}/pyproject.toml"))]


def is_of_a_package(path):
    is_asset = os.path.dirname(path).endswith("assets") or os.path.basename(path) == "py.typed"
    is_source = path.endswith((".py", ".template", ".toml"))
    return (is_source or is_asset) and re.match(r"toolkit(_\w+)?/", path) is not None


# ----------------------------------------------------------------------------------------- Slurm


def tasks_of(job):
    """The processes of a job whose command `toolkit` prints what it sees."""
    lines = [line for line in job.log.splitlines() if line.startswith("[")]
    processes = [Process(*json.loads(line)) for line in lines]
    return sorted(processes, key=lambda process: int(process.environ["SLURM_PROCID"]))


def test_the_script_passes_shellcheck():
    folders = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    program = shutil.which("shellcheck", path=folders)
    result = subprocess.run([program, SCRIPT], stdout=subprocess.PIPE)
    assert result.returncode == 0, result.stdout.decode()


def test_the_tasks_are_one_cluster_whose_chief_is_task_0(tmp_path):
    job = submit(tmp_path, PRINT_TASK, nodes=["node1", "node2", "node3"])
    clusters = [cluster_of(process) for process in tasks_of(job)]
    assert [cluster.rank for cluster in clusters] == [0, 1, 2], job.log
    assert {json.dumps(cluster.jobs) for cluster in clusters} == {json.dumps(clusters[0].jobs)}
    hosts = [task.address.split(":")[0] for task in clusters[0].tasks]
    assert hosts == ["node1", "node2", "node3"]


def test_a_task_starts_a_command_that_the_toolkit_accepts(tmp_path, cli, here):
    (task,) = tasks_of(submit(tmp_path, PRINT_TASK))
    result = cli(*task.argv, "--print-config")
    assert result.code == 0, result.err
    assert re.search(r"^epochs +20\.0 +flag", result.out, re.M)


@pytest.mark.parametrize("code", [0, *sorted(permanent_codes() | retryable_codes())])
def test_a_job_is_queued_again_if_it_may_succeed_later(tmp_path, code):
    job = submit(tmp_path, f"exit {code}", tasks_per_node=2)
    assert job.code == code
    assert job.requests == ([["requeue", "77"]] if code in retryable_codes() else [])


def test_a_task_that_is_killed_has_the_job_queued_again(tmp_path):
    job = submit(tmp_path, '[ "$SLURM_PROCID" = 0 ] && exit 138; kill -KILL $$', tasks_per_node=2)
    assert job.code == 138
    assert job.requests == [["requeue", "77"]]


@pytest.mark.parametrize("restarts, requests", [("19", [["requeue", "77"]]), ("20", [])])
def test_a_job_is_not_queued_again_for_ever(tmp_path, restarts, requests):
    job = submit(tmp_path, "exit 138", SLURM_RESTART_COUNT=restarts)
    assert job.code == 138
    assert job.requests == requests
