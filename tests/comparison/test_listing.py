"""`toolkit runs`: a table that says what is special about each run, sorted and filtered."""

import json
import os

import pytest
from rich.cells import cell_len
from synthetic_runs import write_run

from toolkit.comparison.differences import find_special_options
from toolkit.comparison.listing import read_rows
from toolkit.comparison.record import read_record
from toolkit.display.table import format_table

INTERVAL = {"accuracy": {"low": 0.8, "high": 0.95, "level": 0.95, "method": "Wilson"}}


def names(result):
    """The first cells of the rows of a table."""
    return [line.split()[0] for line in result.out.splitlines()[1:]]


def special(*paths):
    return find_special_options([read_record(path) for path in paths])


def test_of_several_runs_what_somebody_set_and_varies_is_special(here):
    write_run("a", batch_size=32)
    write_run("b", batch_size=32, learning_rate=0.1)
    write_run("c", batch_size=32, learning_rate=0.2, log_steps=3, steps=7, **{"with": ["ema"]})
    changed = {"with": ["ema"], "learning_rate": 0.2}
    assert special("a", "b", "c") == [{}, {"learning_rate": 0.1}, changed]


def test_of_one_run_of_a_plugin_all_that_somebody_set_is_special(here):
    write_run("a", learning_rate=0.1)
    write_run("b", plugin="gan", batch_size=7, origins={"batch_size": "flag"})
    chosen = {"hue": "data the images have 10 labels", "best_metric": "default"}
    write_run("c", plugin="regressor", hue=1, best_metric=None, origins=chosen)
    assert special("a", "b", "c") == [{"learning_rate": 0.1}, {"batch_size": 7}, {}]


def test_the_values_of_a_preset_are_not_special_beside_its_name(here):
    write_run("a", preset="x", beta=1, origins={"beta": "preset x"})
    write_run("b", preset="y", beta=2, origins={"beta": "preset y"})
    assert special("a", "b") == [{"preset": "x"}, {"preset": "y"}]


def test_a_table_has_state_step_metric_time_data_and_options(here, cli):
    write_run("runs/a", metrics={"loss": 0.1, "accuracy": 0.9}, test={"intervals": INTERVAL})
    write_run("runs/b", metrics={"loss": 0.2, "accuracy": 0.7}, seed=2)
    result = cli("runs")
    assert (result.code, result.err) == (0, "")
    header, *rows = result.out.splitlines()
    assert header.split() == ["name", "status", "step", "accuracy", "time", "data", "options"]
    assert rows[0].split("  ")[0] == "runs/a" and "0.9000 [0.8000, 0.9500]" in rows[0]
    assert rows[1].rstrip().endswith("seed=2") and "100/100" in rows[1]


def test_a_metric_may_have_the_name_of_a_column(here, cli):
    write_run("a", metrics={"status": 0.5})
    assert "finished" in cli("runs", ".").ok().out


def test_the_best_run_is_first_whatever_is_better(here, cli):
    for name, value in (("a", 0.3), ("b", 0.1), ("c", 0.2)):
        write_run(name, metrics={"error": value}, test={"directions": {"error": "min"}})
        write_run(f"up/{name}", metrics={"score": value}, test={"directions": {"score": "max"}})
    write_run("none")
    ranking = ["b", "c", "a", "up/a", "up/c", "up/b", "none"]
    assert names(cli("runs", ".", "--sort", "metric")) == ranking
    assert names(cli("runs", "up", "--sort", "metric", "--reverse")) == ["up/b", "up/c", "up/a"]


def test_a_metric_that_no_run_has_is_refused(here, cli):
    write_run("a", metrics={"loss": 0.1, "accuracy": 0.9, "loss/kl": 0.3})
    result = cli.refuse(2, "No run has the metric 'acuracy'.", "runs", ".", "--metric", "acuracy")
    assert "Did you mean 'accuracy'?" in result.err
    assert names(cli("runs", ".", "--where", "loss/kl<0.5")) == ["a"]


def test_runs_are_sorted_by_time_name_and_options(here, cli):
    for number, seed in ((2, 5), (10, 3), (1, 4)):
        created = f"2026-11-{number:02d}"
        write_run(f"run-{number}", seed=seed, manifest={"created": created})
    assert names(cli("runs", ".")) == ["run-10", "run-2", "run-1"]
    assert names(cli("runs", ".", "--sort", "name")) == ["run-1", "run-2", "run-10"]
    assert names(cli("runs", ".", "--sort", "seed", "--limit", "2")) == ["run-10", "run-1"]


@pytest.mark.parametrize(
    "condition, matches",
    [
        ("learning_rate>0.01", ["b"]),
        ("learning-rate <= 1e-2", ["a"]),
        ("status=finished", ["a", "b"]),
        ("accuracy>=0.9", ["a"]),
        ("accuracy=0.9", ["a"]),
        ("recall (top-3) >0.9", ["a"]),
        ("with=ema", ["b"]),
        ("clip=none", ["a"]),
        ("flag=on", ["b"]),
        ("data~MNIST", ["a", "b"]),
        ("created>2026-01-01", ["a", "b"]),
        ("created>2025", ["a", "b"]),
        ("name!=a", ["b"]),
    ],
)
def test_conditions_compare_options_metrics_and_fields(here, cli, condition, matches):
    metrics = {"accuracy": 0.8999999761581421, "recall (top-3)": 0.95}  # 0.9 in float32
    write_run("a", metrics=metrics, clip=None, flag=False)
    write_run("b", learning_rate=0.1, flag=True, clip=2, **{"with": ["ema", "swa"]})
    result = cli.succeed("runs", ".", "--where", condition, "--sort", "name")
    assert names(result) == matches


def test_a_column_of_runs_beyond_the_limit_is_known(here, cli):
    write_run("tested", metrics={"top-3": 0.9}, manifest={"created": "2025"})
    write_run("training")
    result = cli.succeed("runs", ".", "--limit", "1", "--columns", "name, top-3, learning-rate")
    assert result.out.splitlines()[0].split() == ["name", "top-3", "learning_rate"]


@pytest.mark.parametrize(
    "condition, message",
    [
        ("finished", "is not a name, a comparison and a value"),
        ("accuracy>abc", "'abc' is no number"),
        ("learning_rate<=fast", "The values of learning_rate are numbers, such as 0.01"),
        ("learning_rate>>1", "has no comparison '>>'"),
    ],
)
def test_a_condition_that_can_match_nothing_is_a_mistake(here, cli, condition, message):
    write_run("a", metrics={"accuracy": 0.9})
    assert cli.refuse(2, message, "runs", ".", "--where", condition).out == ""


def test_a_name_that_no_run_has_is_a_mistake_with_a_few_suggestions(here, cli):
    options = {f"option_{number}": number for number in range(40)}
    write_run("a", metrics={"accuracy": 0.9}, **options)
    for argv in (["--where", "foo>1"], ["--sort", "foo"], ["--columns", "foo"]):
        result = cli("runs", ".", *argv)
        assert result.code == 2 and "There is no '" in result.err and result.out == ""
        hint = result.err.splitlines()[1]
        assert "metrics: accuracy; " in hint and "and 32 more" in hint and len(hint) < 500
        words = hint.replace(";", ",").split(", ")
        assert len(words) == len(set(words))
    assert "Did you mean 'accuracy'?" in cli("runs", ".", "--sort", "acuracy").err


def test_other_data_are_rankings_of_their_own(here, cli):
    for name, value in (("a", 0.9), ("b", 0.7), ("c", 0.8)):
        write_run(name, metrics={"accuracy": value})
    data = dict(read_rows(["a"], print)[0].record.manifest["data"], partition="9" * 64)
    write_run("small", metrics={"accuracy": 1.0}, manifest={"data": data})
    for key in ("metric", "accuracy"):
        result = cli("runs", ".", "--sort", key)
        assert names(result) == ["a", "c", "b", "small"]
        assert "warning: the runs are of 2 data sets or splits, each with a ranking" in result.err
    assert cli("runs", ".", "--sort", "name").err == ""
    assert cli("runs", ".", "--sort", "accuracy", "--limit", "2").err == ""
    for number in range(5):
        os.symlink("a", f"link-{number}")
    err = cli("runs", ".", "--sort", "accuracy").err
    assert "each with a ranking" in err and "1 more folders are left out" in err


def test_damaged_runs_are_rows_with_their_reason(here, cli):
    write_run("good")
    write_run("bad")
    open("bad/config.json", "w").close()
    result = cli("runs", ".", "--sort", "name")
    assert result.code == 0
    assert result.out.splitlines()[1].startswith("bad ")
    assert "config.json is not valid JSON" in result.out and "damaged" in result.out
    rows = json.loads(cli("runs", ".", "--json").out)["runs"]
    assert {row["name"]: row["status"] for row in rows} == {"bad": "damaged", "good": "finished"}


def test_a_pipe_gets_whole_names_and_values(here, cli):
    write_run("x" * 150, text="y" * 50)
    result = cli("runs", ".")
    assert "x" * 150 in result.out and "text=" + "y" * 50 in result.out


def test_each_run_is_listed_once(here):
    write_run("runs/a")
    rows = read_rows(["runs", ".", "runs/a"], print)
    assert [row.values["name"] for row in rows] == [os.path.join("runs", "a")]


def test_a_run_that_trains_shows_its_last_validation(here, cli):
    last = {"step": 20, "examples": 9, "metrics": {"loss": 0.4, "accuracy": 0.8}}
    state = {"status": "stopped", "summary": None, "validation": {"last": last, "best": None}}
    write_run("a", manifest=state)
    assert "0.8000 (validation)" in cli("runs", ".").out


def test_without_a_run_or_a_folder_there_is_one_sentence(here, cli):
    assert cli("runs").code == 2
    os.mkdir("runs")
    result = cli("runs")
    assert (result.code, result.out) == (0, "") and "There is no run in runs" in result.err
    write_run("runs/a")
    result = cli("runs", "--where", "seed=9")
    assert (result.code, result.err) == (0, "None of 1 runs matches seed=9.\n")


def test_columns_line_up_with_wide_and_combining_characters():
    lines = format_table(["name", "n"], [["漢字", "1"], ["e\u0301", "2"], ["ab", "3"]])
    assert [cell_len(line.rpartition("  ")[0]) for line in lines] == [4, 4, 4, 4]


def test_a_narrow_terminal_breaks_the_widest_column_into_lines():
    lines = format_table(["name", "options"], [["a" * 10, "b" * 50]], width=40)
    assert lines[1:] == ["a" * 10 + "  " + "b" * 28, " " * 12 + "b" * 22]
    lines = format_table(["name", "options"], [["a" * 50, "b" * 50]], width=30)
    assert "".join(lines[1:]).count("a") == "".join(lines[1:]).count("b") == 50
    assert max(map(len, lines)) <= 30
