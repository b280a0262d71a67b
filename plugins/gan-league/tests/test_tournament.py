"""`toolkit gan-league`: what it trains, and what it reads of the runs."""

from __future__ import annotations

import json
import pathlib

import pytest
from toolkit_gan.presets import PRESETS
from toolkit_gan_league import result_page, standings, timing, training

from toolkit import ToolkitError, UsageError


def write_json(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))


def scores(distance, low, high):
    return {
        **{"n": 100, "m": 50, "frechet_floor": 0.5, "frechet_ratio": distance / 0.5},
        "frechet_distance": {"mean": distance, "interval": {"low": low, "high": high}},
        **{"precision": 0.5, "recall": 0.25, "coverage": 0.75, "classes": {"lost": [3, 7]}},
        "features": {"name": "cnn"},
    }


@pytest.fixture
def folder(tmp_path):
    """The folder of a league: quick with two seeds, dcgan with one, wgan that diverged."""
    values_of_presets = (("dcgan", [8.0]), ("quick", [1.0, 3.0]), ("wgan", []))
    for preset, values in values_of_presets:
        paths = [f"trials/{preset}-s{seed}" for seed in range(max(1, len(values)))]
        place = tmp_path / "presets" / preset
        for path, value in zip(paths, values):
            test = {"reports": "reports/test-20"}
            manifest = {"summary": {"test": test}, "versions": {"tensorflow": "2.21"}}
            write_json(place / path / "manifest.json", manifest)
            write_json(place / path / "config.json", {"data": "mnist5k"})
            report = place / path / "reports" / "test-20" / "scores.json"
            write_json(report, scores(value, value - 0.25, value + 0.25))
        status, reason = ("finished", "") if values else ("diverged", "Step 3 | is not finite.")
        facts = {"status": status, "reason": reason, "step": 20, "cpu_secs": 60.0 * len(paths)}
        row = dict(facts, number=0, values={}, paths=paths)
        write_json(place / "table.json", {"rows": [row], "again": f"train {preset}"})
    return str(tmp_path)


def test_a_preset_of_which_a_seed_failed_is_not_ranked_by_the_others(folder):
    path = pathlib.Path(folder, "presets", "quick", "table.json")
    table = json.loads(path.read_text())
    table["rows"][0].update(status="diverged", reason="Seed 1: Step 3 is not finite.")
    write_json(path, table)
    entrants = standings.read_entrants(folder)
    assert [each.name for each in entrants] == ["dcgan", "quick", "wgan"]
    assert result_page.cells_of(entrants[1])[4] == "diverged: Seed 1: Step 3 is not finite."


def test_the_lowest_mean_distance_over_seeds_is_first_and_a_failure_last(folder):
    entrants = standings.read_entrants(folder)
    quick, dcgan, wgan = map(result_page.cells_of, entrants)
    assert quick == [
        *("quick", "2", "20", "60 s", "2.00 [1.00, 3.00]", "4.0"),
        *("-", "0.75", "0.50", "0.25", "2"),
    ]
    assert dcgan[4:6] == ["8.00 [7.75, 8.25]", "16"]
    assert wgan[:5] == ["wgan", "0", "20", "60 s", "diverged: Step 3 | is not finite."]
    header, *_, failure = result_page.table_lines(entrants)
    assert "diverged: Step 3 | is not finite." in failure  # which widens no column
    assert header.index("x floor") - header.index("FD") == len("2.00 [1.00, 3.00]  ")
    result = standings.as_json(folder, entrants)
    assert result["again"] == "train quick"
    first, _, last = result["rows"]
    assert (first["distance"], first["floor"], first["lost"]) == (2.0, 0.5, 2.0)
    assert last["distance"] is None


def test_the_page_has_the_command_the_common_facts_and_a_row_for_each_without_html(folder):
    best, second, failure = standings.read_entrants(folder)
    entrants = [best._replace(name="<b>&"), second, failure._replace(reason="a <img> |\nb")]
    page = result_page.markdown(entrants, "toolkit x", "a.png")
    assert "\n    toolkit x\n" in page and "](a.png)" in page
    assert "&lt;b>&amp; and dcgan are not separated: they differ by a factor of 4.62 [" in page
    assert "Data `mnist5k`, TensorFlow 2.21; FD of 100 samples and 50 test images" in page
    rows = [line for line in page.splitlines() if line.startswith("| ")]
    assert len(rows) == 4 and rows[0].startswith("| preset |")
    assert "| diverged: a &lt;img> \\| b |" in rows[-1]
    assert page.count("&lt;b>&amp;") == 3  # in the table, the verdict and the list of samples
    assert "<b>" not in page and "<img>" not in page


@pytest.mark.parametrize("flags, out", [(["--json"], "{}"), ([], "")])
def test_a_dry_run_has_no_results(cli, monkeypatch, flags, out):
    monkeypatch.setattr(training, "train", lambda context, plan: None)
    argv = ["gan-league", "--dir", "cup", "--presets", "quick,wgan", "--dry-run", *flags]
    answer = cli(*argv)
    assert answer.code == 0 and "".join(answer.out.split()) == "".join(out.split())


def test_the_verdict_is_of_the_first_two_rows_that_have_scores(folder):
    entrants = standings.read_entrants(folder)
    verdict = standings.as_json(folder, entrants)["verdict"]
    expected = "By the FD, quick and dcgan are not separated: they differ by a factor of 4.62 ["
    assert verdict.startswith(expected)
    assert standings.find_verdict(entrants[::2]) == ""


def test_without_a_distance_the_two_sample_accuracy_ranks(folder):
    entrants = standings.read_entrants(folder)[:2]
    tests = [{"accuracy": value, "low": value - 0.03, "high": value + 0.03} for value in (0.9, 0.6)]
    others = [
        each._replace(scores=[dict(scores(1.0, 0, 2), frechet_distance=None, two_sample=test)])
        for each, test in zip(entrants, tests)
    ]
    assert standings.choose_measure(entrants) is standings.DISTANCE
    quick, dcgan = others
    assert standings._ranked(others) == [dcgan, quick]
    assert standings.find_verdict([dcgan, quick]).startswith(
        "By the two-sample accuracy, dcgan is better than quick by 0.300 ["
    )
    assert result_page.cells_of(quick)[4:7] == ["-", "2.0", "90 [87, 93]"]


@pytest.mark.parametrize(
    "flags, minutes", [([], 2.0), (["--steps", "4"], None), (["--examples=9"], None)]
)
def test_the_result_has_the_cpu_minutes_unless_a_flag_sets_another_budget(
    cli, folder, tmp_path_factory, monkeypatch, flags, minutes
):
    monkeypatch.setattr(training, "train", lambda context, plan: None)
    argv = ["gan-league", "--dir", folder, "--presets", "quick,dcgan,wgan", "--json", *flags]
    argv += ["--markdown", str(tmp_path_factory.mktemp("page") / "page.md")]
    monkeypatch.setattr(result_page, "write_samples", lambda entrants, path: False)
    answer = cli(*argv)
    assert answer.code == 0, answer.err
    result = json.loads(answer.out)
    assert result["cpu_minutes"] == minutes and len(result["rows"]) == 3


@pytest.mark.parametrize("text", ["quick", "quick,quick", "quick,other"])
def test_two_known_presets_are_needed_or_all_by_default(text):
    with pytest.raises(UsageError, match=f"two or more of auto, {', '.join(PRESETS)}"):
        training.check_presets(text)
    assert training.check_presets("") == list(PRESETS)


def test_the_budget_is_cpu_time_unless_a_flag_sets_another():
    plan = training.plan("f", "quick,wgan", [], 1.5, 2, ["--data", "mnist"])
    assert plan.minutes == 1.5 and not any("--steps" in words for words in plan.searches)
    plan = training.plan("f", "quick,wgan", [], 1.5, 2, ["--steps=7"])
    assert plan.minutes is None and all(words[-1] == "--steps=7" for words in plan.searches)


def test_the_steps_of_a_budget_are_those_of_the_later_part_of_a_short_run(monkeypatch):
    ends = {1.0: (0, 90.0), 3.0: (20, 10.0), 9.0: (80, 16.0)}  # steps, CPU seconds
    monkeypatch.setattr(timing, "_train", lambda words, secs: ends[secs])
    assert timing.count_steps([], 30) == 300
    ends[9.0] = (20, 16.0)
    with pytest.raises(ToolkitError, match="It makes 20 steps in 9 s, too few to be timed"):
        timing.count_steps([], 30)


def test_a_run_that_is_timed_has_the_flags_and_the_threads_of_a_trial(monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: range(8))
    words = ["--search-dir", "s", "--plugin", "gan", "--seeds", "3", "--workers", "2", "--width=2"]
    assert " ".join(timing.run_words(words, "r", 3)) == (
        "run --plugin gan --width=2 --intra-op-threads 4 --inter-op-threads 4 --run-dir r "
        "--steps 1000000000 --max-secs 3 --no-evaluate --best-metric none --xla off"
    )


def test_a_run_is_timed_or_has_a_sentence(tmp_path):
    words = ["--plugin", "regressor", "--data", "digits-sum", "--workers", "2"]
    with pytest.raises(ToolkitError, match="digits-sum"):
        timing._train(words, 0.1)


@pytest.mark.parametrize("flag", ["--vary", "--vary=width=2,4", "--search-dir", "--preset"])
def test_what_the_tournament_sets_is_refused(flag):
    with pytest.raises(UsageError, match=f"{flag.split('=')[0]} is what the tournament sets"):
        training.search_words("f", "quick", 2, [flag, "x"])
