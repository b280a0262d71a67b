"""Choices on the command line that contradict one another, or have no effect."""

import pytest
from linear_fixtures import LINEAR
from run_fixtures import write_plugin

RUN = ["run", "--plugin", LINEAR, "--print-config"]
QUICK = ["--steps", "1", "--no-evaluate", "--steps-per-call", "1"]


@pytest.mark.parametrize(
    "argv, message",
    [
        (["--seed", "1", "--seed", "2"], "Both --seed 1 and --seed 2 are set.\n"),
        (["--plugin", "gan"], f"Both --plugin {LINEAR} and --plugin gan are set.\n"),
        (["--evaluate", "--no-evaluate"], "Both --evaluate and --no-evaluate are set.\n"),
        (["--run-dir", "a", "--run-dir=b"], "Both --run-dir a and --run-dir b are set.\n"),
        (
            ["--optimizer-args", "beta1=0.5", "--optimizer-args", "beta1=0.6"],
            "Option 'optimizer_args' (flag --optimizer-args): 'beta1=0.5,beta1=0.6' sets beta1 to ",
        ),
        (["--data", ""], "Option 'data' is '' (flag --data): "),
    ],
)
def test_an_option_with_two_values_or_none_is_refused(cli, argv, message):
    result = cli(*RUN, *argv)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith(f"Error: {message}")


GROUPS = ["a*:learning_rate=1e-4,weight_decay=0", "b:frozen=true"]


@pytest.mark.parametrize(
    "argv, name, value",
    [
        (["--seed", "3", "--seed=3"], "seed", 3),
        (["--evaluate", "--evaluate"], "evaluate", True),
        # Lists have commas or repeated flags, groups have commas of their own.
        (["--group", GROUPS[0], "--group", GROUPS[1]], "group", GROUPS),
        (["--group", ",".join(GROUPS)], "group", GROUPS),
        (
            ["--optimizer-args", "beta1=0.5", "--optimizer-args", "beta2=0.9,epsilon=1"],
            "optimizer_args",
            {"beta1": 0.5, "beta2": 0.9, "epsilon": 1},
        ),
    ],
)
def test_an_option_may_have_one_value_twice_and_a_list_several_flags(cli, argv, name, value):
    assert cli(*RUN, *argv, "--json").ok().json()[name]["value"] == value


def test_a_choice_without_effect_is_noted_by_print_config(cli):
    printed = cli(*RUN, "--clip", "none", "--clip-limit", "2")
    note = "note: clip_limit (flag --clip-limit) has no effect: clip is none\n"
    assert (printed.code, printed.err) == (0, note)


def test_choices_without_effect_on_the_step_are_noted_at_the_start(cli, data):
    run = ["run", "--plugin", LINEAR, "--data", data, "--run-dir", "r", *QUICK]
    flags = ["--weight-decay", "0.1", "--learning-rate", "0.5", "--freeze", "*/b"]
    result = cli(*run, *flags, "--group", "*:weight_decay=0,learning_rate=0.1")
    notes = {line[7:] for line in result.err.splitlines() if line.startswith("note ")}
    assert notes == {
        "1 variable is frozen: linear/b",
        "weight_decay (flag --weight-decay) has no effect: no variable of the step decays",
        "learning_rate (flag --learning-rate) has no effect: no update of the step uses it",
    }


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
    ],
)
def test_options_that_the_plugin_replaces_are_noted_at_the_start(cli, data, optimizer, idle):
    argv = ["run", "--plugin", write_plugin(OWN_OPTIMIZER.format(optimizer)), "--data", data]
    flags = ["--optimizer", "sgd", "--learning-rate", "0.5", "--warmup-steps", "1"]
    result = cli(*argv, *QUICK, *flags).ok()
    lines = [line for line in result.err.splitlines() if "has no effect: no update" in line]
    assert {line.split()[1] for line in lines} == idle
