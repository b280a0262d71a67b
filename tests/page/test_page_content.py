"""A page says what the folder of its run says: is it good, what next, how was it made."""

import json
import math
import os
import re

import pytest
from synthetic_runs import Session, fake_hash, options_of, write_run

from toolkit.cli.report import render_runs
from toolkit.comparison.comparison import compare
from toolkit.comparison.record import read_record, read_runs
from toolkit.page.chart import Axis, Line, make_chart
from toolkit.page.curves import Curve, Curves
from toolkit.page.events import find_place
from toolkit.page.quantities import parse_quantity
from toolkit.page.several import describe_search
from toolkit.page.tables import Span, make_table
from toolkit.page.values import format_alike, format_number
from toolkit.page.writer import describe_page, render, write_run_page
from toolkit.storage.commit_log import CommitLog


def content(path="run", **values):
    """What the page of a run that is written with these values shows of it; see `write_run`."""
    return describe_page([read_record(write_run(path, **values))])["run"]


def page_of(*names):
    return render_runs(read_runs(names))[1].decode()


def cells(table):
    """The texts of a table's rows."""
    return [[cell["text"] for cell in row["cells"]] for row in table["rows"]]


def train(step, **metrics):
    return dict(metrics, step=step, kind="train")


def validation(step, **metrics):
    return dict(metrics, step=step, kind="eval", split="validation")


def with_page(**page):
    return {"metrics": {"loss": 1.0}, "test": {"page": page}}


# --------------------------------------------------------------------------------------- is it good


def test_the_head_says_model_data_date_and_time_and_each_number_has_its_interval(here):
    interval = {"low": 0.8, "high": 0.96, "level": 0.95, "method": "Wilson"}
    test = {"intervals": {"accuracy": interval}, "directions": {"accuracy": "max"}}
    run = content(metrics={"loss": 0.25, "accuracy": 0.9}, test=test)
    assert run["facts"] == "classifier on mnist5k, 500 examples, 2026-11-22, 12 s, 2 cores"
    assert (run["status"], run["end"], run["worst"]) == ("finished", "reached step 100", None)
    first, second = run["headline"]
    assert (first["name"], first["text"]) == ("accuracy", "0.9000")
    assert first["interval"] == "0.8000 to 0.9600"
    assert first["scale"]["better"] == "right" and first["scale"]["point"] == 90
    assert second["sentence"] == "lower is better"
    assert run["tested"] == "On the test split, 50 examples, step 100."


def test_a_run_without_a_test_shows_its_last_validation(here):
    records = [validation(50, accuracy=0.5), validation(100, accuracy=0.75), train(100, loss=1)]
    (quantity,) = content(records=records)["headline"]
    assert (quantity["text"], quantity["note"]) == ("0.7500", "validation, step 100")


def test_a_number_that_is_better_the_lower_has_its_sentence_and_its_scale():
    quantity = parse_quantity(
        {
            **{"name": "two_sample", "value": 0.985, "low": 0.98, "high": 0.99, "direction": "min"},
            **{"ends": [0.5, 1], "text": "98.5 % are recognised."},
        }
    )
    scale = quantity["scale"]
    assert (scale["better"], scale["point"], scale["range"]) == ("left", 97, [96, 98])
    assert (quantity["name"], quantity["sentence"]) == ("two sample", "98.5 % are recognised.")
    floor = parse_quantity({"name": "distance", "value": 4.0, "floor": 1.0, "direction": "min"})
    assert floor["marks"] == ["floor 1"] and floor["scale"]["ticks"] == [22.73]
    weak = parse_quantity({"name": "accuracy", "value": 0.1, "chance": 0.1, "direction": "max"})
    assert "no better than chance" in weak["sentence"]


NONFINITE = {"kind": "event", "event": "nonfinite"}
REFUSED = {"records": [dict(NONFINITE, step=30, count=2), dict(NONFINITE, step=60, count=1)]}
DIVERGED = {"status": "diverged", "exit_code": 3, "reason": "Training diverged in step 7."}
RECALL = [{"names": ["a", "b"], "counts": [[9, 1], [7, 3]]}]
DECLINE = [validation(step, loss=loss) for step, loss in [(10, 2.0), (20, 1.0), (30, 1.9)]]
RESUMED = [
    Session(0, {40: "a"}, {"learning_rate": 0.1}),
    Session(40, {100: "b"}, facts={"machine": {"cores": 8}}),
]


@pytest.mark.parametrize(
    "values, level, text",
    [
        ({**REFUSED, "manifest": DIVERGED}, "error", "Training diverged in step 7."),
        (REFUSED, "warning", "3 steps were refused as not finite, between steps 30 and 60."),
        (
            {"sessions": RESUMED},
            "note",
            "The run resumes at step 40, with learning_rate 0.01 in place of 0.1, not bit-exactly:"
            " cores was 2, now 8.",
        ),
        (
            {"records": DECLINE},
            "warning",
            "The validation's loss was best with 1.0000 at step 20, and ended with 1.9000 at step"
            " 30.",
        ),
        (with_page(warnings=[{"text": "A class is lost."}]), "warning", "A class is lost."),
        (with_page(matrices=RECALL), "note", "Class b is recognised in 3 of its 10 examples."),
    ],
)
def test_the_worst_thing_is_in_words(here, values, level, text):
    worst = content(**values)["worst"]
    assert (worst.level, worst.text) == (level, text)


def test_a_process_that_was_killed_is_an_error_with_the_command_that_continues_it(here):
    run = content(manifest={"status": "running", "exit_code": None, "summary": None})
    assert run["status"] == "killed" and run["worst"].level == "error"
    assert run["advice"] == ["Continue the run with: toolkit resume runs/run"]


def test_the_autopsy_is_on_the_page_and_the_reason_once(here):
    os.makedirs("run/reports/autopsy-100")
    lines = {"lines": ["The first tensor that is not finite is x.", 3]}
    (here / "run/reports/autopsy-100/autopsy.json").write_text(json.dumps(lines))
    records = [{"step": 100, "kind": "event", "event": "diverged", "message": DIVERGED["reason"]}]
    assert content(manifest=DIVERGED, records=records)["autopsy"] == [
        "The first tensor that is not finite is x."
    ]
    assert page_of("run").count(DIVERGED["reason"]) == 1


# ---------------------------------------------------------------------------------- what to do next

RISING = [
    validation(step, loss=loss) for step, loss in [(10, 4.0), (20, 3.0), (30, 2.0), (40, 1.0)]
]
MORE = "One seed says little: train with another --seed, and compare with toolkit compare."
CONFUSED = [{"names": ["a", "b", "c"], "counts": [[9, 3, 1], [3, 7, 0], [0, 0, 9]]}]


@pytest.mark.parametrize(
    "values, advice",
    [
        ({"manifest": DIVERGED}, "Try a lower --learning-rate than 0.01, or --on-nonfinite skip."),
        (
            {"records": DECLINE},
            "Test the best checkpoint with --best-metric loss, or train shorter.",
        ),
        (
            {"records": RISING},
            "The validation's loss still got better at the end: train longer, say --steps 200.",
        ),
        ({"records": RISING, "manifest": {"step": 40}}, MORE),  # early stopping ended it
        (with_page(matrices=CONFUSED), "Look at a and b: 6 of the 7 errors are between them."),
        (with_page(advice=["Draw more."]), "Draw more."),
    ],
)
def test_advice_comes_from_the_facts_of_the_run(here, values, advice):
    assert content(**values)["advice"] == [advice]


def test_the_command_names_the_folder_as_the_user_did_and_says_what_else_it_needs(here):
    argv = ["toolkit", "run", "--run-dir", "my runs/a/"]
    run = content("my runs/a", manifest={"argv": argv}, sessions=RESUMED, plugin="../model.py")
    assert run["again"] == (
        "toolkit run --config 'my runs/a'/config.json --run-dir 'my runs/a'-again"
    )
    assert run["again_needs"] == [
        "One command is not enough: a resume changed options, as the events say.",
    ]
    parent = {"kind": "weights", "name": "parent", "step": 50, "tensors": "a" * 64, "head": ""}
    run = content("b", init_from="../parent", manifest={"parent": parent})
    assert run["again_needs"][0] == (
        "The run began with the weights of parent, step 50 (tensors aaaaaaaaaaaaaaaa), which it"
        " needs."
    )


@pytest.mark.parametrize(
    "path, words, place",
    [
        ("runs/linear/2026-ab12", ["run"], "runs/linear/2026-ab12"),  # the default folder
        ("exp/a", ["resume", "exp/a"], "exp/a"),
        ("runs/copy", ["run", "--run-dir=runs/a"], "runs/copy"),
    ],
)
def test_a_run_is_named_by_its_own_place(here, path, words, place):
    assert find_place(read_record(write_run(path, manifest={"argv": ["toolkit", *words]}))) == place


def test_a_branch_is_made_again_from_its_parent(here):
    write_run("run", sessions=[Session(0, {50: "a"})])
    log = CommitLog("run/commits.jsonl", str)
    parent = {"kind": "branch", "name": "a", "step": 50, "tensors": "a" * 64, "head": "b" * 64}
    log.add("branch", step=50, parent=parent, kept=[], created="now")
    log.add("session", **{"from": 50}, kept=[], options=options_of(learning_rate=0.5))
    run = describe_page([read_record("run")])["run"]
    assert run["again"] == "toolkit resume a --from 50"
    assert "needs that run" in run["again_needs"][0]


# ------------------------------------------------------------------------------------------- curves


def test_curves_are_grouped_and_the_split_decides_their_look(here):
    names = ["discriminator/learning_rate", "g_loss", "d_loss", "d_real", "d_fake"]
    metrics = dict.fromkeys(names, 1.0)
    records = [train(10, **metrics), train(20, **metrics), validation(20, d_loss=1.0)]
    charts = content(records=records)["charts"]
    assert [chart["title"] for chart in charts] == ["loss", "d real and fake", "learning rate"]
    looks = {line.name: line.look for line in charts[0]["lines"]}
    assert looks["d loss, train"] == (0, 0) and looks["d loss, validation"] == (0, 1)
    (only,) = content("b", records=[validation(20, loss=1.0)])["charts"]
    assert [(line.name, line.look) for line in only["lines"]] == [("validation", (1, 1))]


def test_the_numbers_of_a_curve_are_in_its_table_with_gaps_where_they_are_not_finite(here):
    records = [train(10, loss=0.1), train(20, loss=None), train(1000, loss=0.3), *DECLINE]
    chart = content(records=records)["charts"][0]
    rows = [["1,000", "0.3", ""], ["10", "0.1", "2"], ["20", "nan", "1"], ["30", "", "1.9"]]
    assert sorted(cells(chart["table"])) == rows
    assert chart["mark"] == "best step 20" and chart["svg"].count("<circle") == 5
    assert re.search(r'class="line c0 d0" d="M\S+ \S+M', chart["svg"])


@pytest.mark.parametrize(
    "values, ticks",
    [
        ([1, 10], ["2", "4", "6", "8", "10"]),
        ([100, 1250], ["250", "500", "750", "1,000", "1,250"]),
        ([5], ["4", "5", "6"]),
        ([0, 3], ["0", "1", "2", "3"]),
    ],
)
def test_steps_have_whole_ticks_and_the_last_one_is_within_the_chart(values, ticks):
    axis = Axis(values, 0, 100, is_round=False, is_whole=True)
    assert [text for _, text in axis.ticks] == ticks
    svg = make_chart("x", [Line("a", [(x, 1.0, None, None) for x in values])])["svg"]
    assert all(float(x) <= 400 for x in re.findall(r'<text x="(\d+)"', svg))


ODD = [[], [math.nan], [0.0, 0.0], [1e299, -1e299], [1e-300, 1.0], [5.0]]
ODD += [[0.1135, 0.11350000000000002], [3e-323, 5e-324, 2e-323]]
ODD += [[1e-305, 1e-200, 1.0], [1e-250, 1e-250, 1e299]]  # logarithmic


@pytest.mark.parametrize("ys", ODD)
def test_a_chart_of_any_values_has_finite_places(ys):
    points = [(float(x), y, None, None) for x, y in enumerate(ys)]
    chart = make_chart("x", [Line("a", points)])
    assert not re.search(r'="[^"]*(nan|inf)', chart["svg"])


def test_thinning_keeps_the_ends_and_all_extremes():
    series = Curve("loss", "train")
    for step in range(10_000):
        series.add(step, {1234: 9.0, 5678: -9.0, 7000: math.nan}.get(step, math.sin(step / 50)))
    points = series.thin(500)
    steps = [point[0] for point in points]
    assert len(steps) <= 500 and steps == sorted(set(steps)) and (steps[0], steps[-1]) == (0, 9999)
    by_step = {point[0]: point[1] for point in points}
    assert by_step[1234] == 9.0 and by_step[5678] == -9.0 and math.isnan(by_step[7000])


def test_a_session_that_begins_earlier_replaces_what_was_recorded_after_it():
    table = Curves()
    for step, loss in [(10, 1.0), (20, 2.0), (30, 3.0), (20, 4.0)]:
        table.add({"step": step, "loss": loss}, "train")
    (curve,) = table.ordered()
    assert curve.points() == [(10, 1.0), (20, 4.0)]


# ------------------------------------------------------------------------------- tables and numbers


def test_numbers_and_times_read_well():
    texts = [format_number(x) for x in (0.99, 1234.0, 4.5132, -2.0, 13.0)]
    assert texts == ["0.9900", "1,234", "4.5132", "-2", "13"]
    assert format_alike([0.99, 1.0, None]) == ["0.9900", "1.0000", "–"]
    assert format_alike([1.0, 0.0]) == ["1.0000", "0.0000"] and format_alike([1, 0]) == ["1", "0"]


def test_a_table_draws_bars_and_intervals_on_a_common_axis():
    table = make_table("t", ["class", "recall"], [["a", 0.5], ["b", 1.0]], ["recall"], marked="b")
    bars = [row["cells"][1]["bar"]["range"] for row in table["rows"]]
    assert bars == [(0, 50), (0, 100)] and [r["is_marked"] for r in table["rows"]] == [False, True]
    tiny = make_table("t", ["a", "x"], [["a", 5e-324], ["b", 2e-46]], ["x"], is_log=True)
    assert [row["cells"][1]["bar"]["range"] for row in tiny["rows"]] == [(0, 0), (0, 100)]
    table = make_table("t", ["run", "x"], [["a", Span(1.0, 0.0, 2.0)], ["b", None]])
    cell = table["rows"][0]["cells"][1]
    assert (cell["bar"]["point"], cell["more"]) == (50, "0 to 2")
    assert cells(table)[1] == ["b", "–"]


def test_options_that_somebody_set_are_shown_and_the_defaults_are_apart(here):
    run = content(learning_rate=0.5, epochs=8.0)
    assert cells(run["chosen"]) == [["learning_rate", "0.5", "flag"], ["epochs", "8.0", "flag"]]
    assert "steps" in [row[0] for row in cells(run["defaults"])]
    write_run("plain")
    assert "Nothing was set: all options have their defaults." in page_of("plain")


def test_the_head_of_the_chain_and_the_commands_that_verify_are_folded_in(here):
    page = (content("my run"), page_of("my run"))[1]
    assert "toolkit verify &#39;runs/my run&#39;" in page and fake_hash("my run", 50) not in page
    assert re.search("<code>[0-9a-f]{64}</code>", page)


# ------------------------------------------------------------------------------------- several runs


def runs_of(*accuracies):
    """Folders of runs with these accuracies, whose networks differ."""
    for number, accuracy in enumerate(accuracies):
        low, high = accuracy - 0.01, accuracy + 0.01
        test = {"directions": {"accuracy": "max"}}
        test["intervals"] = {"accuracy": {"low": low, "high": high, "level": 0.95}}
        records = [train(step, loss=number + 1 / step) for step in (10, 20)]
        metrics = {"accuracy": accuracy, **({"rare": 1.0} if number == 0 else {})}
        more = {"test": test, "records": records, "network": f"n{number}"}
        write_run(f"runs/r{number}", metrics=metrics, **more)
    return [f"runs/r{number}" for number in range(len(accuracies))]


def compared(names):
    records = [read_record(name, name) for name in names]
    return describe_page(records, compare(records))


def test_several_runs_are_one_table_with_the_best_first(here):
    page = compared(runs_of(0.5, 0.9, 0.7))
    table = page["comparison"]["table"]
    assert [row[0] for row in cells(table)] == ["r1", "r2", "r0"]
    columns = [column["name"] for column in table["columns"]]
    assert columns == ["run", "accuracy", "verdict", "network", "step", "seconds", "status"]
    assert page["comparison"]["lead"].startswith("r1 is first, with accuracy 0.9000.")
    assert {row[2] for row in cells(table)[1:]} <= {"worse", "cannot tell", "cannot compare"}
    assert [chart["title"] for chart in page["charts"]] == ["loss, train"]


def test_an_option_that_a_preset_sets_is_no_column_of_its_own(here):
    names = runs_of(0.5, 0.9)
    for number, rate in enumerate((0.1, 0.2)):
        origins = {"learning_rate": f"preset p{number}"}
        write_run(names[number], learning_rate=rate, origins=origins, network=f"n{number}")
    columns = [c["name"] for c in compared(names)["comparison"]["table"]["columns"]]
    assert "network" in columns and "learning_rate" not in columns


def test_runs_that_differ_in_the_seed_alone_are_one_row_and_one_colour(here):
    for seed in range(3):
        records = [train(10, loss=1.0), train(20, loss=0.5)]
        write_run(f"run{seed}", metrics={"accuracy": 0.5 + seed / 10}, seed=seed, records=records)
    page = compared([f"run{seed}" for seed in range(3)])
    (row,) = cells(page["comparison"]["table"])
    assert "3 seeds" in row[0]
    assert {line.look for line in page["charts"][0]["lines"]} == {(0, 0)}


def test_a_metric_without_a_direction_has_no_word_for_it(here):
    for name in ("a", "b"):
        write_run(name, metrics={"width": 1.0})
    assert "None" not in page_of("a", "b")


@pytest.mark.parametrize(
    "band, value, interval",
    [
        ({"value": 0.88, "low": 0.8, "high": 0.9}, "0.8800", "0.8000 to 0.9000"),
        ({"value": 2e-5, "low": 1e-5, "high": 3e-5}, "2.00e-05", "1.00e-05 to 3.00e-05"),
        ({"value": 2e-5, "low": None, "high": None}, "2.00e-05", ""),
    ],
)
def test_the_test_of_a_search_keeps_its_digits(band, value, interval):
    search = {"study": {"metric": "mse"}, "test": {"mse": band}, "rows": [], "space": {}}
    search.update(dict.fromkeys(("budget", "intervals", "again", "verdict"), ""))
    expected = {"name": "mse", "value": value, "interval": interval}
    assert describe_search(search)["test"] == expected


# --------------------------------------------------------------------------------------- the file


def test_the_same_folder_gives_the_same_bytes_wherever_it_is(here):
    write_run("a/run", metrics={"accuracy": 0.9}, records=[train(1, loss=1.0)])
    text = page_of("a/run")
    os.rename("a", "b")
    write_run_page("b/run", "page.html")
    assert (here / "page.html").read_text("utf-8") == text


def test_names_with_html_and_control_characters_stay_text(here):
    name = "</script><script>alert(1)</script><!--&\u202e\x1b[2J"
    classes = {"names": [name, "b"], "counts": [[1, 2], [3, 4]]}
    test = {"page": {"matrices": [classes], "warnings": [{"text": name}]}, "lines": [name]}
    write_run("run", metrics={name: 1.0}, test=test, records=[train(1, **{name: 1.0})], option=name)
    page = page_of("run")
    assert "<script>alert" not in page and "&lt;script&gt;alert" in page
    assert "\u202e" not in page and "\x1b" not in page


def test_a_page_stays_small_whatever_the_run_recorded(here):
    names = [f"metric{number}" for number in range(60)]
    records = [train(step, **dict.fromkeys(names, step + 0.123456789)) for step in range(300)]
    rows = [[f"row {row}", *(cell + 0.123456789 for cell in range(10))] for row in range(200)]
    tables = [{"title": str(t), "columns": list("abcdefghijk"), "rows": rows} for t in range(6)]
    write_run("run", records=records, metrics={"a": 1.0}, test={"page": {"tables": tables}})
    assert len(render(describe_page([read_record("run")]))) < 500_000
