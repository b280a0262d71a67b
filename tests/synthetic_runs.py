"""Folders of runs that nobody trained: what the code that reads runs needs, in milliseconds."""

from __future__ import annotations

import hashlib
import os
from typing import Any, Dict, Iterable, Mapping, NamedTuple, Optional, Sequence

from toolkit.files import write_json
from toolkit.storage.commit_log import CommitLog
from toolkit.storage.jsonl import FileDigest, JsonLines

SPEC = {"shape": [4], "dtype": "float32"}
VERSIONS = {"toolkit": "0.2.0", "python": "3.11.7", "tensorflow": "2.21.0", "numpy": "2.4.6"}
MACHINE = {"processor": "EPYC", "cores": 2, "threads within an op": 1}
FILES = {"toolkit_classifier/__init__.py": "a" * 64}
PLUGIN = {"kind": "model", "distribution": "toolkit 0.2.0", "sha256": FILES}
DATA = {
    "name": "mnist5k",
    "sha256": {"mnist.csv": "d" * 64},
    "examples": {"train": 400, "validation": 50, "test": 50},
    "partition": "e" * 64,
    "stored": SPEC,
    "spec": SPEC,
    "ink": None,
}

OF_SESSION = ("argv", "total_steps", "versions", "parent", "hooks", "model", "git")


class Session(NamedTuple):
    """What one session of a run did."""

    start: int  # the step from which it began
    commits: Mapping[int, str]  # the hash of the tensors by committed step
    options: Mapping[str, Any] = {}  # those that differ from the run's
    facts: Mapping[str, Any] = {}  # further values of its entry in the commit log


def options_of(**options: Any) -> Dict[str, Any]:
    """The options of a run, as config.json has them; `with` cannot be a name in Python."""
    values = {"plugin": "classifier", "with": [], "data": "mnist5k", "learning_rate": 0.01}
    values.update(batch_size=64, steps=100, seed=1, log_steps=10, optimizer="adam")
    return dict(values, **options)


def write_run(
    path: str,
    sessions: Iterable[Session] = (),
    origins: Optional[Mapping[str, str]] = None,
    metrics: Optional[Mapping[str, float]] = None,
    test: Optional[Mapping[str, Any]] = None,
    records: Iterable[Mapping[str, Any]] = (),
    manifest: Optional[Mapping[str, Any]] = None,
    evaluations: Sequence[Mapping[str, Any]] = (),
    **options: Any,
) -> str:
    """Write config.json and the commit log of a run, from its beginning to its end; return the path
    of its folder.

    Args:
        path: of the folder.
        sessions: the run's; the default is one with commits at steps 50 and 100.
        origins: of options; the others have their defaults.
        metrics: of the test split; None for a run without a test.
        test: further values of the test's result.
        records: of metrics.jsonl.
        manifest: further values of its state, by which entry has them.
        evaluations: the entries of evaluations; the default is one with values of `manifest`.
        options: that differ from the defaults of `options_of`.
    """
    os.makedirs(path, exist_ok=True)
    values = options_of(**options)
    config_origins = {name: "default" for name in values if name not in ("plugin", "with")}
    config_origins.update(dict.fromkeys(options, "flag"), **(origins or {}))
    folder = os.path.abspath(path)
    write_json(
        os.path.join(path, "config.json"), dict(values, origins=config_origins, folder=folder)
    )
    lines = JsonLines(os.path.join(path, "metrics.jsonl"))
    for record in records:
        lines.append(dict(record))
    sessions = list(sessions) or [Session(0, {50: fake_hash(path, 50), 100: fake_hash(path, 100)})]
    step = max([0, *sessions[-1].commits])
    contents: Dict[str, Any] = {
        "status": "finished",
        "step": step,
        "reason": f"reached step {step}",
        "seconds": 12.5,
        "exit_code": 0,
        "best": None,
        "summary": {"steps": step, "seconds": 12.5, "finished": True, "best": None, "test": None},
    }
    if metrics is not None:
        result = {"split": "test", "step": step, "examples": 50, "metrics": dict(metrics)}
        contents["summary"]["test"] = dict(result, **(test or {}))
    contents.update(manifest or {})
    log = CommitLog(os.path.join(path, "commits.jsonl"), str)
    data = contents.pop("data", DATA)
    created = contents.pop("created", "2026-11-22T22:36:43+00:00")
    log.add("run", created=created, plugins={"classifier": PLUGIN}, data=data)
    of_session = {name: contents.pop(name) for name in OF_SESSION if name in contents}
    for session in sessions:
        facts = {
            "versions": VERSIONS,
            "machine": MACHINE,
            "plugins": {"classifier": FILES},
            "data": data["sha256"],
            "partition": data.get("partition", ""),
            "options": dict(values, **session.options),
            "argv": ["toolkit", "run", "--plugin", "classifier"],
            "total_steps": 100,
            "compiled": False,
            "reader": "resident",
        }
        facts.update(of_session, **session.facts)
        log.add("session", **{"from": session.start}, kept=[], **facts)
        for step, tensors in session.commits.items():
            digest = _digest_until(lines, step)._asdict()
            more = {"kept": [], "tensors": tensors, "files": {}, "metrics": digest}
            log.add("commit", step=step, time=1.7e9 + step, **more)
    best, validation = contents.pop("best"), contents.pop("validation", None)
    for evaluated in evaluations or [{"best": best, "validation": validation}]:
        log.add("evaluated", **evaluated)
    log.add("end", **contents)
    return path


def fake_hash(*parts: Any) -> str:
    """64 hex digits, a function of the arguments."""
    return hashlib.sha256(repr(parts).encode("utf-8")).hexdigest()


def _digest_until(metrics: JsonLines, step: int) -> FileDigest:
    """Size and hash of the records up to a step."""
    records = metrics.read()
    lines = [line for line, record in zip(metrics.lines(), records) if record["step"] <= step]
    content = "".join(line + "\n" for line in lines).encode("utf-8")
    return FileDigest(len(content), hashlib.sha256(content).hexdigest())
