"""A page says what the folder of its run says: result, worst thing, command, curves, events."""

import json
import math
import os
import re

import pytest
from synthetic_runs import Session, fake_hash, options_of, write_run

from toolkit.comparison.record import read_record
from toolkit.page.content import MAX_JSON, describe_page
from toolkit.page.curves import SeriesTable, list_curves, thin
from toolkit.page.values import format_number, format_secs, shortest
from toolkit.page.writer import embed_json, render, render_runs, write_run_page
from toolkit.storage.commit_log import CommitLog
from toolkit.storage.folder_lock import FolderLock


def content(path="run", **values):
    """The page's object of a run that is written with these values; see `write_run`."""
    return describe_page([read_record(write_run(path, **values))]).values["runs"][0]


def train(step, **metrics):
    return dict(metrics, step=step, kind="train")


def validation(step, **metrics):
    return dict(metrics, step=step, kind="eval", split="validation")


def event(step, name="nonfinite", **values):
    return dict(values, step=step, kind="event", event=name)


def test_the_first_screen_says_the_end_and_the_metrics_with_their_intervals(here):
    interval = {"low": 0.8, "high": 0.96, "level": 0.95, "method": "Wilson"}
    run = content(
        metrics={"loss": 0.25, "accuracy": 0.9}, test={"intervals": {"accuracy": interval}}
    )
    assert run["status"]["word"] == "finished" and run["status"]["good"] is True
    assert run["status"]["text"] == "reached step 100 in 12 s"
    first, second = run["headline"]
    assert (first["name"], first["value"], first["low"], first["high"]) == (
        *("accuracy", 0.9),
        *(0.8, 0.96),
    )
    assert first["method"] == "Wilson" and first["note"] == "test split, 50 examples, step 100"
    assert (second["name"], second["low"]) == ("loss", None)
    assert run["worst"] == {"text": "Nothing failed.", "step": None, "level": "none"}


def test_a_run_without_a_test_shows_its_last_validation(here):
    records = [validation(50, accuracy=0.5), validation(100, accuracy=0.75), train(100, loss=1)]
    (quantity,) = content(records=records)["headline"]
    assert (quantity["value"], quantity["note"]) == (0.75, "validation, step 100")


def test_the_headline_of_the_plugin_replaces_that_of_the_metrics(here):
    headline = [{"name": "distance", "value": 4.5, "low": 4, "high": 5, "floor": 0.3, "note": "n"}]
    (quantity,) = content(metrics={"loss": 1.0}, test={"page": {"headline": headline}})["headline"]
    assert (quantity["floor"], quantity["low"], quantity["note"]) == (0.3, 4, "n")


# ---------------------------------------------------------------------------------- the worst thing

DIVERGED = {"status": "diverged", "exit_code": 3, "reason": "Training diverged in step 7."}
RECALL = {"matrices": [{"names": ["a", "b"], "counts": [[9, 1], [7, 3]]}]}
TESTED = {"metrics": {"loss": 1.0}}
DECLINE = [validation(step, loss=loss) for step, loss in [(10, 2.0), (20, 1.0), (30, 1.9)]]


@pytest.mark.parametrize(
    "values, level, step, text",
    [
        ({"manifest": DIVERGED}, "error", 100, "Training diverged in step 7."),
        (
            {"records": [event(30, count=2), event(60, count=1)]},
            *("warning", 30),
            "3 steps were refused as not finite, between steps 30 and 60.",
        ),
        (
            {"records": [train(10, loss=1.0), train(20, loss=None)]},
            *("warning", 20),
            "Train loss not finite at step 20.",
        ),
        (
            {
                "sessions": [
                    Session(0, {40: "a"}),
                    Session(40, {100: "b"}, facts={"machine": {"cores": 8}}),
                ]
            },
            *("note", 40),
            "The run resumes at step 40, not bit-exactly: cores was 2, now 8.",
        ),
        (
            {"records": DECLINE},
            *("warning", 20),
            "The validation's loss was best with 1 at step 20, and ended with 1.9 at step 30.",
        ),
        (
            dict(TESTED, test={"page": {"warnings": [{"text": "A class is lost."}]}}),
            *("warning", None),
            "A class is lost.",
        ),
        (
            dict(TESTED, test={"page": RECALL}),
            *("note", None),
            "Class b is recognised in 3 of its 10 examples.",
        ),
    ],
)
def test_the_worst_thing_is_in_words_with_its_step(here, values, level, step, text):
    assert content(**values)["worst"] == {"text": text, "step": step, "level": level}


def test_a_failure_is_worse_than_damage_and_that_worse_than_refused_steps(here):
    os.makedirs("run/checkpoints/damaged")
    open("run/checkpoints/damaged/model.ckpt-50.index", "w").close()
    records = [event(30, count=2)]
    assert content(records=records)["worst"]["text"] == (
        "The checkpoint of step 50 was damaged, and moved away."
    )
    assert content(records=records, manifest=DIVERGED)["worst"]["step"] == 100


def test_a_small_decline_of_the_validation_is_not_named(here):
    records = [validation(step, loss=loss) for step, loss in [(10, 2.0), (20, 1.0), (30, 1.05)]]
    assert content(records=records)["worst"]["level"] == "none"


def test_a_process_that_was_killed_is_an_error(here):
    run = content(manifest={"status": "running", "exit_code": None, "summary": None})
    assert run["status"]["word"] == "killed" and run["status"]["good"] is False
    assert run["worst"]["text"] == "The process was killed; step 100 is the last one committed."


# -------------------------------------------------------------------------------------- the command


def test_the_command_has_what_somebody_chose_and_the_seed(here):
    origins = {"optimizer": "preset fast", "batch_size": "plugin classifier"}
    run = content(origins=origins, learning_rate=0.5, optimizer="sgd", batch_size=8, page=True)
    assert run["again"] == (
        "toolkit run --plugin classifier --data mnist5k --learning-rate 0.5 --seed 1"
    )


def test_paths_in_the_command_are_absolute_and_quoted_for_a_shell(here):
    run = content("a b", plugin="../my model.py", data="images:../it's", steps=-1)
    folder = os.getcwd()
    assert run["again"].startswith(f"toolkit run --plugin '{folder}/my model.py' --data ")
    assert f"""'images:{folder}/it'"'"'s'""" in run["again"] and "--steps=-1" in run["again"]


def test_a_command_of_many_options_reads_the_file_of_the_run(here):
    run = content(**{f"option_{number}": number for number in range(20)})
    assert run["again"] == f"toolkit run --config {os.getcwd()}/run/config.json"
    assert content("b", group=["a:weight_decay=0,learning_rate=1"])["again"].endswith(
        "/b/config.json"
    )


BRANCH = {"kind": "branch", "name": "parent", "step": 50, "tensors": "a" * 64, "head": "b" * 64}


def test_a_branch_is_made_again_from_its_parent(here):
    write_run("run", sessions=[Session(0, {50: "a"})])
    log = CommitLog("run/commits.jsonl", str)
    log.add("branch", step=50, parent=BRANCH, kept=[])
    options = dict(options_of(learning_rate=0.5), folder="/elsewhere", log_steps=1)
    log.add("session", **{"from": 50}, kept=[], options=options)
    run = describe_page([read_record("run")]).values["runs"][0]
    assert run["again"] == (
        "toolkit resume parent --from 50 --allow learning_rate --learning-rate 0.5"
    )
    assert "needs that run, the head of whose log was bbbbbbbbbbbbbbbb." in run["again_needs"][0]


def test_the_command_says_what_else_it_needs(here):
    sessions = [Session(0, {40: "a"}, {"learning_rate": 0.1}), Session(40, {100: "b"})]
    assert content(sessions=sessions)["again_needs"] == [
        "One command is not enough: at step 40 the run was continued with learning_rate 0.01 in"
        " place of 0.1.",
        "The numbers are those of toolkit 0.2.0, Python 3.11.7, TensorFlow 2.21.0.",
    ]
    parent = dict(BRANCH, kind="weights")
    run = content("b", init_from="../parent", manifest={"parent": parent})
    assert f"--init-from {os.getcwd()}/parent@50" in run["again"]
    assert run["again_needs"][0] == (
        "The run began with the weights of parent, step 50 (tensors aaaaaaaaaaaaaaaa), which it"
        " needs."
    )
    copy = {"folder": "model-1234abcd", "omitted": []}
    sessions = [Session(0, {100: "a"}, facts={"sources": {"model": copy}})]
    assert content("c", plugin="../model.py", sessions=sessions)["again_needs"][0] == (
        "The command executes model.py as it is now; that of this run is in its folder, in"
        " sources/model-1234abcd."
    )


def test_the_command_says_what_else_changed_at_a_resume(here):
    model = {"restored": 5, "renamed": {"a": "b"}, "initialised": [], "dropped": ["c"]}
    facts = {"model": model, "versions": {"tensorflow": "1.15.5"}}
    sessions = [Session(0, {40: "a"}), Session(40, {100: "b"}, facts=facts)]
    assert content(sessions=sessions)["again_needs"][0] == (
        "From step 40 on, variables were renamed, dropped; tensorflow was 2.21.0, now 1.15.5."
    )
    facts = {"model": {"restored": 6, "renamed": {}, "initialised": [], "dropped": []}}
    sessions = [Session(0, {40: "a"}), Session(40, {100: "b"}, facts=facts)]  # an exact resume
    assert len(content("b", sessions=sessions)["again_needs"]) == 1


def test_the_autopsy_is_on_the_page_and_the_reason_once(here):
    os.makedirs("run/reports/autopsy-100")
    tensor = {"name": "dense/MatMul", "dtype": "float32", "shape": [64, 10], "inf": 640}
    finding = {"tensor": tensor, "op_type": "MatMul", "inputs": [dict(tensor, low=0, high=2e22)]}
    finding["stack"] = [{"file": "/a/nets.py", "line": 198, "source": "return self.logits(x)"}]
    with open("run/reports/autopsy-100/autopsy.json", "w") as file:
        json.dump(finding, file)
    records = [{"step": 100, "kind": "event", "event": "diverged", "message": DIVERGED["reason"]}]
    run = content(manifest=DIVERGED, records=records)
    assert run["autopsy"][0] == (
        "The first tensor that is not finite is dense/MatMul (op MatMul): float32 [64, 10],"
        " 640 inf."
    )
    assert run["autopsy"][1] == "It was created at nets.py:198: return self.logits(x)"
    assert "lower --learning-rate" in run["autopsy"][-1]
    assert json.dumps(run).count(DIVERGED["reason"]) == 1
    with open("run/reports/autopsy-100/autopsy.json", "w") as file:
        file.write('{"tensor": {"name": "x", "shape": [[], {}]}, "stack": [3], "inputs": 5}')
    assert content(manifest=DIVERGED)["autopsy"][0].endswith("is x:  [None, None].")


# ------------------------------------------------------------------------------- curves and events


def test_curves_have_the_numbers_of_the_records_and_gaps_for_those_that_are_not_finite(here):
    records = [train(10, loss=0.1), train(20, loss=None), train(30, loss=0.3)]
    (curve,) = content(records=records)["curves"]
    assert (curve["steps"], curve["values"]) == ([10, 20, 30], [0.1, None, 0.3])


def test_the_losses_are_one_group_and_the_rate_comes_last(here):
    metrics = {"learning_rate": 1.0, "g_loss": 1.0, "d_loss": 2.0, "accuracy": 0.5}
    curves = content(records=[train(10, **metrics), validation(10, d_loss=1.0)])["curves"]
    groups = ["loss", "loss", "loss", "accuracy", "learning_rate"]
    assert [curve["group"] for curve in curves] == groups


def test_events_are_in_the_order_of_their_steps(here):
    sessions = [Session(0, {40: "a"}), Session(40, {100: "b"})]
    best = {"step": 70, "metric": "loss", "direction": "min", "value": 0.5}
    run = content(sessions=sessions, records=[event(55, count=1)], manifest={"best": best})
    assert [(each["step"], each["kind"]) for each in run["events"]] == [
        (40, "resume"),
        (55, "refused"),
        (70, "best"),
    ]


def test_thinning_keeps_the_ends_and_all_extremes():
    values = [math.sin(step / 50) for step in range(10_000)]
    values[1234], values[5678], values[7000] = 9.0, -9.0, math.nan
    steps, points = thin(range(10_000), values, 500)
    assert len(steps) <= 500 and steps == sorted(set(steps))
    assert (steps[0], steps[-1]) == (0, 9999)
    by_step = dict(zip(steps, points))
    assert by_step[1234] == 9.0 and by_step[5678] == -9.0 and math.isnan(by_step[7000])


def test_a_session_that_begins_earlier_replaces_what_was_recorded_after_it():
    table = SeriesTable()
    for step, loss in [(10, 1.0), (20, 2.0), (30, 3.0), (20, 4.0)]:
        table.add({"step": step, "loss": loss}, "train")
    (curve,) = list_curves(table)
    assert (list(curve.series.steps), list(curve.series.values)) == ([10, 20], [1.0, 4.0])


@pytest.mark.parametrize(
    "value, short", [(0.10000000149011612, 0.1), (1 / 3, 0.333333333), (3.0, 3), (1e300, 1e300)]
)
def test_numbers_are_short_and_read_as_the_same_float32(value, short):
    assert shortest(value) == short


def test_numbers_and_times_read_well():
    texts = [format_number(x) for x in (0.99, 0.0355, 123456.0, 1e-5, 4.5132, -2.0, 0.0)]
    assert texts == ["0.9900", "0.0355", "1.23e+05", "1e-05", "4.513", "-2", "0.0000"]
    assert [format_secs(x) for x in (2.5, 26, 200, 7500)] == [
        "2.5 s",
        "26 s",
        "3 min 20 s",
        "2 h 5 min",
    ]


# --------------------------------------------------------------------------------------- the file


def data_of(page):
    """The JSON in a page."""
    return json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL).group(1))


def test_the_same_folder_gives_the_same_bytes_wherever_it_is(here):
    write_run("a/run", metrics={"accuracy": 0.9}, records=[train(1, loss=1.0)])
    _, text = render_runs(["a/run"], [None])
    os.rename("a", "b")
    write_run_page("b/run", "page.html")
    with open("page.html", "rb") as file:
        assert file.read() == text


def test_reading_a_run_changes_nothing_and_needs_no_lock(here):
    write_run("run", records=[train(1, loss=1.0)])
    lock = FolderLock("run")
    lock.acquire()
    names = sorted(os.listdir("run"))
    write_run_page("run", "page.html")
    lock.release()
    assert sorted(os.listdir("run")) == names


def test_names_with_html_stay_text(here):
    name = "</script><script>alert(1)</script><!--&"
    write_run("run", metrics={name: 1.0}, records=[train(1, **{name: 1.0})])
    page = render(describe_page([read_record("run")])).decode()
    assert page.count("<script>alert") == 0
    assert data_of(page)["runs"][0]["headline"][0]["name"].startswith("</script>")
    assert embed_json({"a": "\u2028<&>"}) == '{"a":"\\u2028\\u003c\\u0026\\u003e"}'


def test_the_numbers_of_several_runs_are_compared(here):
    for seed in range(3):
        write_run(f"run{seed}", metrics={"accuracy": 0.5 + seed / 10}, seed=seed, records=[])
    _, text = render_runs([f"run{n}" for n in range(3)], [f"run{n}" for n in range(3)])
    values = data_of(text.decode())
    assert values["kind"] == "comparison" and len(values["runs"]) == 3
    assert values["comparison"]["metrics"][0]["name"] == "accuracy"


def test_a_page_stays_small_whatever_the_run_recorded(here):
    names = [f"metric{number}" for number in range(60)]
    records = [train(step, **dict.fromkeys(names, step + 0.123456789)) for step in range(300)]
    rows = [[f"row {row}", *range(10)] for row in range(200)]
    rows = [
        [cell if column == 0 else cell + 0.123456789 for column, cell in enumerate(row)]
        for row in rows
    ]
    tables = [{"title": str(t), "columns": list("abcdefghijk"), "rows": rows} for t in range(6)]
    write_run("run", records=records, metrics={"a": 1.0}, test={"page": {"tables": tables}})
    values = describe_page([read_record("run")]).values
    assert len(json.dumps(values)) <= MAX_JSON and values["notes"]
    assert values["runs"][0]["curves"][0]["thinned"] == 300


def test_hooks_and_their_cost_are_in_their_order(here):
    run = content(manifest={"hook_ms": {"guard": 0.5, "metrics": 0.25, "x": "y"}})
    assert run["speed"]["hooks"] == [{"name": "guard", "ms": 0.5}, {"name": "metrics", "ms": 0.25}]


def test_options_that_somebody_chose_come_before_the_defaults(here):
    options = content(learning_rate=0.5)["options"]
    assert [row["name"] for row in options[:1]] == ["learning_rate"]
    assert [row["default"] for row in options] == sorted(row["default"] for row in options)


def test_the_head_of_the_chain_and_the_commands_that_verify_are_there(here):
    verify = content("my run")["verify"]
    assert len(verify["head"]) == 64 and verify["entries"] == 3
    assert verify["command"] == "toolkit verify 'my run'"
    assert fake_hash("my run", 50) != verify["head"]
