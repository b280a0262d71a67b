"""The samples of samples/cluster train: all of their processes run on this machine."""

import contextlib
import os
import socket
import sys

import pytest
from file_fixtures import read_json
from job_fixtures import Job, wait_at, write_waiting
from process_fixtures import free_port
from sample_fixtures import REPOSITORY, read_objects, read_pods, read_sample, submit

from toolkit.cluster import slurm
from toolkit.storage.run_folder import RunFolder

SHORT = ["--network=mlp", "--steps=300", "--checkpoint-steps=100"]
PYTHON = f'PYTHONPATH="{REPOSITORY}" exec "{sys.executable}" -m toolkit "$@"\n'
DIE_ONCE = f"""
if [ "$SLURM_PROCID" = 1 ] && [ -z "$SLURM_RESTART_COUNT" ]; then
    ( {PYTHON.strip()} ) &
    until [ -e waits ] || ! kill -0 $!; do sleep 0.02; done
    kill -SIGNAL $!
    rm "wait at"
    wait $!
    exit $?
fi
{PYTHON}"""


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    """The batch script with a run that is short."""
    text = read_sample("slurm.sh")
    assert text.count(" --epochs 20\n") == 1
    path = tmp_path_factory.mktemp("script") / "slurm.sh"
    path.write_text(text.replace(" --epochs 20\n", f" {' '.join(SHORT)} --with ./waiting.py\n"))
    return str(path)


@pytest.fixture(scope="module")
def number():
    """The number of a job whose ports no other test has: who has it binds the last one of them."""
    with socket.socket() as bound:
        for number in map(str, range(1, 160)):
            with contextlib.suppress(OSError):
                bound.bind(("127.0.0.1", slurm._first_port({"SLURM_JOB_ID": number}) + 127))
                yield number
                return


def submit_two_tasks(folder, command, script, number, **variables):
    write_waiting(folder)
    variables["SLURM_JOB_ID"] = number
    return submit(folder, command, tasks_per_node=2, script=script, **variables)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory, script, number):
    """The folder of a job of two tasks that ended well."""
    folder = tmp_path_factory.mktemp("job")
    job = submit_two_tasks(folder, PYTHON, script, number)
    assert (job.code, job.requests) == (0, []), job.log
    return folder


def tensors_of(run):
    """The hash of the last checkpoint of a run that is finished."""
    assert read_json(run, "manifest.json")["status"] == "finished"
    return RunFolder(str(run)).checkpoints.list()[-1].tensors


@pytest.mark.parametrize("signal, code", [("KILL", 138), ("TERM", 143)])
def test_a_job_with_a_signal_continues_to_the_same_bits(
    tmp_path, script, number, undisturbed, signal, code
):
    command = DIE_ONCE.replace("SIGNAL", signal)
    wait_at(130, tmp_path)  # after the first checkpoint
    first = submit_two_tasks(tmp_path, command, script, number)
    assert (first.code, first.requests) == (code, [["requeue", number]]), first.log
    second = submit_two_tasks(tmp_path, command, script, number, SLURM_RESTART_COUNT="1")
    assert second.code == 0, second.log
    run, other = (folder / "runs" / "digits" for folder in (tmp_path, undisturbed))
    assert tensors_of(run) == tensors_of(other)


def test_the_pods_of_the_manifest_train(here, tmp_path):
    pods = read_pods(read_objects()["Job"])
    ports, channel = [free_port() for _ in pods], free_port()
    job = Job()
    for number, pod in enumerate(pods):
        argv = [on_this_machine(word, tmp_path, ports) for word in pod.argv]
        argv = [word for word in argv if not word.startswith("--epochs=")]
        environ = {**os.environ, **pod.environ, "TOOLKIT_CHANNEL_PORT": str(channel)}
        job.start(number, *argv, *SHORT, cwd=str(tmp_path), env=environ)
    job.succeed()
    assert tensors_of(tmp_path / "digits")


def on_this_machine(word, folder, ports):
    """An argument of a pod with a folder and addresses of this machine."""
    word = word.replace("--run-dir=/work/", f"--run-dir={folder}/")
    for index, port in enumerate(ports):
        word = word.replace(f"train-{index}.train:2222", f"127.0.0.1:{port}")
    return word
