"""`toolkit gan-league`: what it trains, what it reads of the runs, and a whole tournament."""

import contextlib
import functools
import json
import os
import subprocess
import types

import numpy as np
import process_fixtures
import pytest
from file_fixtures import REPOSITORY
from league_fixtures import make_scores, write_json
from score_fixtures import SPEC, SPLITS, QuarterClassifier, make_images, make_options
from toolkit_gan.presets import PRESETS
from toolkit_gan_league import programs, result_page, standings, training
from toolkit_gan_league.rivals import _COMMON_FLAGS, Rival, parse_plugin
from toolkit_image_scores import damage
from toolkit_image_scores.features import network_features
from toolkit_image_scores.scorer import ImageScorer

from toolkit import InterruptedRun, ToolkitError, UsageError, testing
from toolkit.options import CoreOptions, flag_name
from toolkit.plugin_data import SOURCE_OPTIONS

# ---------------------------------------------------------------------------------- the command


def make_plan(folder="cup", presets="quick", plugins=(), flags=(), minutes=2.0, seeds=1):
    return training.plan(str(folder), presets, plugins, minutes, seeds, flags)


def test_a_plugin_may_have_flags_and_its_path_spaces():
    words = ["--plugin", "./my plugins/a.py", "--with", "image-scores"]
    rival = Rival("a", "--plugin './my plugins/a.py'", words)
    assert parse_plugin("./my plugins/a.py") == rival
    other = parse_plugin("vae --code 8 --hidden '3,4'")
    assert other.words[-4:] == ["--code", "8", "--hidden", "3,4"]
    assert other.folder == "vae-code-8-hidden-3-4"


@pytest.mark.parametrize(
    "texts, flags, message",
    [
        ([""], [], "names no plugin"),
        (["vae --code '8"], [], "No closing quotation"),
        (["a/x.py", "b/x.py"], [], "Two competitors are called 'x'"),
        (["vae --steps 3"], [], "--steps is equal for all"),
        (["vae --data=mnist"], [], "--data is equal for all"),
        (["vae --score-samples 32"], [], "--score-samples is equal for all"),
        (["vae"], ["--vary=width=2,4", "x"], "--vary is what the tournament sets"),
        (["vae"], ["--search-dir", "x"], "--search-dir is what the tournament sets"),
        (["vae"], ["--preset", "x"], "--preset is what the tournament sets"),
    ],
)
def test_what_would_not_compete_on_equal_terms_is_refused(texts, flags, message):
    with pytest.raises(UsageError, match=message):
        make_plan(plugins=texts, flags=flags)


def test_all_that_says_which_examples_there_are_is_equal_for_all():
    flags = {flag_name(name) for name in SOURCE_OPTIONS if name in CoreOptions.model_fields}
    assert flags <= {*_COMMON_FLAGS}


def test_all_searches_have_the_same_seeds_and_budget():
    plan = make_plan(plugins=["vae --batch-size 8"], flags=["--data", "mnist"], seeds=3)
    preset, plugin = (" ".join(plan.words_of(rival)) for rival in plan.rivals)
    equal = "--seeds 3 --data mnist"
    place = os.path.join("cup", "searches", "quick")
    assert preset == f"--search-dir {place} {equal} --plugin gan --preset quick"
    place = os.path.join("cup", "searches", "vae-batch-size-8")
    own = "--plugin vae --with image-scores --batch-size 8"
    assert plugin == f"--search-dir {place} {equal} {own}"
    assert plan.minutes == 2.0 and make_plan(flags=["--steps=7"], plugins=["vae"]).minutes is None


def test_presets_are_known_and_all_by_default():
    with pytest.raises(UsageError, match=f"expected some of auto, {', '.join(PRESETS)}"):
        make_plan(presets="quick,other")
    assert [rival.name for rival in make_plan(presets="").rivals] == list(PRESETS)
    assert [rival.name for rival in make_plan(presets="auto, auto").rivals] == ["auto"]


# --------------------------------------------------------------------------- trained and continued


class Searches:
    """In the place of the command `search`: writes a table, unless it is to fail.

    Attributes:
        seen: the folder of each search, and whether it was a dry run.
        failures: the errors by folder, each raised once.
    """

    def __init__(self):
        self.seen, self.steps, self.failures = [], [], {}

    def __call__(self, context, words):
        folder, is_dry = words[words.index("--search-dir") + 1], "--dry-run" in words
        self.steps += words[words.index("--steps") + 1 :][:1] if "--steps" in words else []
        self.seen.append((os.path.basename(folder), is_dry))
        if is_dry:
            return
        os.makedirs(folder, exist_ok=True)
        open(os.path.join(folder, "study.json"), "w").close()
        failure = self.failures.pop(os.path.basename(folder), None)
        if not isinstance(failure, InterruptedRun):  # which comes before the table
            open(os.path.join(folder, "table.json"), "w").close()
        if failure is not None:
            raise failure


@pytest.fixture
def plan(tmp_path):
    plan = make_plan(tmp_path / "cup", "quick,wgan", ["vae", "diffusion"])
    return plan._replace(minutes=None)


@pytest.fixture
def searches(monkeypatch):
    searches = Searches()
    monkeypatch.setattr(training, "search", searches)
    return searches


NAMES = ["quick", "wgan", "vae", "diffusion"]
CHECKS = [(name, True) for name in NAMES]
TRAININGS = [(name, False) for name in NAMES]


def test_all_are_checked_before_one_trains_and_one_that_diverges_does_not_end_it(plan, searches):
    searches.failures["vae"] = ToolkitError("No configuration finished.")
    training.train(None, plan)
    assert searches.seen == CHECKS + TRAININGS


def test_all_are_checked_and_then_timed_before_one_trains_for_cpu_time(plan, searches, monkeypatch):
    timed = []

    def count_steps(words, cpu_secs):
        assert searches.seen == CHECKS
        timed.append((words[1], cpu_secs))
        return len(timed)

    monkeypatch.setattr(training, "count_steps", count_steps)
    training.train(None, plan._replace(minutes=1.5))
    assert timed == [(folder, 90) for folder in map(plan.folder_of, plan.rivals)]
    assert searches.seen == CHECKS + TRAININGS and searches.steps == ["1", "2", "3", "4"]


@pytest.mark.parametrize("before, now", [(None, 1.5), (1.5, None), (1.5, 2.0)])
def test_a_tournament_that_has_begun_keeps_its_budget(plan, searches, monkeypatch, before, now):
    monkeypatch.setattr(training, "count_steps", lambda words, secs: 3)
    training._keep_budget(plan._replace(minutes=9.0))  # nothing was trained with it
    training.train(None, plan._replace(minutes=before))
    others = make_plan(plan.folder, "dcgan")  # of which none has begun
    for each in (plan, others):
        with pytest.raises(UsageError, match="This tournament began with .*, and the command has "):
            training.train(None, each._replace(minutes=now))


def test_an_interrupted_tournament_continues_without_a_second_check(plan, searches):
    searches.failures["vae"] = InterruptedRun("Interrupted.", signum=2)
    with pytest.raises(InterruptedRun):
        training.train(None, plan)
    searches.seen.clear()
    training.train(None, plan)
    assert searches.seen == [("diffusion", True), *TRAININGS]


def test_a_mistake_in_the_flags_of_a_plugin_names_it(plan, monkeypatch):
    def search(context, words):
        if "vae" in words:
            raise UsageError("No such option")

    monkeypatch.setattr(training, "search", search)
    with pytest.raises(UsageError, match="--plugin 'vae': No such option") as error:
        training.train(None, plan)
    hint = "Flags of one plugin are in its quotes: --plugin 'NAME --flag value'."
    assert error.value.hint == hint
    presets = plan._replace(rivals=[plan.rivals[0]._replace(words=["vae"])])
    with pytest.raises(UsageError, match="--presets 'quick': No such option") as error:
        training.train(None, presets)
    assert error.value.hint.endswith(" Or name the presets that compete: --presets A,B.")


def test_the_steps_of_a_budget_are_those_of_the_later_part_of_a_short_run(monkeypatch):
    ends = {1.0: (0, 90.0), 3.0: (20, 10.0), 9.0: (80, 16.0)}  # steps, CPU seconds
    monkeypatch.setattr(training, "_time", lambda words, secs: ends[secs])
    assert training.count_steps([], 30) == 300
    ends[9.0] = (20, 16.0)
    with pytest.raises(ToolkitError, match="It makes 20 steps in 9 s, too few to be timed"):
        training.count_steps([], 30)


def test_a_run_that_is_timed_has_the_flags_and_the_threads_of_a_trial(monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: range(8))
    words = ["--search-dir", "s", "--plugin", "gan", "--seeds=3", "--workers", "2", "--width=2"]
    assert " ".join(training.run_words(words, "r", 3)) == (
        "run --plugin gan --width=2 --intra-op-threads 4 --inter-op-threads 4 --run-dir r "
        "--steps 1000000000 --max-secs 3 --no-evaluate --best-metric none --xla off"
    )


def test_a_run_is_timed_alone_in_a_step_of_slurm_or_has_a_sentence(monkeypatch):
    monkeypatch.setenv("SLURM_STEP_NUM_TASKS", "4")  # without SLURM_PROCID, which would be missed
    words = ["--plugin", "regressor", "--data", "digits-sum", "--workers", "2"]
    with pytest.raises(ToolkitError, match="digits-sum"):
        training._time(words, 0.1)


@pytest.mark.parametrize(
    "output, reason",
    [
        ("note x\nError: 'build' failed: Error: 3.\nFix it.\n", "'build' failed: Error: 3."),
        ("step 1\nKilled\n", "Killed"),
        ("", "nothing was written"),
    ],
)
def test_the_reason_of_a_failed_timing_is_the_error_or_the_last_line(monkeypatch, output, reason):
    ending = subprocess.CompletedProcess([], 1, output)
    monkeypatch.setattr(training.subprocess, "run", lambda *_, **__: ending)
    with pytest.raises(ToolkitError, match=f"exit code 1: {reason}"):
        training._time([], 0.1)


# ------------------------------------------------------------------------------------- the result


@pytest.fixture
def folder(tmp_path):
    """The folder of a tournament: quick with two seeds, dcgan with one, wgan that diverged."""
    for preset, values in (("dcgan", [8.0]), ("quick", [1.0, 3.0]), ("wgan", [])):
        paths = [f"trials/{preset}-s{seed}" for seed in range(max(1, len(values)))]
        place = tmp_path / "searches" / preset
        for path, value in zip(paths, values):
            test = {"reports": "reports/test-20"}
            manifest = {"summary": {"test": test}, "versions": {"tensorflow": "2.21"}}
            write_json(place / path / "manifest.json", manifest)
            write_json(place / path / "config.json", {"data": "mnist5k"})
            write_json(place / path / "reports/test-20/scores.json", make_scores(value, 0.25))
        status, reason = ("finished", "") if values else ("diverged", "Step 3 | is not finite.")
        facts = {"status": status, "reason": reason, "step": 20, "cpu_secs": 60.0 * len(paths)}
        row = dict(facts, number=0, values={}, paths=paths)
        write_json(place / "table.json", {"rows": [row]})
    return tmp_path


def read(folder):
    return standings.rank(make_plan(folder, "dcgan,quick,wgan"))


def test_a_preset_of_which_a_seed_failed_is_not_ranked_by_the_others(folder):
    path = folder / "searches" / "quick" / "table.json"
    table = json.loads(path.read_text())
    table["rows"][0].update(status="diverged", reason="Seed 1: Step 3 is not finite.")
    write_json(path, table)
    entrants = read(folder)
    assert [each.name for each in entrants] == ["dcgan", "quick", "wgan"]
    assert result_page.cells_of(entrants[1])[4] == "diverged: Seed 1: Step 3 is not finite."


@pytest.mark.parametrize(
    "more, data",
    [
        ({"m": 49}, {}),
        ({"n": 99}, {}),
        ({"features": {"name": "cnn", "sha256": "cd"}}, {}),
        ({}, {"split_seed": 3}),
        ({}, {"fit": "crop"}),
    ],
)
def test_scores_on_other_images_or_features_are_not_compared(folder, more, data):
    (path,) = (folder / "searches" / "dcgan").glob("trials/*/reports/*/scores.json")
    write_json(path, make_scores(0.1, **more))
    write_json(path.parents[2] / "config.json", dict(data, data="mnist5k"))
    *_, quick, _ = read(folder)
    assert quick.name == "quick" and quick.scores == []
    cell = result_page.cells_of(quick)[4]
    assert cell == "not comparable: other data, features or numbers of images than those of dcgan"


def test_the_lowest_mean_distance_over_seeds_is_first_and_a_failure_last(folder):
    entrants = read(folder)
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
    result = standings.as_json(make_plan(), entrants)
    first, _, last = result["rows"]
    assert (first["distance"], first["floor"], first["lost"]) == (2.0, 0.5, 2.0)
    assert last["distance"] is None


def test_a_dry_run_has_no_results(cli, monkeypatch):
    monkeypatch.setattr(training, "train", lambda context, plan: None)
    words = ["--dir", "cup", "--presets", "quick,wgan", "--dry-run", "--json"]
    assert cli.succeed("gan-league", *words).json() == {}


def test_the_verdict_is_of_the_first_two_rows_that_have_scores(folder):
    entrants = read(folder)
    verdict = standings.as_json(make_plan(), entrants)["verdict"]
    expected = "By the FD, quick and dcgan are not separated: they differ by a factor of 4.62 ["
    assert verdict.startswith(expected)
    assert standings.find_verdict(entrants[::2]) == ""
    (told, brackets), one = standings.list_remarks(entrants), [entrants[0]._replace(scores=[{}])]
    assert told == verdict and brackets.startswith("In brackets: the lowest and the highest")
    assert standings.list_remarks(one) == []


def test_without_a_distance_the_two_sample_accuracy_ranks(folder):
    entrants = read(folder)[:2]
    tests = [{"accuracy": value, "low": value - 0.03, "high": value + 0.03} for value in (0.9, 0.6)]
    rest = make_scores(1.0, frechet_distance=None)
    others = [e._replace(scores=[dict(rest, two_sample=test)]) for e, test in zip(entrants, tests)]
    assert standings.choose_measure(entrants) == standings.DISTANCE
    quick, dcgan = others
    assert standings.choose_measure(others) == standings.TWO_SAMPLE
    text = "By the two-sample accuracy, dcgan is better than quick by 0.300 ["
    assert standings.find_verdict([dcgan, quick]).startswith(text)
    assert result_page.cells_of(quick)[4:7] == ["-", "2.0", "90 [87, 93]"]


# ----------------------------------------------------------------------------- scores of programs


IMAGES = make_images(np.arange(300) % 4, 5)


@pytest.fixture
def tournament(tmp_path, monkeypatch):
    """The scores of a run, and the classifier of its features, which counts its inputs."""
    nothing = dict.fromkeys(damage.SEVERE, ())  # the means of quarters notice no blur
    monkeypatch.setattr(damage, "SEVERE", nothing)
    classifier = QuarterClassifier()
    new_scorer = functools.partial(ImageScorer, features=network_features(classifier))
    run = types.SimpleNamespace(options=make_options(), data=SPEC, split=SPLITS.get)
    monkeypatch.setattr(programs, "ImageScorer", new_scorer)
    monkeypatch.setattr(programs, "open_trained", lambda path: contextlib.nullcontext(run))
    (tmp_path / "report").mkdir()
    scorer = new_scorer(run, SPLITS.get)
    scorer.draw = lambda count, seed: [{"images": IMAGES}]
    scorer.score(SPLITS["test"], None, str(tmp_path / "report"))
    scores = json.loads((tmp_path / "report" / "scores.json").read_text())
    return types.SimpleNamespace(scores=scores, classifier=classifier)


def test_equal_images_of_a_program_and_of_a_preset_have_equal_scores_once(tournament, tmp_path):
    paths = [tmp_path / "5", tmp_path / "6"]
    for path, secs in zip(paths, (20.0, 24.0)):
        write_json(path / "result.json", {"status": "finished", "reason": "", "cpu_secs": secs})
        np.savez(str(path / programs.IMAGES), images=IMAGES)
    rival, places = Rival("other", "", ["sh", "x"]), [str(path) for path in paths]

    def score(expected=tournament.scores):
        with programs.open_judge("run") as judge:
            return standings._score_program(rival, places, judge, expected)

    counts = []
    for _ in range(2):  # of which the second computes nothing
        entrant = score()
        assert entrant.scores == [tournament.scores] * 2 and entrant.cpu_secs == 22.0
        counts.append(tournament.classifier.num_inputs)
    assert counts[0] == counts[1]
    changed = score(dict(tournament.scores, features={"sha256": "0" * 64}))
    assert (changed.status, changed.scores) == ("not comparable", [])
    (paths[1] / programs.IMAGES).write_text("damaged")
    entrant = score()
    assert (entrant.status, entrant.scores) == ("not scored", [])
    reason = "not scored: its file of images is not one of numpy.savez"
    assert result_page.cells_of(entrant)[:5] == ["other", "0", "-", "22 s", reason]


# ---------------------------------------------------------------------------------- the whole of it

SCORES = ["--features", "pixels", "--quick-samples", "100", "--score-samples", "100"]
SMALL = ["--steps", "4", "--batch-size", "8", "--xla", "off", *SCORES]
TINY = "--width 2 --latent-size 4 --norm-samples 20 --sample-count 9 --network mlp"


def test_a_plugin_that_draws_nothing_is_refused_before_anything_trains(cli, tmp_path):
    words = ["--presets", "quick", "--plugin", "classifier", "--data", "mnist5k", *SMALL]
    cli.refuse(2, "no hook 'sample'", "gan-league", "--dir", "cup", *words)
    assert not list(tmp_path.glob("cup/searches/*/trials"))


# Its processes wait after a commit while there is a file `hold`.
HOLD = """
import os, time

@hookimpl
def checkpoint_saved():
    while os.path.exists("hold"):
        open("held", "w").close()
        time.sleep(0.01)
"""


def test_a_tournament_that_is_killed_ends_with_the_same_table(cli, tmp_path):
    data = testing.write_digits(str(tmp_path / "digits.npz"), count=240)
    with open(os.path.join(REPOSITORY, "samples", "plugins", "two_updates_gan.py")) as file:
        (tmp_path / "rival.py").write_text(file.read() + HOLD)
    rivals = [f"{tmp_path / 'rival.py'} --metric min:generator", f"gan --preset quick {TINY}"]
    words = ["--presets", "quick", "--data", data, *SMALL]
    words += [word for rival in rivals for word in ("--plugin", rival)]
    (tmp_path / "hold").touch()
    killed = process_fixtures.start("gan-league", "--dir", "cup", *words)
    process_fixtures.wait_for_file(tmp_path / "held", among=[killed])
    process_fixtures.kill(killed)
    (tmp_path / "hold").unlink()
    words += ["--json", "--dir"]
    tables = [cli.succeed("gan-league", *words, each).json() for each in ("cup", "undisturbed")]
    names = ("name", "status", "step", "scores")
    first, second = ([[row[name] for name in names] for row in each["rows"]] for each in tables)
    assert first == second and all(row[3] for row in first)
    assert {row[0].split()[0] for row in first} == {"quick", "rival", "gan"}
