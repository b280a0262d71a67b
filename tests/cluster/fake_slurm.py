"""The commands `srun` and `scontrol` of Slurm, on one machine: `fake_slurm.py srun WORDS`.

`srun` starts one process per task with the variables of a job step, waits for all, and ends with
the highest exit code, where a signal counts as 128 and its number. `scontrol` writes its arguments
to the file that FAKE_SLURM_REQUESTS names.
"""

import json
import os
import subprocess
import sys


def srun(words):
    while words and words[0].startswith("-"):
        assert words[0].startswith("--"), f"the form --name=value is expected: {words[0]}"
        words.pop(0)
    nodes = os.environ["SLURM_JOB_NODELIST"].split(",")
    per_node = int(os.environ["SLURM_NTASKS_PER_NODE"])
    processes = [
        subprocess.Popen(words, env=dict(os.environ, **step_variables(nodes, per_node, number)))
        for number in range(len(nodes) * per_node)
    ]
    codes = [process.wait() for process in processes]
    return max(128 - code if code < 0 else code for code in codes)


def step_variables(nodes, per_node, number):
    """The variables of a task of a job step, beside those of the job."""
    return {
        "SLURM_STEP_ID": "0",
        "SLURM_STEP_NODELIST": ",".join(nodes),
        "SLURM_STEP_NUM_TASKS": str(len(nodes) * per_node),
        "SLURM_STEP_TASKS_PER_NODE": f"{per_node}(x{len(nodes)})" if nodes[1:] else str(per_node),
        "SLURM_PROCID": str(number),
        "SLURM_LOCALID": str(number % per_node),
        "SLURM_NODEID": str(number // per_node),
    }


def scontrol(words):
    with open(os.environ["FAKE_SLURM_REQUESTS"], "a") as file:
        file.write(json.dumps(words) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit({"srun": srun, "scontrol": scontrol}[sys.argv[1]](sys.argv[2:]))
