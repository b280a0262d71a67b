"""`toolkit resume RUN --from STEP`: a new run that continues from an earlier commit of another."""

import os
import shutil

import pytest
from file_fixtures import read_json, sha256s
from linear_fixtures import LINEAR, write_bars
from run_fixtures import damage
from test_exact_resume import OPTIONS, STEPS, Noisy, events, final_state

from toolkit import testing
from toolkit.storage.branch import create_branch, find_branch_point
from toolkit.storage.run_folder import RunFolder


@pytest.fixture
def run(trained, here):
    """A finished run of 6 steps, with checkpoints of 2, 4 and 6, in the folder `run`."""
    for name in "run", "bars.npz":
        shutil.move(str(trained / name), str(here))
    return "run"


def create(run, step, branch):
    folder = RunFolder(os.path.abspath(run))
    point = find_branch_point(folder, step)
    create_branch(folder, point, branch, point.config(folder))


def test_hooks_noise_and_best_checkpoint_continue_in_a_branch_where_its_events_begin(here):
    testing.train(Noisy, "run", data=write_bars("bars.npz"), **dict(OPTIONS, keep_checkpoints=9))
    for step in 5, 8:
        branch = f"branch-{step}"
        create("run", step, branch)
        testing.train(Noisy, branch)
        assert final_state(os.path.abspath(branch)) == final_state(os.path.abspath("run"))
        now, before = ({k: v for k, v in events(r).items() if k[0] > step} for r in (branch, "run"))
        assert now == before
        assert min(step for step, _ in events(branch)) >= step
    assert RunFolder("branch-8").checkpoints.list()[-1].step == STEPS


def test_a_branch_needs_its_parent_no_more(cli, run):
    assert cli("resume", run, "--from", 4).code == 0
    shutil.rmtree(run)
    branch = "run-from-4"
    for argv in (
        ["verify", branch, "--replay", "0:6"],
        ["evaluate", branch],
        ["resume", branch, "--steps", 8],
        ["doctor", branch],
    ):
        result = cli.succeed(*argv)
    assert "The run is a branch of run, step 4 (tensors " in result.out


def test_a_branch_begins_with_the_entries_of_its_parent_and_names_it(cli, run, here):
    before = sha256s(run)
    assert cli("resume", run, "--from", 4).code == 0
    assert sha256s(run) == before  # the parent is as it was
    branch, commits = "run-from-4", RunFolder(run).commits
    number = commits.current_commits()[4].number
    logs = [(here / name / "commits.jsonl").read_text().splitlines() for name in (branch, run)]
    assert logs[0][:number] == logs[1][:number]
    expected = {"kind": "branch", "name": "run", "step": 4, "head": commits.head()}
    expected["tensors"] = commits.find_commit(4).tensors
    own, session = (entry.values for entry in RunFolder(branch).commits.entries()[number:][:2])
    assert (own["kind"], own["step"], own["kept"], own["parent"]) == ("branch", 4, [2, 4], expected)
    assert (session["kind"], session["from"]) == ("session", 4)
    assert read_json(branch, "manifest.json")["parent"] == expected


def test_a_branch_of_a_branch_names_the_branch(cli, run):
    assert cli("resume", run, "--from", 2).code == 0
    assert cli("resume", "run-from-2", "--from", 4, "--run-dir", "twig").code == 0
    assert read_json("twig", "manifest.json")["parent"]["name"] == "run-from-2"
    assert testing.fingerprint("twig") == testing.fingerprint(run)


def test_a_branch_of_a_run_with_other_weights_keeps_both_parents(cli, run):
    argv = ["run", "--plugin", LINEAR, "--data", "npz:bars.npz", "--steps", 4, "--run-dir", "new"]
    assert cli(*argv, "--init-from", run).code == 0
    assert cli("resume", "new", "--from", 2).code == 0
    out = cli("doctor", "new-from-2").out
    assert "began with the weights of run, step" in out and "is a branch of new, step 2" in out
    shutil.rmtree(run)
    assert cli("verify", "new-from-2").code == 0


def test_a_branch_says_where_it_begins_and_which_options_differ(cli, run):
    argv = ["resume", run, "--from", 4, "--learning-rate", "0.5", "--steps", 8]
    for flags in ([], ["--print-config"]):
        cli.refuse(2, "learning_rate was 0.02, now 0.5.", *argv, *flags)
    assert not os.path.exists("run-from-4")  # nothing is left of it
    result = cli(*argv, "--allow", "learning_rate")
    assert cli("verify", "run-from-4").code == 0
    start = "note   a branch of run from step 4"
    assert f"{start}; steps was 6, now 8; learning_rate was 0.02, now 0.5\n" in result.err
    same = cli("resume", run, "--from", 4, "--run-dir", "far/away/same")
    assert f"{start}\n" in same.err
    assert read_json("far/away/same", "config.json")["data"] == "npz:../../../bars.npz"
    again = cli("resume", "far/away/same", "--steps", 8)
    assert again.code == 0 and "a branch of" not in again.err


def test_a_branch_has_the_options_with_which_its_step_was_trained(cli, run):
    argv = ["--steps", 8, "--learning-rate", "0.5", "--allow", "learning_rate"]
    assert cli("resume", run, *argv).code == 0
    assert cli("resume", run, "--from", "+4", "--print-config").code == 0
    assert cli("resume", run, "--from", "+4").code == 0
    config = read_json("run-from-4", "config.json")
    assert (config["learning_rate"], config["steps"]) == (0.02, 6)
    assert cli("resume", run, "--from", 8, "--steps", 9, "--run-dir", "later").code == 0
    assert read_json("later", "config.json")["learning_rate"] == 0.5


@pytest.mark.parametrize(
    "argv, code, message",
    [
        (["--from", 3], 5, "has no checkpoint '3'.\nIt has last, best and the steps 2, 4, 6."),
        (["--from", 6], 2, "No step is left after step 6: the run ends at step 6."),
        (["--run-dir", "new"], 2, "--run-dir names the folder of a branch, but --from is missing."),
        (["--from", 4, "--run-dir", "run"], 2, "run is not empty."),
        (["--from", 4, "--run-dir", "run", "--print-config"], 2, "run is not empty."),
        (["--from", 4, "--run-dir", "bars.npz/x"], 2, "bars.npz/x cannot be created"),
        (["--from", 4, "--run-dir", "begun"], 2, "begun cannot be created: Directory not empty."),
        (["--from", 4, "--plugin", "gan"], 2, "A run keeps its plugins"),
    ],
)
def test_what_cannot_be_is_refused_and_leaves_nothing(cli, run, argv, code, message):
    os.mkdir("begun")
    open("begun/.lock", "w").close()  # as a run that ended before its first step leaves it
    before = sorted(os.listdir("."))
    cli.refuse(code, message, "resume", run, *argv)
    assert sorted(os.listdir(".")) == before


def test_a_damaged_checkpoint_has_no_branches(cli, run, here):
    damage(here / run, 2)
    cli.refuse(5, "The checkpoint of step 2 is damaged: ", "resume", run, "--from", 2)


def test_a_branch_without_the_best_checkpoint_so_far_has_the_last(cli, golden):
    # The first evaluation has the highest loss.
    run = golden("--steps", 6, "--best-metric", "max:loss") / "run"
    damage(run, 2)
    result = cli.succeed("resume", run, "--from", 4)
    assert "last checkpoint, step 6" in result.out
    assert "note   step 2 was best so far, and its checkpoint no longer exists" in result.err
    assert "step 6" in cli("evaluate", f"{run}-from-4").out


def test_a_run_in_progress_may_have_branches(cli, run):
    folder = RunFolder(os.path.abspath(run))
    folder.lock()
    try:
        assert cli("resume", run, "--from", 4).code == 0
    finally:
        folder.unlock()


def test_the_branch_of_a_killed_command_is_resumed(cli, run):
    create(run, 4, "branch")
    assert cli("verify", "branch").code == 0
    assert "toolkit resume branch" in cli.succeed("doctor", "branch").out
    assert cli("resume", "branch").code == 0
    assert testing.fingerprint("branch") == testing.fingerprint(run)
    assert cli("verify", "branch").code == 0
