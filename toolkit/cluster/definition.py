"""From TF_CONFIG, or --cluster and --task, to a checked definition of the cluster.

TensorFlow's `tf.distribute.cluster_resolver.TFConfigClusterResolver` does not serve. On both
versions it accepts addresses without a port, one address of two tasks, two chiefs, and the key
"clusters", with which each process trains alone; an empty TF_CONFIG and an index that is no number
end it with a traceback; and it imports TensorFlow, which `toolkit run --help` must not.
"""

from __future__ import annotations

import difflib
import json
import re
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Tuple

from ..errors import UsageError, suggest
from ..files import open_regular_file

JOBS = ("chief", "worker", "ps", "evaluator")
_SINGLE_JOBS = ("chief", "evaluator")  # have at most one task
_FORMER_NAMES = {"master": "chief"}  # of jobs
_MAX_BYTES = 1 << 20  # of a file
_MAX_CHARACTERS = 60  # of a value in a message
_MAX_TASKS = 5  # in a message
_LABEL = "[A-Za-z0-9_-]{1,63}"  # of a name; sockets take no other
_HOST = rf"{_LABEL}(?:\.{_LABEL})*\.?|\[[0-9A-Fa-f:.]+(?:%[A-Za-z0-9._-]+)?\]"
_ADDRESS = re.compile(f"({_HOST}):([0-9]{{1,5}})")
_INDEX = re.compile("[0-9]{1,6}")
_EXAMPLE = '{"worker": ["host1:2222", "host2:2222"]}'
_TASK_EXAMPLE = '{"type": "worker", "index": 0}'
_TF_CONFIG_EXAMPLE = f'{{"cluster": {_EXAMPLE}, "task": {_TASK_EXAMPLE}}}'

Jobs = Dict[str, List[str]]


@dataclass(frozen=True)  # a named tuple cannot have a field "index"
class Definition:
    """A cluster, and the task of this process in it.

    Attributes:
        source: what defines it: "TF_CONFIG", "--cluster" or "Slurm".
        jobs: the addresses of each job that has tasks, in the order of `JOBS`; {} for an evaluator
            that is outside of a cluster.
        job: of this process.
        index: of this process in its job.
    """

    source: str
    jobs: Jobs
    job: str
    index: int


def split_address(address: str) -> Tuple[str, int]:
    """The host and the port of "host:port"; an IPv6 address loses its brackets."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


# ------------------------------------------------------------------------------------- the sources


def read_tf_config(text: str) -> Optional[Definition]:
    """The cluster that a value of TF_CONFIG defines; None for one process alone.

    Raises:
        UsageError: the value is no definition of a cluster.
    """
    values = _parse_object(text, "TF_CONFIG", _TF_CONFIG_EXAMPLE)
    cluster, task = (values.get(key) or None for key in ("cluster", "task"))
    for key, value in (("cluster", cluster), ("task", task)):
        if value is None:
            _refuse_misspelt("TF_CONFIG", values, key)
    if cluster is None and task is None:
        return None
    if task is None:
        raise UsageError(
            "TF_CONFIG has a cluster but no task.",
            hint=f'Add the task of this process, for example "task": {_TASK_EXAMPLE}.',
        )
    job, index = _parse_task(task)
    jobs = {} if cluster is None else _parse_jobs(cluster, "TF_CONFIG: cluster", ".")
    if not jobs and job != "evaluator":
        raise UsageError(
            "TF_CONFIG has a task but no cluster.",
            hint=f'Add "cluster": {_EXAMPLE}, or unset TF_CONFIG to train alone.',
        )
    return _define("TF_CONFIG", "TF_CONFIG: task", jobs, job, index)


def read_flags(cluster: Optional[str], task: Optional[str]) -> Optional[Definition]:
    """The cluster that --cluster and --task define; None for one process alone.

    Args:
        cluster: JSON, or the path of a file; None without the flag.
        task: such as "worker:1"; None without the flag.

    Raises:
        UsageError: one of them is wrong or missing.
    """
    jobs = {} if cluster is None else _parse_cluster_flag(cluster)
    if not jobs and task is None:
        return None
    if task is None:
        raise UsageError(
            "--cluster is set, but --task, the task of this process, is not.",
            hint=f"Add the task of this process: --task {_list_tasks(jobs)}.",
        )
    job, index = _parse_task_flag(task)
    if not jobs and job != "evaluator":
        raise UsageError(
            "--task is set, but --cluster, the addresses of all tasks, is not.",
            hint=f"Add --cluster '{_EXAMPLE}', or omit --task to train alone.",
        )
    return _define("--cluster", "--task", jobs, job, index)


def _list_tasks(jobs: Jobs) -> str:
    """The values of --task for a cluster: "chief, worker:0 or worker:1"; of many, the first."""
    tasks = [
        job if job in _SINGLE_JOBS else f"{job}:{index}"
        for job, addresses in jobs.items()
        for index in range(len(addresses))
    ]
    if len(tasks) > _MAX_TASKS:
        tasks[_MAX_TASKS:] = [f"another of {len(tasks)}"]
    return " or ".join([", ".join(tasks[:-1]), tasks[-1]] if len(tasks) > 1 else tasks)


def _parse_cluster_flag(text: str) -> Jobs:
    """The jobs in the JSON, or in the file, that --cluster names; {} if it has none."""
    source = "--cluster"
    if not text.lstrip().startswith(("{", "[", '"')):
        source = f"--cluster {text if text.isprintable() else show_value(text)}"
        text = _read_file(text, source)
    values = _parse_object(text, source, _EXAMPLE)
    if "cluster" in values:
        raise UsageError(
            f"{source} has the key 'cluster', as TF_CONFIG has it.",
            hint=f"Write its value alone, such as {_EXAMPLE}, and name the task with --task.",
        )
    return _parse_jobs(values, source, ": ") if values else {}


def _read_file(path: str, source: str) -> str:
    try:
        with open_regular_file(path) as file:
            data = file.read(_MAX_BYTES + 1)
        if len(data) > _MAX_BYTES:
            raise ValueError(f"it has more than {_MAX_BYTES} bytes")
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        reason = "it is not text in UTF-8"
    except OSError as error:
        reason = error.strerror or str(error)
    except ValueError as error:  # its size, or a null character in the path
        reason = str(error)
    raise UsageError(
        f"{source} cannot be read: {reason}.",
        hint=f"Name a JSON file, or write the JSON itself: '{_EXAMPLE}'.",
    )


# ---------------------------------------------------------------------------------------- the JSON


def _parse_object(text: str, source: str, example: str) -> Dict[str, Any]:
    """Parse a JSON object. Raises UsageError if it is none, or has a key twice."""

    def pairs(items: List[Tuple[str, Any]]) -> Dict[str, Any]:
        names = [name for name, _ in items]
        for name in names:
            if names.count(name) > 1:
                raise UsageError(
                    f"{source} has the key {show_value(name)} twice.", hint="Write each key once."
                )
        return dict(items)

    try:
        value = json.loads(text, object_pairs_hook=pairs)
    except json.JSONDecodeError as error:
        fault = f"{error.msg} at character {error.pos + 1}"
    except (ValueError, RecursionError):  # a number of thousands of digits; thousands of brackets
        fault = "it is too large or too deep"
    else:
        if isinstance(value, dict):
            return value
        raise UsageError(
            f"{source} is {show_value(value)}, which is no JSON object.", hint=f"Write {example}."
        )
    raise UsageError(
        f"{source} is not valid JSON: {fault}.", hint=f"Write it as {example}, in double quotes."
    )


def _refuse_misspelt(source: str, values: Dict[str, Any], key: str) -> None:
    """Raise UsageError if the object has a key that looks like the one that it lacks."""
    names = {name.lower(): name for name in values if name != key}
    for match in difflib.get_close_matches(key, names, n=1, cutoff=0.8):
        raise UsageError(
            f"{source} has the unknown key {show_value(names[match])}.",
            hint=f"Did you mean '{key}'?",
        )


def _parse_jobs(value: Any, place: str, separator: str) -> Jobs:
    """The addresses of each job that has tasks, in the order of `JOBS`.

    Args:
        value: of JSON.
        place: of the value, for messages.
        separator: between the place and a key.
    """
    if not isinstance(value, dict):
        raise UsageError(
            f"{place} is {show_value(value)}, not an object.", hint=f"Write {_EXAMPLE}."
        )
    jobs: Jobs = {}
    for name, addresses in value.items():
        job = _FORMER_NAMES.get(name, name)
        if job not in JOBS:
            raise UsageError(
                f"{place} has the unknown job {show_value(name)}.", hint=suggest(name.lower(), JOBS)
            )
        if job in jobs:
            raise UsageError(
                f"{place} has both 'chief' and 'master', which are two names of one job.",
                hint="Omit 'master'.",
            )
        jobs[job] = _parse_addresses(addresses, f"{place}{separator}{name}")
        if job in _SINGLE_JOBS and len(jobs[job]) > 1:
            raise UsageError(
                f"{place}{separator}{name} has {len(jobs[job])} addresses, and a cluster has one "
                f"{job}.",
                hint="List the others as 'worker'." if job == "chief" else "Omit the others.",
            )
    _check_jobs(jobs, place, separator)
    return {job: jobs[job] for job in JOBS if jobs.get(job)}


def _check_jobs(jobs: Jobs, place: str, separator: str) -> None:
    """Refuse a cluster in which nobody trains, and an address of two tasks."""
    if not jobs.get("chief") and not jobs.get("worker"):
        raise UsageError(f"{place} has no worker and no chief.", hint=f"Write {_EXAMPLE}.")
    owners: Dict[Tuple[str, int], str] = {}
    for job, addresses in jobs.items():
        for index, address in enumerate(addresses):
            host, port = split_address(address)
            owner = owners.setdefault((host.lower(), port), f"{job}[{index}]")
            if owner != f"{job}[{index}]":
                raise UsageError(
                    f"{place}{separator}{owner} and {job}[{index}] have the same address, "
                    f"{address}.",
                    hint="Give each task an address of its own.",
                )


def _parse_addresses(value: Any, place: str) -> List[str]:
    if not isinstance(value, list):
        raise UsageError(
            f"{place} is {show_value(value)}, not a list of addresses.",
            hint='Write ["host1:2222", "host2:2222"], in the order of the indices.',
        )
    for index, address in enumerate(value):
        _check_address(address, f"{place}[{index}]")
    return value


def _check_address(address: Any, place: str) -> None:
    match = _ADDRESS.fullmatch(address) if isinstance(address, str) else None
    if match is None:
        hint = 'Write "host:port", for example "10.0.0.1:2222", "node1:2222" or "[fd00::1]:2222".'
        raise UsageError(f"{place} is {show_value(address)}, which is no address.", hint=hint)
    if not 0 < int(match.group(2)) < 1 << 16:
        raise UsageError(
            f"{place} is {show_value(address)}, whose port is not between 1 and 65535.",
            hint="Choose one port for each task, for example 2222.",
        )


# ---------------------------------------------------------------------------------------- the task


def _parse_task(value: Any) -> Tuple[str, Optional[int]]:
    """The job and the index, if it has one, of a task in TF_CONFIG."""
    if not isinstance(value, dict):
        raise UsageError(
            f"TF_CONFIG: task is {show_value(value)}, not an object.",
            hint=f"Write {_TASK_EXAMPLE}.",
        )
    job, index = value.get("type"), value.get("index")
    if job is None:
        _refuse_misspelt("TF_CONFIG: task", value, "type")
        raise UsageError("TF_CONFIG: task has no type.", hint=f"Write {_TASK_EXAMPLE}.")
    if not isinstance(job, str) or _FORMER_NAMES.get(job, job) not in JOBS:
        hint = suggest(str(job).lower(), JOBS)
        raise UsageError(f"TF_CONFIG: task.type is {show_value(job)}, which is no job.", hint=hint)
    if isinstance(index, str) and _INDEX.fullmatch(index):
        index = int(index)
    if isinstance(index, bool) or not (index is None or isinstance(index, int) and index >= 0):
        raise UsageError(
            f"TF_CONFIG: task.index is {show_value(index)}, which is no index.",
            hint="Write 0 for the first task of a job, 1 for the second.",
        )
    if index is None:
        _refuse_misspelt("TF_CONFIG: task", value, "index")
    return _FORMER_NAMES.get(job, job), index


def _parse_task_flag(text: str) -> Tuple[str, Optional[int]]:
    """The job and the index, if it has one, in the value of --task."""
    name, colon, index = text.partition(":")
    job = _FORMER_NAMES.get(name, name)
    if job not in JOBS:
        hint = suggest(name.lower(), JOBS)
        raise UsageError(f"--task is {show_value(text)}, which names no job.", hint=hint)
    if colon and not _INDEX.fullmatch(index):
        raise UsageError(
            f"--task is {show_value(text)}, whose index is no number.",
            hint=f"Write --task {name}:0 for the first {job}.",
        )
    return job, int(index) if colon else None


def _define(source: str, place: str, jobs: Jobs, job: str, index: Optional[int]) -> Definition:
    """Check the task of this process against the cluster; one that is alone needs no index.

    Args:
        source: of the cluster.
        place: the name of the task's place, for messages.
        jobs: of the cluster.
        job: of the task.
        index: of the task, if it has one.
    """
    count = 1 if job == "evaluator" else len(jobs.get(job, ()))
    if not count:
        raise UsageError(
            f"{place} is a {job}, but the cluster has no {job}.",
            hint=f"The jobs of the cluster: {', '.join(jobs)}.",
        )
    if index is None and count > 1:
        raise UsageError(
            f"{place} is a {job} without an index, but the cluster has {count} of them.",
            hint=f"Add the index of this process, 0 to {count - 1}.",
        )
    if (index or 0) >= count:
        raise UsageError(
            f"{place} is {job} {index}, but the last {job} of the cluster is {job} {count - 1}.",
            hint="Correct the index, or add the address of the task to the cluster.",
        )
    return Definition(source, jobs, job, index or 0)


def show_value(value: Any) -> str:
    """A value for a message: as JSON, shortened."""
    text = json.dumps(value)
    return text if len(text) <= _MAX_CHARACTERS else text[: _MAX_CHARACTERS - 3] + "..."
