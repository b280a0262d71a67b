"""`toolkit compare`: what differs, groups of seeds, verdicts, and what is not comparable."""

import os

import numpy as np
import pytest
from synthetic_runs import DATA, VERSIONS, Session, write_run

from toolkit.comparison.comparison import compare
from toolkit.comparison.differences import find_option_differences, group_by_seed
from toolkit.comparison.record import read_record
from toolkit.comparison.verdict import Group, find_obstacle, read_examples

SPLIT = {"directions": {"accuracy": "max", "distance": "min"}, "examples_sha256": "1" * 64}


def records(*paths):
    return [read_record(path) for path in paths]


def write_examples(run, **arrays):
    """Write the values of examples beside the reports of a run."""
    folder = os.path.join(run, "reports", "test-100")
    os.makedirs(folder)
    np.savez(os.path.join(folder, "examples.npz"), **arrays)


def write_tested(path, right, count=200, test=None, **options):
    """A run whose model is right on the first `right` of `count` examples."""
    values = np.arange(count) < right
    result = {**SPLIT, "examples": count, "reports": "reports/test-100", **(test or {})}
    run = write_run(path, metrics={"accuracy": right / count}, test=result, **options)
    write_examples(run, accuracy=values)
    return run


def verdicts(*paths, **arguments):
    found = compare(records(*paths), **arguments)["verdicts"]
    return [(each["verdict"], each["text"]) for each in found]


# ----------------------------------------------------------------------------------------- options


def test_only_options_that_differ_are_listed_with_their_origins(here, cli):
    write_run("a")
    write_run("b", learning_rate=0.1, log_steps=3, extra=1)
    differences = find_option_differences(records("a", "b"))
    assert [tuple(each.values()) for each in differences] == [
        ("learning_rate", [0.01, 0.1], ["default", "flag"]),
        ("extra", [None, 1], [None, "flag"]),
        ("log_steps", [10, 3], ["default", "flag"]),
    ]
    lines = [line.split() for line in cli("compare", "a", "b").out.splitlines()]
    assert ["extra", "-", "1", "(flag)"] in lines
    no_effect = ["no", "effect", "on", "the", "result"]
    assert ["log_steps", "10", "(default)", "3", "(flag)", *no_effect] in lines


def test_an_option_is_what_the_last_session_trained_with(here):
    write_run("a")
    write_run("b", [Session(0, {50: "x"}), Session(50, {100: "y"}, {"learning_rate": 0.5})])
    (difference,) = find_option_differences(records("a", "b"))
    assert difference["values"] == [0.01, 0.5] and difference["origins"] == ["default", ""]


# ------------------------------------------------------------------------------------------ groups


def test_runs_that_differ_in_the_seed_alone_are_one_group(here):
    for seed in (1, 2, 3):
        own = Session(0, {100: "x"}, {"draw_steps": seed}, {"without_effect": ["draw_steps"]})
        write_run(f"s{seed}", [own], metrics={"accuracy": 0.9}, seed=seed, log_steps=seed)
    write_run("other", metrics={"accuracy": 0.9}, learning_rate=0.1)
    write_run("untested", seed=9)
    all_records = records("s1", "other", "s2", "untested", "s3")
    assert group_by_seed(all_records) == [[0, 2, 4], [1], [3]]


def test_a_run_that_began_with_another_option_is_in_another_group_and_one_that_paused_is_not(here):
    for name, options in (("paused", {}), ("changed", {"learning_rate": 0.5})):
        sessions = [Session(0, {50: "x"}, options), Session(50, {100: "y"})]
        write_run(name, sessions, metrics={"accuracy": 0.9}, seed=len(name))
    write_run("whole", metrics={"accuracy": 0.9})
    assert group_by_seed(records("paused", "changed", "whole")) == [[0, 2], [1]]


SPEC = {"shape": [4], "dtype": "float32"}
OTHER_DATA = {"sha256": {"x": "1"}, "stored": SPEC, "spec": SPEC, "ink": None}
OTHER_CODE = {"plugins": {"classifier": {"toolkit_classifier/__init__.py": "b" * 64}}}


@pytest.mark.parametrize(
    "difference",
    [
        {"manifest": {"total_steps": 7}},
        {"manifest": {"data": OTHER_DATA}},
        {"manifest": {"versions": dict(VERSIONS, tensorflow="1.15.5", python="3.7.17")}},
        {"sessions": [Session(0, {100: "x"}, facts=OTHER_CODE)]},
    ],
    ids=["length", "data", "version of the framework", "code"],
)
def test_what_else_differs_makes_another_group(here, difference):
    write_run("a", metrics={"accuracy": 0.9}, test=SPLIT)
    write_run("b", metrics={"accuracy": 0.9}, test=SPLIT, seed=2, **difference)
    comparison = compare(records("a", "b"))
    assert comparison["groups"] == [[0], [1]] and len(comparison["verdicts"]) == 1
    code = ["plugin 'classifier' differs in toolkit_classifier/__init__.py"]
    assert comparison["code"] == (code if "sessions" in difference else [])


def test_a_run_that_repeats_a_seed_counts_once(here):
    for name, seed in (("a", 1), ("copy", 1), ("b", 2)):
        write_run(name, metrics={"accuracy": 0.8 + seed / 10}, seed=seed)
    comparison = compare(records("a", "copy", "b"))
    assert comparison["groups"] == [[0, 1, 2]]
    (band,) = comparison["metrics"][0]["values"]
    assert (band["seeds"], band["value"]) == (2, pytest.approx(0.95))
    assert (band["low"], band["high"]) == (pytest.approx(0.9), pytest.approx(1.0))


# ---------------------------------------------------------------------------------------- verdicts


@pytest.mark.parametrize(
    "right, test, verdict, words",
    [
        (150, {}, "separated", ["a is better than b by 0.1500 [", "McNemar", "1 seed each"]),
        (179, {}, "not separated", ["are not separated: they differ by 0.0050"]),
        (150, {"directions": {}}, "separated", ["a is higher than b"]),  # none is called better
    ],
)
def test_a_verdict_follows_the_examples_on_which_models_differ(here, right, test, verdict, words):
    write_tested("a", 180, test=test)
    write_tested("b", right, test=test, learning_rate=0.1)
    ((word, text),) = verdicts("a", "b", metrics=["accuracy"])
    assert word == verdict and all(part in text for part in words)


def test_lower_is_better_where_the_run_says_so(here):
    for name, value, rate in (("a", 3.0, 0.1), ("b", 5.0, 0.2)):
        ends = {"distance": {"low": value - 0.1, "high": value + 0.1, "level": 0.95, "method": "x"}}
        test = dict(SPLIT, intervals=ends)
        write_run(name, metrics={"distance": value}, test=test, learning_rate=rate)
    ((verdict, text),) = verdicts("a", "b")
    assert verdict == "separated" and "a is better than b by 2.0000" in text


def test_single_values_without_intervals_are_not_comparable(here):
    write_run("a", metrics={"accuracy": 0.9}, test=SPLIT)
    write_run("b", metrics={"accuracy": 0.1}, test=SPLIT, learning_rate=0.1)
    ((verdict, text),) = verdicts("a", "b")
    assert verdict == "not comparable" and "1 seed each, without intervals" in text


def test_the_level_holds_for_all_verdicts_together(here):
    write_tested("a", 165)
    write_tested("b", 157, learning_rate=0.1)
    assert verdicts("a", "b")[0][0] == "separated"
    for number in range(4):
        write_tested(f"c{number}", 157, learning_rate=0.2 + number)
    several = verdicts("a", "b", "c0", "c1", "c2", "c3")
    assert len(several) == 15 and {verdict for verdict, _ in several} == {"not separated"}
    assert "adjusted for 15 comparisons" in several[0][1]


# ---------------------------------------------------------------------------------- not comparable


def obstacle(a, b, name="accuracy"):
    return find_obstacle(Group("a", records(a)), Group("b", records(b)), name)


@pytest.mark.parametrize(
    "test, other, data, reason",
    [
        ({}, {"examples": 60}, {}, "other test split: 50 and 60 examples"),
        ({}, {"split": "validation"}, {}, "other split: test and validation"),
        ({}, {}, {"sha256": {"f": "f" * 64}}, "other test split: the data differs (mnist5k)"),
        ({}, {}, {"partition": "9"}, "other test split: other examples of the data are held out"),
        ({}, {"depends_on": {"accuracy": {"samples": 5}}}, {}, "other samples: unknown and 5"),
        ({}, {"depends_on": {"loss": {"samples": 5}}}, {}, ""),
        (
            {"depends_on": {"accuracy": {"features": "c" * 64, "samples": 1}}},
            {"depends_on": {"accuracy": {"features": "d" * 64, "samples": 2}}},
            {},
            f"other features: {'c' * 12} and {'d' * 12}; other samples: 1 and 2",
        ),
        (SPLIT, SPLIT, {"sha256": {"other.csv": "f" * 64}}, ""),  # the same examples
    ],
)
def test_other_tests_are_not_comparable_and_say_why(here, test, other, data, reason):
    write_run("a", metrics={"accuracy": 0.9}, test=test)
    data = dict(read_record("a").manifest["data"], **data)
    write_run("b", metrics={"accuracy": 0.8}, test=other, manifest={"data": data})
    assert obstacle("a", "b") == reason


def test_other_labels_of_one_table_are_not_comparable(here):
    for name, label in (("a", "price"), ("b", "rent")):
        data = dict(DATA, stored={"table": {"labels": [label]}})
        write_run(name, metrics={"accuracy": 0.9}, manifest={"data": data})
    assert obstacle("a", "b") == "other labels: price and rent"


def test_a_run_without_a_result_is_not_comparable(here):
    write_run("a", metrics={"accuracy": 0.9})
    write_run("b")
    write_run("c", metrics={"accuracy": None})
    assert obstacle("a", "b") == "b has no result of the test split (finished)"
    assert obstacle("a", "c") == "accuracy of c is not finite"
    assert obstacle("a", "a", "other") == "a has no other"


# ---------------------------------------------------------------------------------------- examples


@pytest.mark.parametrize("metric, count", [(0.45, 4), (0.46, 0)])
def test_values_with_another_mean_than_the_metric_are_not_used(here, metric, count):
    test = dict(SPLIT, reports="reports/test-100")
    run = write_run("a", metrics={"error": metric}, test=test)
    write_examples(run, error=np.array([0.1, 0.2, 0.5, 1.0]))
    examples = read_examples(read_record(run), "error")
    assert (0 if examples is None else len(examples)) == count


def test_a_verdict_says_that_pairs_are_lost(here):
    interval = {"low": 0.4, "high": 0.6, "level": 0.95, "method": "Wilson"}
    test = {"intervals": {"accuracy": interval}}
    for name, right in [("a", 100), ("b", 110)]:
        write_tested(name, right, test=test, learning_rate=right)
    assert "not paired" not in verdicts("a", "b")[0][1]
    os.remove("b/reports/test-100/examples.npz")
    assert "not paired: b has no values of its examples" in verdicts("a", "b")[0][1]


@pytest.mark.parametrize("part", ["reports", "reports/test-100", "reports/test-100/examples.npz"])
def test_links_to_values_of_examples_are_not_followed(here, part):
    (run,) = records(write_tested("a", 100))
    assert read_examples(run, "accuracy") is not None
    os.rename(f"a/{part}", "elsewhere")
    os.symlink(os.path.abspath("elsewhere"), f"a/{part}")
    assert read_examples(run, "accuracy") is None


def test_a_pipe_or_a_damaged_file_of_examples_is_not_used(here):
    (run,) = records(write_tested("a", 100))
    path = here / "a/reports/test-100/examples.npz"
    path.write_bytes(b"PK\x03\x04")
    assert read_examples(run, "accuracy") is None
    path.unlink()
    os.mkfifo(str(path))  # to open it would block
    assert read_examples(run, "accuracy") is None


# ----------------------------------------------------------------------------------------- command


def test_the_command_and_its_json_have_the_comparison(here, cli):
    write_tested("a", 180)
    write_tested("b", 150, learning_rate=0.1)
    result = cli("compare", "a", "b")
    assert (result.code, result.err) == (0, "")
    assert "A  a  (finished at step 100)" in result.out
    assert "learning_rate  0.01 (default)  0.1 (flag)" in result.out
    assert "accuracy: a is better than b" in result.out
    assert "learning_rate differs (0.01, 0.1)" in result.out.split("parting")[1]
    facts = cli("compare", "a", "b", "--json").json()
    assert [run["name"] for run in facts["runs"]] == ["a", "b"]
    assert facts["options"] == [
        {"name": "learning_rate", "values": [0.01, 0.1], "origins": ["default", "flag"]}
    ]
    assert facts["metrics"][0]["values"][0]["value"] == 0.9
    assert facts["verdicts"][0]["separation"]["difference"] == pytest.approx(0.15)
    assert facts["parting"][0]["step"] == 0


@pytest.mark.parametrize(
    "argv, message",
    [
        (["a", "a"], "needs two runs"),
        (["a", "b", "--metric", "acuracy"], "No run has a metric 'acuracy'"),
        (["a", "b", "--level", "2"], "--level"),
    ],
)
def test_mistakes_are_one_sentence_and_exit_code_2(here, cli, argv, message):
    write_run("a", metrics={"accuracy": 0.9}), write_run("b")
    cli.refuse(2, message, "compare", *argv)


def test_a_damaged_run_ends_the_command_or_is_left_out_with_a_note(here, cli):
    write_run("a"), write_run("b"), write_run("c")
    os.remove("b/commits.jsonl")
    cli.refuse(5, "commits.jsonl is missing", "compare", "a", "b")
    for names in (["a", "b", "c"], ["."]):
        result = cli("compare", *names)
        assert result.code == 0 and "warning: b is left out: " in result.err
    assert cli("compare", "a", "b", "c", "missing").code == 2


# ------------------------------------------------------------------------ what cannot be compared


def test_runs_of_other_plugins_have_one_verdict_and_few_options(here, cli):
    write_tested("a", 180)
    test = {"directions": {"distance": "min", "recall": "max"}}
    metrics = {"distance": 3.0, "recall": 0.5}
    origins = {"hue": "default", "depth": "default", "size": "flag --size"}
    options = {"plugin": "gan", "hue": 0.0, "depth": [], "size": 64}
    write_run("b", metrics=metrics, test=test, origins=origins, **options)
    comparison = compare(records("a", "b"))
    assert [(each["verdict"], each["text"]) for each in comparison["verdicts"]] == [
        ("not comparable", "a and b are not comparable: other plugins (classifier and gan)")
    ]
    names = [option["name"] for option in comparison["options"]]
    assert "size" in names and "hue" not in names and "depth" not in names
    out = cli("compare", "a", "b").out
    assert out.count("not comparable") == 1 and "other plugins (classifier and gan)" in out


def test_two_runs_have_no_verdict_by_a_metric_of_a_third_alone(here):
    write_tested("a", 180)
    write_tested("b", 170, learning_rate=0.5)
    write_run("c", metrics={"distance": 3.0}, plugin="gan")
    texts = [text for _, text in verdicts("a", "b", "c")]
    assert len(texts) == 3 and texts[0].startswith("accuracy: a ")
    assert all("c are not comparable: other plugins" in text for text in texts[1:])


def test_an_option_that_is_none_is_told_from_one_that_a_run_lacks(here, cli):
    write_run("a", decay_steps=None, depth=None)
    write_run("b", decay_steps=7)
    rows = {line.split()[0]: line.split()[1:] for line in cli("compare", "a", "b").out.splitlines()}
    assert rows["decay_steps"] == ["none", "(flag)", "7", "(flag)"]
    assert rows["depth"] == ["none", "(flag)", "-"]


def test_a_reason_that_holds_for_all_metrics_is_stated_once(here):
    for name, examples in (("a", 50), ("b", 13)):
        test = {"directions": {"accuracy": "max", "loss": "min"}, "examples": examples}
        metrics = {"accuracy": 0.9, "loss": 1.0}
        write_run(name, metrics=metrics, test=test, learning_rate=examples)
    assert verdicts("a", "b") == [
        ("not comparable", "a and b are not comparable: other test split: 50 and 13 examples")
    ]


@pytest.mark.parametrize(
    "change, lines",
    [
        (
            {"seed": 2},
            [
                "A  a, b  (finished at step 100; seeds 1, 2)\n",
                "no option differs but the seed\n",
                "nothing to compare: the 2 runs are one method with 2 seeds\n",
                "accuracy  0.9150 (sd 0.0071, 0.9100 to 0.9200, 2 seeds)",
            ],
        ),
        (
            {"log_steps": 3},
            [
                "no option differs but log_steps\n",
                "b repeats the seed of an earlier run",
                "nothing to compare: the runs have the same seed and the same options\n",
            ],
        ),
    ],
)
def test_one_group_alone_has_nothing_to_compare(here, cli, change, lines):
    write_run("a", metrics={"accuracy": 0.91}, test=SPLIT)
    write_run("b", metrics={"accuracy": 0.92}, test=SPLIT, **change)
    out = cli("compare", "a", "b").out
    assert all(line in out for line in lines)


def test_seeds_with_one_value_do_not_vary_though_their_mean_is_rounded(here, cli):
    for seed in (1, 2, 3):
        write_run(f"a{seed}", metrics={"accuracy": 0.36}, test=SPLIT, seed=seed)
        write_run(f"b{seed}", metrics={"accuracy": 0.5}, test=SPLIT, seed=seed, learning_rate=0.1)
    out = cli("compare", ".").out
    assert "0.3600 (sd 0.0000, 0.3600 to 0.3600, 3 seeds)" in out
    assert "not comparable: the values do not vary" in out


def test_seeds_that_other_machines_trained_are_one_group_that_says_so(here, cli):
    write_run("a", metrics={"accuracy": 0.9}, test=SPLIT)
    facts = {"machine": {"processor": "Xeon", "cores": 2, "threads within an op": 1}}
    versions = dict(VERSIONS, python="3.12.1")
    more = {"metrics": {"accuracy": 0.9}, "test": SPLIT, "manifest": {"versions": versions}}
    write_run("b", [Session(0, {100: "x"}, facts=facts)], seed=2, **more)
    out = cli("compare", "a", "b").out
    assert "these runs also differ in: python 3.11.7, 3.12.1; processor EPYC, Xeon" in out


def test_a_verdict_on_one_seed_says_what_would_help_and_which_was_better(here):
    for seed, right in ((1, 180), (2, 150)):
        write_tested(f"a{seed}", right, seed=seed)
    write_tested("b", 150, learning_rate=0.1)
    ((verdict, text),) = verdicts("a1", "a2", "b")
    assert verdict == "not separated"
    assert "b has 1 seed, taken to vary like the other's: train it with more" in text
    assert ", a1 (2 seeds) is better here (p = " in text


def test_a_verdict_by_values_of_seeds_alone_is_for_these_test_examples(here):
    for name, value, rate in [("a1", 0.9, 0.1), ("a2", 0.91, 0.1), ("b1", 0.5, 1), ("b2", 0.51, 1)]:
        options = {"seed": int(name[1]), "learning_rate": rate}
        write_run(name, metrics={"accuracy": value}, test=SPLIT, **options)
    ((verdict, text),) = verdicts("a1", "a2", "b1", "b2")
    assert verdict == "separated" and "a1 (2 seeds) is better than b1 (2 seeds)" in text
    note = "Welch's t test over seeds; 2 and 2 seeds; for these test examples: others may differ)"
    assert text.endswith(note)
