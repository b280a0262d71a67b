"""What `toolkit verify` and `toolkit doctor` say of a run whose files are damaged."""

import os
import re

import pytest
from file_fixtures import drop_line, edit, sha256s
from run_fixtures import checkpoint_file, damage, rewrite_last_commit, unseal

from toolkit.files import sha256_of
from toolkit.storage.run_folder import RunFolder

RESUME = "Continue with: toolkit resume trained/run"
NEWEST_IS_CHANGED = "Copy intact files of step 6 and commits.jsonl back, or begin a new run at an "
NEWEST_IS_CHANGED += "earlier step: toolkit resume trained/run --from STEP"
METRICS = "Copy an intact metrics.jsonl back"
COMMITS = "Copy an intact commits.jsonl back"
CONFIG = "Copy config.json back"
MANIFEST = "The numbers in manifest.json are not those of the run; a resume writes it again."
PARTED = "does not follow the entry before it: entries were removed, inserted or moved"


def remove(name):
    return lambda run: os.remove(str(run / name))


def exchange_tensors(run):
    """Let the commit of step 6 have the tensors of step 4, with the right hashes of its files."""
    for ending in ("index", "data-00000-of-00001", "hooks.npz"):
        os.replace(checkpoint_file(run, 4, ending), checkpoint_file(run, 6, ending))
    files = {}
    for name in RunFolder(str(run)).commits.find_commit(6).files:
        path = str(run / "checkpoints" / name)
        files[name] = {"bytes": os.path.getsize(path), "sha256": sha256_of(path)}
    rewrite_last_commit(run, 6, files=files, kept=[2, 6])


def commit_again(run):
    """Commit the last step a second time."""
    unseal(run)
    log = RunFolder(str(run)).commits
    values = log.current_commits()[6].values
    values = {name: v for name, v in values.items() if name not in ("kind", "previous", "hash")}
    log.add("commit", **dict(values, kept=[2, 4, 6]))


DAMAGES = {  # name: what damages a run, what verify says, and the advice of the doctor
    "a changed byte": (
        lambda run: damage(run, 6),
        "checkpoints: model.ckpt-6.data-00000-of-00001 has changed since it was written.",
        ["repeats the steps after 4, with bit-identical results.", RESUME],
    ),
    "a short file": (
        lambda run: os.truncate(checkpoint_file(run, 4, "index"), 20),
        "checkpoints: model.ckpt-4.index has 20 bytes, expected ",
        ["The newest checkpoint is intact, so a resume continues from it"],
    ),
    "no intact checkpoint": (
        lambda run: damage(run, 2, 4, 6),
        "checkpoints: model.ckpt-2.data-00000-of-00001 has changed since it was written "
        "(2 more faults).",
        ["Copy the files back, or start a new run in another folder."],
    ),
    "a changed metric": (
        lambda run: edit(run / "metrics.jsonl", '"accuracy": 0.', '"accuracy": 1.'),
        "metrics: metrics.jsonl is not what it was at step 4.",
        [METRICS],
    ),
    "no metrics": (
        remove("metrics.jsonl"),
        "metrics: metrics.jsonl is not what it was at step 2.",
        [METRICS],
    ),
    "a line that is not JSON": (
        lambda run: (run / "metrics.jsonl").open("a").write("hello\n"),
        "metrics: line 10 of metrics.jsonl is not a JSON object.",
        [METRICS],
    ),
    "a missing commit": (
        lambda run: drop_line(run / "commits.jsonl", 3),
        f"commit log: entry 4 {PARTED}.",
        [COMMITS],
    ),
    "a changed commit": (
        lambda run: edit(run / "commits.jsonl", '"step": 4', '"step": 3'),
        "commit log: entry 5 has changed since it was written.",
        [COMMITS],
    ),
    "tensors of another step with right hashes": (
        exchange_tensors,
        "checkpoints: the tensors of step 6 are not those that were committed.",
        [NEWEST_IS_CHANGED],
    ),
    "the last step a second time": (
        commit_again,
        "commits step 6 after step 6.",
        [COMMITS, RESUME],
    ),
    "no commit log": (
        remove("commits.jsonl"),
        "commit log: commits.jsonl has no entries, but there are checkpoints",
        [COMMITS + ", or start a new run"],
    ),
    "a changed option": (
        lambda run: edit(run / "config.json", '"gain": 1.0', '"gain": 2.0'),
        "config: gain is 2.0, but the last session had 1.0.",
        ["--allow gain", CONFIG],
    ),
    "a missing option": (
        lambda run: edit(run / "config.json", '"seed"', '"sead"'),
        "config: sead is 1, but the last session had no such option (1 more fault).",
        ["Did you mean 'seed'?", CONFIG],
    ),
    "no configuration": (remove("config.json"), "config.json is missing.", [CONFIG]),
    "no manifest": (remove("manifest.json"), "manifest.json is missing", [MANIFEST]),
    "no seal": (unseal, "manifest: manifest.json does not show", [MANIFEST, RESUME]),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_each_kind_of_damage_is_named_with_its_repair(cli, trained, name):
    damage_run, fault, repairs = DAMAGES[name]
    damage_run(trained / "run")
    before = sha256s(trained)
    verified = cli.refuse(6, fault, "verify", trained / "run")
    assert verified.err.endswith("toolkit doctor trained/run\n")
    more = re.search(r"\((\d+) more fault", verified.err)
    count = 1 + int(more.group(1) if more else 0)
    result = cli("doctor", trained / "run")
    assert result.code == 6
    lines = result.out.splitlines()
    faults = [line for line in lines if line.startswith("FAULT")]
    assert fault.partition(" (")[0].rstrip(".") in faults[0]
    assert verified.out.count("FAULT: ") == count and len(faults) == len(set(faults))
    advice = [line for line in lines if line.startswith("do ")]
    assert len(advice) == len(repairs)
    assert all(repair in line for repair, line in zip(repairs, advice)), advice
    assert sha256s(trained) == before
