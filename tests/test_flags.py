"""Choices on the command line that contradict one another, or have no effect."""

from __future__ import annotations

import json

import pytest
from linear_fixtures import LINEAR, write_bars
from run_fixtures import write_plugin

RUN = ["run", "--plugin", LINEAR, "--print-config"]
QUICK = ["--steps", "1", "--no-evaluate", "--steps-per-call", "1"]


@pytest.mark.parametrize(
    "argv, message",
    [
        (["--seed", "1", "--seed", "2"], "Both --seed 1 and --seed 2 are set."),
        (["--seed=1", "--seed", "2"], "Both --seed 1 and --seed 2 are set."),
        (["--evaluate", "--no-evaluate"], "Both --evaluate and --no-evaluate are set."),
        (["--run-dir", "a", "--run-dir=b"], "Both --run-dir a and --run-dir b are set."),
        (
            ["--seed", "1", "--set", "seed=2"],
            "'seed' is set to 1 (--seed) and to 2 (--set seed).",
        ),
        (
            ["--set", "seed=1", "--set", "seed=2"],
            "'seed' is set to 1 (--set seed) and to 2 (--set seed).",
        ),
        (
            ["--steps", "5", "--set", "epochs=2"],
            "Both steps (flag --steps) and epochs (--set epochs) set the length of the run.",
        ),
    ],
)
def test_an_option_with_two_values_is_refused(cli, argv, message):
    result = cli(*RUN, *argv)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith(f"Error: {message}\n")


@pytest.mark.parametrize(
    "argv",
    [
        ["--seed", "3", "--seed=3"],
        ["--seed", "3", "--set", "seed=3"],
        ["--set", "seed=3", "--set", "seed=3"],
        ["--evaluate", "--set", "evaluate=true", "--seed", "3"],
        ["--evaluate", "--evaluate", "--seed", "3"],
    ],
)
def test_an_option_with_one_value_may_be_set_twice(cli, argv):
    result = cli(*RUN, *argv, "--json")
    assert result.code == 0, result.err
    assert json.loads(result.out)["seed"]["value"] == 3


def test_a_value_that_set_sets_has_set_as_its_origin(cli):
    rows = json.loads(cli(*RUN, "--json", "--set", "seed=3", "--log-steps", "2").out)
    assert rows["seed"]["origin"] == "--set seed"
    assert rows["log_steps"]["origin"] == "flag --log-steps"
    refused = cli(*RUN, "--set", "seed=x")
    assert "Option 'seed' is 'x' (--set seed): should be a valid integer" in refused.err


def test_a_choice_without_effect_is_noted_at_the_start_and_by_print_config(cli):
    note = "clip_limit (flag --clip-limit) has no effect: clip is none"
    choice = ["--clip", "none", "--clip-limit", "2"]
    printed = cli(*RUN, *choice)
    assert (printed.code, printed.err) == (0, f"note: {note}\n")
    argv = ["run", "--plugin", LINEAR, "--data", write_bars("bars.npz"), "--run-dir", "r"]
    trained = cli(*argv, "--steps", "2", *choice)
    assert trained.code == 0 and trained.err.count(f"note   {note}\n") == 1
    assert "has no effect" not in cli("resume", "r", "--steps", "4").err


def test_what_is_frozen_is_noted_at_the_start(cli):
    argv = ["run", "--plugin", LINEAR, "--data", write_bars("bars.npz"), "--run-dir", "r"]
    result = cli(*argv, *QUICK, "--freeze", "*/b", "--optimizer", "sgd")
    assert "note   1 variable is frozen: linear/b\n" in result.err
    refused = cli("resume", "r", "--steps", "4", "--freeze", "*/w")
    assert (refused.code, "freeze was */b, now */w" in refused.err) == (2, True)
    resumed = cli("resume", "r", "--steps", "4", "--freeze", "*/w", "--allow", "freeze")
    assert "note   1 variable is frozen: linear/w\n" in resumed.err


def test_groups_are_repeated_flags_with_commas_of_their_own(cli):
    groups = ["a*:learning_rate=1e-4,weight_decay=0", "b:frozen=true"]
    argv = [word for group in groups for word in ("--group", group)]
    assert json.loads(cli(*RUN, *argv, "--json").out)["group"]["value"] == groups
    assert (
        json.loads(cli(*RUN, "--set", f"group={','.join(groups)}", "--json").out)["group"]["value"]
        == groups
    )


def test_arguments_of_an_optimizer_are_repeated_flags(cli):
    argv = ["--optimizer-args", "beta1=0.5", "--optimizer-args", "beta2=0.9,epsilon=1"]
    printed = json.loads(cli(*RUN, *argv, "--json").out)
    assert printed["optimizer_args"]["value"] == {"beta1": 0.5, "beta2": 0.9, "epsilon": 1}
    refused = cli(*RUN, "--optimizer-args", "beta1=0.5", "--optimizer-args", "beta1=0.6")
    assert (refused.code, "sets beta1 to 0.5 and to 0.6" in refused.err) == (2, True)


@pytest.mark.parametrize(
    "argv, note",
    [
        (
            ["--optimizer", "adamw", "--weight-decay", "0"],
            "adamw without weight decay: weight_decay is 0 (flag --weight-decay)",
        ),
        (
            ["--weight-decay", "0.1", "--group", "*:weight_decay=0"],
            "weight_decay (flag --weight-decay) has no effect: no variable of the step decays",
        ),
        (
            ["--learning-rate", "0.5", "--group", "*:learning_rate=0.1"],
            "learning_rate (flag --learning-rate) has no effect: each variable is in a group with "
            "a rate of its own",
        ),
    ],
)
def test_a_rate_or_decay_without_effect_is_noted_at_the_start(cli, argv, note):
    run = ["run", "--plugin", LINEAR, "--data", write_bars("bars.npz"), *QUICK]
    assert f"note   {note}\n" in cli(*run, *argv, "--run-dir", "r").err


def test_a_rate_and_decay_with_an_effect_are_not_noted(cli):
    run = ["run", "--plugin", LINEAR, "--data", write_bars("bars.npz"), *QUICK, "--run-dir", "r"]
    result = cli(*run, "--learning-rate", "0.5", "--optimizer", "adamw")
    assert result.code == 0 and "has no effect" not in result.err
    assert "adamw without" not in result.err


OWN_OPTIMIZER = """
    @hookimpl
    def optimize(self, losses, run):
        return run.minimize(losses, optimizer={})
"""


@pytest.mark.parametrize(
    "optimizer, idle",
    [
        ("tf.train.AdamOptimizer(0.1)", {"optimizer", "learning_rate", "warmup_steps"}),
        ("'momentum'", {"optimizer"}),
        ("None", set()),
    ],
)
def test_options_that_the_plugin_replaces_are_noted_at_the_start(cli, optimizer, idle):
    plugin = write_plugin(OWN_OPTIMIZER.format(optimizer))
    argv = ["run", "--plugin", plugin, "--data", write_bars("bars.npz"), *QUICK]
    flags = ["--optimizer", "sgd", "--learning-rate", "0.5", "--warmup-steps", "1"]
    result = cli(*argv, *flags, "--run-dir", "r")
    assert result.code == 0, result.err
    lines = [line for line in result.err.splitlines() if "has no effect: the plugin" in line]
    assert {line.split()[1] for line in lines} == idle


@pytest.mark.parametrize(
    "argv, message",
    [
        (["--epochs", "inf"], "Option 'epochs' is 'inf' (flag --epochs): should be a finite"),
        (["--learning-rate", "nan"], "Option 'learning_rate' is 'nan' (flag --learning-rate): "),
        (["--set", "clip_limit=inf"], "Option 'clip_limit' is 'inf' (--set clip_limit): should"),
        (["--batch-size", "1e3"], "Option 'batch_size' is '1e3' (flag --batch-size): should be"),
        (["--batch-size", ""], "Option 'batch_size' is '' (flag --batch-size): should be a valid"),
        (["--seed", "-1"], "Option 'seed' is '-1' (flag --seed): should be greater than or"),
        (["--data", ""], "Option 'data' is '' (flag --data): "),
        (["--optimizer", " "], "Option 'optimizer' is ' ' (flag --optimizer): "),
    ],
)
def test_a_value_that_is_none_is_refused_in_one_sentence(cli, argv, message):
    result = cli(*RUN, *argv)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith(f"Error: {message}") and result.err.count("\n") == 1
