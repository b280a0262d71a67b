"""The batch script of samples/cluster trains: all of its processes run on this machine."""

from __future__ import annotations

import contextlib
import socket
import sys

from file_fixtures import read_json
from job_fixtures import wait_at, write_waiting
from sample_fixtures import REPOSITORY, read_sample, submit

from toolkit.cluster import slurm
from toolkit.storage.run_folder import RunFolder

SHORT = "--network=mlp --steps=300 --checkpoint-steps=100 --with ./waiting.py"
PYTHON = f'PYTHONPATH="{REPOSITORY}" exec "{sys.executable}" -m toolkit "$@"\n'
DIE_ONCE = f"""
if [ "$SLURM_PROCID" = 1 ] && [ -z "$SLURM_RESTART_COUNT" ]; then
    ( {PYTHON.strip()} ) &
    until [ -e waits ] || ! kill -0 $!; do sleep 0.02; done
    kill -KILL $!
    rm "wait at"
    wait $!
    exit $?
fi
{PYTHON}"""


def bind_number(bound):
    """The number of a job whose ports no other test has: who has it binds the last one of them."""
    for number in map(str, range(1, 160)):
        with contextlib.suppress(OSError):
            bound.bind(("127.0.0.1", slurm._first_port({"SLURM_JOB_ID": number}) + 127))
            return number
    raise AssertionError("no port is free")


def tensors_of(folder):
    """The hash of the last checkpoint of a run that is finished."""
    run = folder / "runs" / "digits"
    assert read_json(run, "manifest.json")["status"] == "finished"
    return RunFolder(str(run)).checkpoints.list()[-1].tensors


def test_a_job_with_a_killed_task_continues_to_the_same_bits(tmp_path):
    text = read_sample("slurm.sh")
    assert text.count(" --epochs 20\n") == 1
    script, folders = tmp_path / "slurm.sh", (tmp_path / "killed", tmp_path / "undisturbed")
    script.write_text(text.replace(" --epochs 20\n", f" {SHORT}\n"))
    for folder in folders:
        folder.mkdir()
        write_waiting(folder)
    wait_at(130, folders[0])  # after the first checkpoint
    with socket.socket() as bound:
        number = bind_number(bound)
        more = {"tasks_per_node": 2, "script": str(script), "SLURM_JOB_ID": number}
        first = submit(folders[0], DIE_ONCE, **more)
        assert (first.code, first.requests) == (138, [["requeue", number]]), first.log
        second = submit(folders[0], DIE_ONCE, SLURM_RESTART_COUNT="1", **more)
        undisturbed = submit(folders[1], PYTHON, **more)
    assert second.code == 0, second.log
    assert (undisturbed.code, undisturbed.requests) == (0, []), undisturbed.log
    assert tensors_of(folders[0]) == tensors_of(folders[1])
