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
from typing import Any, Dict, List, Mapping, Optional, Tuple

from ..errors import UsageError, suggest
from ..files import open_regular_file
from .slurm import read_slurm
from .tasks import Cluster, ClusterSettings, Task, show_value, split_address

JOBS = ("chief", "worker", "ps", "evaluator")
_SINGLE_JOBS = ("chief", "evaluator")  # have at most one task
_FORMER_NAMES = {"master": "chief"}  # of jobs
_LABEL = "[A-Za-z0-9_-]{1,63}"  # of a name; sockets take no other
_HOST = rf"{_LABEL}(?:\.{_LABEL})*\.?|\[[0-9A-Fa-f:.]+(?:%[A-Za-z0-9._-]+)?\]"
_ADDRESS = re.compile(f"({_HOST}):([0-9]{{1,5}})")
_INDEX = re.compile("[0-9]{1,6}")
_EXAMPLE = '{"worker": ["host1:2222", "host2:2222"]}'
_TASK_EXAMPLE = '{"type": "worker", "index": 0}'
_TF_CONFIG_EXAMPLE = f'{{"cluster": {_EXAMPLE}, "task": {_TASK_EXAMPLE}}}'

Jobs = Dict[str, List[str]]


def read_cluster(settings: ClusterSettings, environ: Mapping[str, str]) -> Optional[Cluster]:
    """The cluster of this process, from flags, else from TF_CONFIG, else from Slurm; None if it
    trains alone: without a cluster, or as its only task.

    An empty TF_CONFIG counts as none. '{}' as --cluster or as TF_CONFIG means one process alone,
    whatever later sources say. Raises UsageError for what is wrong in the first source that there
    is.
    """
    text = environ.get("TF_CONFIG", "")
    if settings.cluster is not None or settings.task is not None:
        cluster = read_flags(settings.cluster, settings.task)
    else:
        cluster = read_tf_config(text) if text.strip() else read_slurm(environ)
    if cluster is None or cluster.tasks == [cluster.task]:
        return None
    cluster = cluster._replace(settings=settings)
    for task in cluster.tasks if settings.channel_port else ():
        if split_address(task.address) == cluster.channel_address:
            raise UsageError(
                f"--channel-port {settings.channel_port} is the port of {task.name}, "
                f"{task.address}.",
                hint="Choose another port on the chief's host, or omit --channel-port.",
            )
    return cluster


def read_tf_config(text: str) -> Optional[Cluster]:
    """The cluster that a value of TF_CONFIG defines; None for one process alone. Raises UsageError
    if the value is no definition of a cluster.
    """
    values = _parse_object(text, "TF_CONFIG", _TF_CONFIG_EXAMPLE)
    cluster, task = (values.get(key) or None for key in ("cluster", "task"))
    for key, value in (("cluster", cluster), ("task", task)):
        others = [name for name in values if name != key]
        if value is None and difflib.get_close_matches(key, others, n=1, cutoff=0.8):
            raise UsageError(
                f"TF_CONFIG has no '{key}', but {', '.join(map(show_value, others))}.",
                hint=f"Did you mean '{key}'?",
            )
    jobs = {} if cluster is None else _parse_jobs(cluster, "TF_CONFIG: cluster")
    if task is None:
        if cluster is None:
            return None
        raise UsageError(
            "TF_CONFIG has a cluster but no task.",
            hint=f'Add the task of this process, for example "task": {_TASK_EXAMPLE}.',
        )
    if not isinstance(task, dict) or "type" not in task:
        raise UsageError(
            f"TF_CONFIG: task is {show_value(task)}, not an object with a type.",
            hint=f"Write {_TASK_EXAMPLE}.",
        )
    hint = f'Add "cluster": {_EXAMPLE}, or unset TF_CONFIG to train alone.'
    return _define("TF_CONFIG", "TF_CONFIG: task", jobs, task["type"], task.get("index"), hint)


def read_flags(cluster: Optional[str], task: Optional[str]) -> Optional[Cluster]:
    """The cluster that --cluster (JSON, or the path of a file) and --task (such as "worker:1")
    define; None for one process alone. Raises UsageError.
    """
    jobs = {} if cluster is None else _parse_cluster_flag(cluster)
    if task is not None:
        job, colon, index = task.partition(":")
        hint = f"Add --cluster '{_EXAMPLE}', or omit --task to train alone."
        return _define("--cluster", "--task", jobs, job, index if colon else None, hint)
    if not jobs:
        return None
    raise UsageError(
        "--cluster is set, but --task, the task of this process, is not.",
        hint=f"Add the task of this process, such as --task {next(iter(jobs))}:0.",
    )


def _parse_cluster_flag(text: str) -> Jobs:
    """The jobs in the JSON, or in the file, that --cluster names; {} if it has none."""
    source = "--cluster"
    if not text.lstrip().startswith(("{", "[", '"')):
        source = f"--cluster {text if text.isprintable() else show_value(text)}"
        try:
            with open_regular_file(text) as file:
                text = file.read().decode("utf-8-sig")
        except (OSError, ValueError) as error:  # ValueError: no UTF-8, or a null in the path
            raise UsageError(
                f"{source} cannot be read: {getattr(error, 'strerror', None) or error}.",
                hint=f"Name a JSON file, or write the JSON itself: '{_EXAMPLE}'.",
            ) from None
    values = _parse_object(text, source, _EXAMPLE)
    return _parse_jobs(values, source) if values else {}


def _parse_object(text: str, source: str, example: str) -> Dict[str, Any]:
    """Parse a JSON object. Raises UsageError if it is none."""
    try:
        value = json.loads(text)
        if isinstance(value, dict):
            return value
        fault = f"is {show_value(value)}, which is no JSON object"
    except (ValueError, RecursionError) as error:
        fault = f"is not valid JSON: {error}"
    raise UsageError(f"{source} {fault}.", hint=f"Write it as {example}, in double quotes.")


def _parse_jobs(value: Any, place: str) -> Jobs:
    """The addresses of each job that has tasks, in the order of `JOBS`, from a value of JSON;
    `place` is where that is.
    """
    if not isinstance(value, dict):
        raise UsageError(
            f"{place} is {show_value(value)}, not an object.", hint=f"Write {_EXAMPLE}."
        )
    jobs: Jobs = {}
    owners: Dict[Tuple[str, int], str] = {}
    for name, addresses in value.items():
        job = _FORMER_NAMES.get(name, name)
        if job not in JOBS:
            raise UsageError(
                f"{place} has the unknown job {show_value(name)}.", hint=suggest(name.lower(), JOBS)
            )
        if not isinstance(addresses, list):
            raise UsageError(
                f"{place}: {name} is {show_value(addresses)}, not a list of addresses.",
                hint='Write ["host1:2222", "host2:2222"], in the order of the indices.',
            )
        for index, address in enumerate(addresses):
            owner = f"{name}[{index}]"
            _check_address(address, f"{place}: {owner}")
            host, port = split_address(address)
            first = owners.setdefault((host.lower(), port), owner)
            if first != owner:
                raise UsageError(
                    f"{place}: {first} and {owner} have the same address, {address}.",
                    hint="Give each task an address of its own.",
                )
        jobs.setdefault(job, []).extend(addresses)
        if job in _SINGLE_JOBS and len(jobs[job]) > 1:
            raise UsageError(
                f"{place}: {name} has {len(jobs[job])} addresses, and a cluster has one {job}.",
                hint="List the others as 'worker'." if job == "chief" else "Omit the others.",
            )
    if not jobs.get("chief") and not jobs.get("worker"):
        raise UsageError(f"{place} has no worker and no chief.", hint=f"Write {_EXAMPLE}.")
    return {job: jobs[job] for job in JOBS if jobs.get(job)}


def _check_address(address: Any, place: str) -> None:
    match = _ADDRESS.fullmatch(address) if isinstance(address, str) else None
    if match is None or not 0 < int(match.group(2)) < 1 << 16:
        raise UsageError(
            f"{place} is {show_value(address)}, which is no address.",
            hint='Write "host:port" with a port up to 65535, for example "10.0.0.1:2222", '
            '"node1:2222" or "[fd00::1]:2222".',
        )


def _define(
    source: str, place: str, jobs: Jobs, name: Any, number: Any, no_cluster_hint: str
) -> Cluster:
    """Check the task of this process, of which JSON or a flag says the job and perhaps the index,
    against the cluster; one that is alone needs no index.
    """
    job = _FORMER_NAMES.get(name, name) if isinstance(name, str) else ""
    if job not in JOBS:
        hint = suggest(str(name).lower(), JOBS)
        raise UsageError(f"{place} is {show_value(name)}, which names no job.", hint=hint)
    if isinstance(number, str) and _INDEX.fullmatch(number):
        number = int(number)
    if isinstance(number, bool) or not (number is None or isinstance(number, int) and number >= 0):
        raise UsageError(
            f"{place} is a {job} with the index {show_value(number)}, which is no number.",
            hint="The first task of a job has the index 0, the second 1.",
        )
    if not jobs and job != "evaluator":
        raise UsageError(f"{place} is set, but no cluster.", hint=no_cluster_hint)
    count = 1 if job == "evaluator" else len(jobs.get(job, ()))
    if not count:
        raise UsageError(
            f"{place} is a {job}, but the cluster has no {job}.",
            hint=f"The jobs of the cluster: {', '.join(jobs)}.",
        )
    if (count if number is None and count > 1 else number or 0) >= count:
        name = f"a {job} without an index" if number is None else f"{job} {number}"
        raise UsageError(
            f"{place} is {name}, and the cluster has {count} of them.",
            hint=f"Write the index of this process, 0 to {count - 1}.",
        )
    index = number or 0
    task = Task(job, index, jobs[job][index] if job in jobs else "")
    return Cluster({name: jobs[name] for name in jobs if name != "evaluator"}, task, source=source)
