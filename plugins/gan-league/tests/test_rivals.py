"""Plugins in `toolkit gan-league`: their training, their scores, and their failures."""

from __future__ import annotations

import json
import os
import shutil
import types

import click
import numpy as np
import process_fixtures
import pytest
from file_fixtures import REPOSITORY
from score_fixtures import SPEC, SPLITS, QuarterClassifier, make_images, make_options
from toolkit_gan_league import programs, result_page, rivals, standings, training
from toolkit_gan_league.rivals import Judge, Rival
from toolkit_image_scores import damage
from toolkit_image_scores.features import network_features
from toolkit_image_scores.scorer import ImageScorer

from toolkit import InterruptedRun, ToolkitError, UsageError, testing

# ---------------------------------------------------------------------------------- the command


def test_a_plugin_may_have_flags_and_its_path_spaces():
    rival, other = rivals.parse_rivals(["./my plugins/a.py", "vae --code 8 --set 'hidden=3,4'"])
    assert rival == Rival("./my plugins/a.py", []) and rival.name == "a"
    assert other == Rival("vae", ["--code", "8", "--set", "hidden=3,4"])
    assert other.folder == "vae-code-8-set-hidden=3-4"


@pytest.mark.parametrize(
    "texts, message",
    [
        ([""], "names no plugin"),
        (["--code 8"], "names no plugin"),
        (["vae --code '8"], "No closing quotation"),
        (["vae", "vae"], "Two values of --plugin are called 'vae'"),
        (["a/x.py", "b/x.py"], "are called 'x'"),
        (["vae --steps 3"], "--steps is equal for all"),
        (["vae --data=mnist"], "--data is equal for all"),
        (["vae --seeds 3"], "--seeds is equal for all"),
        (["vae --image-size 32"], "--image-size is equal for all"),
    ],
)
def test_a_plugin_that_would_not_compete_on_equal_terms_is_refused(texts, message):
    with pytest.raises(UsageError, match=message):
        rivals.parse_rivals(texts)


def test_flags_of_the_gan_alone_do_not_reach_plugins():
    flags = "--data mnist --width 2 --latent-size=4 --no-spectral-norm --workers 2 --set ema=0.5"
    flags += " --set batch_size=8 --discriminator-norm none --best-metric min:frechet_distance"
    words = "--data mnist --workers 2 --set batch_size=8 --batch-size 16"
    assert rivals.shared_flags(f"{flags} --batch-size 16".split()) == words.split()


def test_all_searches_have_the_same_seeds_and_budget():
    plan = training.plan("cup", "quick", ["vae --code 8"], 1.5, 3, ["--data", "mnist", "--width=2"])
    preset, plugin = map(" ".join, plan.searches)
    equal = "--seeds 3 --data mnist"
    place = os.path.join("cup", "presets", "quick")
    assert preset == f"--search-dir {place} --plugin gan --preset quick {equal} --width=2"
    place = os.path.join("cup", "plugins", "vae-code-8")
    assert plugin == f"--search-dir {place} --plugin vae {equal} --code 8"


def test_the_command_of_the_page_names_each_plugin():
    own = {"dir": "cup", "plugin": ("vae", "x.py --a 1"), "presets": ""}
    text = training.command_text(own, ["--steps", "3"])
    assert text == "toolkit gan-league --dir=cup --plugin=vae '--plugin=x.py --a 1' --steps 3"


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
def plan(tmp_path, monkeypatch):
    monkeypatch.setattr(training, "check_draws_images", lambda *_: None)
    plan = training.plan(str(tmp_path / "cup"), "quick,wgan", ["vae", "diffusion"], 1, 1, [])
    return plan._replace(minutes=None)


@pytest.fixture
def searches(monkeypatch):
    searches = Searches()
    monkeypatch.setattr(training, "search", searches)
    return searches


NAMES = ["quick", "wgan", "vae", "diffusion"]
CHECKS = [(name, True) for name in NAMES]
TRAININGS = [(name, False) for name in NAMES]


def test_all_are_checked_before_one_trains(plan, searches):
    training.train(None, plan)
    assert searches.seen == CHECKS + TRAININGS


def test_all_are_timed_before_one_trains_for_cpu_time(plan, searches, monkeypatch):
    timed = []

    def count_steps(words, cpu_secs):
        timed.append((words[1], cpu_secs))
        return len(timed)

    monkeypatch.setattr(training.timing, "count_steps", count_steps)
    training.train(None, plan._replace(minutes=1.5))
    assert timed == [(folder, 90) for folder in plan.folders]
    assert searches.seen == TRAININGS and searches.steps == ["1", "2", "3", "4"]


def test_a_preset_that_cannot_be_trained_is_named_with_the_way_to_leave_it_out(plan, monkeypatch):
    def refuse(context, names, words):
        message = "Trials with the options of the command cannot be trained: too few examples."
        raise ToolkitError(message, hint="Set --batch-size 9 or less.")

    monkeypatch.setattr(training, "_call", refuse)
    with pytest.raises(ToolkitError) as caught:
        training.train(click.Context(click.Command("x")), plan)
    assert caught.value.message.startswith("--presets 'quick': Trials with")
    assert caught.value.hint == (
        "Set --batch-size 9 or less. Or name the presets that compete: --presets A,B."
    )


def test_an_interrupted_tournament_continues_without_a_second_check(plan, searches):
    searches.failures["vae"] = InterruptedRun("Interrupted.", signum=2)
    with pytest.raises(InterruptedRun):
        training.train(None, plan)
    searches.seen.clear()
    training.train(None, plan)
    assert searches.seen == [("diffusion", True), *TRAININGS]


def test_an_interrupted_tournament_continues_with_its_own_command(monkeypatch):
    def call(*_):
        raise InterruptedRun("Interrupted.", hint="Continue with: toolkit search", signum=2)

    monkeypatch.setattr(training, "_call", call)
    with pytest.raises(InterruptedRun) as error:
        training.search(None, [])
    assert error.value.hint == "Continue with the same command."


def test_a_plugin_that_diverges_does_not_end_the_tournament(plan, searches):
    searches.failures["vae"] = ToolkitError("No configuration finished.")
    training.train(None, plan)
    assert searches.seen == CHECKS + TRAININGS


@pytest.mark.parametrize(
    "cause", [click.UsageError("No such option"), UsageError("No such option")]
)
def test_a_mistake_in_the_flags_of_a_plugin_names_it(plan, monkeypatch, cause):
    def search(context, words):
        if "vae" in words:
            raise cause

    monkeypatch.setattr(training, "search", search)
    with pytest.raises(UsageError, match="--plugin 'vae': No such option"):
        training.train(None, plan)


# ------------------------------------------------------------------------------------- the scores


class Trained:
    """As `toolkit.open_trained` returns it: a run of a preset or of a plugin."""

    def __init__(self, shape=SPEC.shape, name="images", sha256="cd" * 32, **options):
        self.options, self.data = make_options(**options), SPEC
        self.sha256, self.counts = sha256, []
        self.split = SPLITS.get
        self._shape, self._name = shape, name

    def sample(self, count, seed):
        self.counts.append(count)
        if self._shape != SPEC.shape:
            return {self._name: np.zeros((count, *self._shape), np.uint8)}
        return {self._name: make_images((np.arange(count) + seed) % SPEC.num_classes, seed)}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    close = __exit__


@pytest.fixture
def tournament(tmp_path, monkeypatch):
    """A judge of runs, the scores of its preset, and the runs by path."""
    preset = Trained()
    runs = {"preset": preset}
    nothing = dict.fromkeys(damage.SEVERE, ())  # the means of quarters notice no blur
    monkeypatch.setattr(damage, "SEVERE", nothing)
    monkeypatch.setattr(rivals, "open_trained", lambda path: runs[path])
    features = network_features(QuarterClassifier())
    with_features = lambda run, splits: ImageScorer(run, splits, features=features)  # noqa: E731
    monkeypatch.setattr(rivals, "ImageScorer", with_features)
    report = tmp_path / "report"
    report.mkdir()
    scorer = with_features(preset, SPLITS.get)
    scorer.draw = lambda count, seed: [preset.sample(count, seed)]
    scorer.score(SPLITS["test"], None, str(report))
    scores = json.loads((report / "scores.json").read_text())
    return types.SimpleNamespace(
        judge=Judge("preset", scores), scores=scores, runs=runs, folder=str(tmp_path / "scores")
    )


def test_equal_images_of_a_plugin_and_of_a_preset_have_equal_scores(tournament):
    tournament.runs["run"] = Trained()
    scores = tournament.judge.score("run", tournament.folder)
    assert scores == tournament.scores
    assert scores["frechet_distance"]["interval"]["low"] < scores["frechet_distance"]["mean"]
    assert scores["frechet_floor"] > 0


def test_equal_images_of_a_program_and_of_a_preset_have_equal_scores(tournament, tmp_path):
    images = Trained().sample(300, seed=1)["images"]
    for seed in (5, 6):
        run = tmp_path / "programs" / "other" / f"s{seed}"
        run.mkdir(parents=True)
        np.savez(str(run / programs.IMAGES), images=images)
        record = {"status": "finished", "reason": "", "cpu_secs": 4.0 * seed}
        (run / "result.json").write_text(json.dumps(record))
    study = tmp_path / "presets" / "quick" / "study.json"
    study.parent.mkdir(parents=True)
    study.write_text(json.dumps({"seeds": [5, 6]}))
    plan = training.plan(str(tmp_path), "quick", [], 1, 2, [], ["other=sh"])
    entrant = standings._score_program(plan, plan.programs[0], tournament.judge)
    assert entrant.scores == [tournament.scores] * 2 and entrant.cpu_secs == 22.0
    (run / programs.IMAGES).write_text("damaged")
    entrant = standings._score_program(plan, plan.programs[0], tournament.judge)
    assert (entrant.status, entrant.scores) == ("not scored", [])
    reason = "not scored: its file of images is not one of numpy.savez"
    assert result_page.cells_of(entrant)[:5] == ["other", "0", "-", "22 s", reason]


def test_scores_are_computed_once_and_again_after_a_kill(tournament):
    run = tournament.runs["run"] = Trained()
    first = tournament.judge.score("run", tournament.folder)
    assert run.counts == [1, 300]
    assert tournament.judge.score("run", tournament.folder) == first and len(run.counts) == 2
    (name,) = os.listdir(tournament.folder)
    place = os.path.join(tournament.folder, name)
    shutil.move(place, place + ".partial")  # as a kill leaves it
    assert tournament.judge.score("run", tournament.folder) == first and len(run.counts) == 4
    assert os.listdir(tournament.folder) == [name]
    tournament.runs["run"] = Trained(sha256="ef" * 32)  # another checkpoint
    tournament.judge.score("run", tournament.folder)
    assert len(os.listdir(tournament.folder)) == 2


@pytest.mark.parametrize(
    "values, message",
    [
        ({"shape": (9, 8, 1)}, "It draws images [9, 8, 1], and the presets [8, 8, 1]"),
        ({"shape": (8, 8, 3)}, "It draws images [8, 8, 3], and the presets [8, 8, 1]"),
        ({"name": "text"}, "It draws text, and no images"),
        ({"validation_share": 0.5}, "trained with validation_share 0.5, and the presets with 0.1"),
    ],
)
def test_a_run_that_cannot_be_compared_has_a_sentence_in_its_row(
    tournament, values, message, tmp_path
):
    place = tmp_path / "plugins" / "other"
    place.mkdir(parents=True)
    row = {"status": "finished", "reason": "", "step": 3, "cpu_secs": 2.0, "paths": ["run"]}
    (place / "table.json").write_text(json.dumps({"rows": [row]}))
    run = tournament.runs[str(place / "run")] = Trained(**values)
    entrant = standings._score_rival(str(tmp_path), Rival("other", []), tournament.judge)
    cell = result_page.cells_of(entrant)[4]
    assert cell.startswith("not scored: ") and message in cell and len(run.counts) <= 1


def test_other_features_than_those_of_the_presets_are_refused(tournament):
    scores = dict(tournament.scores, features={"sha256": "0" * 64})
    with pytest.raises(UsageError, match="features of the presets' scores have changed"):
        Judge("preset", scores)


# ---------------------------------------------------------------------------------- the whole of it

SMALL = ["--steps", "4", "--batch-size", "8", "--width", "2", "--latent-size", "4"]
SMALL += ["--features", "pixels", "--quick-samples", "100", "--score-samples", "100"]
SMALL += ["--norm-samples", "20", "--sample-count", "9", "--network", "mlp", "--xla", "off"]


def test_a_plugin_that_draws_nothing_is_refused_before_anything_trains(cli, tmp_path):
    result = cli("gan-league", "--dir", "cup", "--plugin", "classifier", *SMALL)
    assert result.code == 2 and "Plugin 'classifier' draws no images" in result.err
    assert not (tmp_path / "cup").exists()


# Its processes wait after a commit while there is a file `hold`.
HOLD = """
import os, time

@hookimpl
def checkpoint_saved():
    while os.path.exists("hold"):
        open("held", "w").close()
        time.sleep(0.01)
"""


def results_of(folder, rival):
    """The ranks and scores of a tournament with the preset quick, without times."""
    plan = training.plan(folder, "", [rival], 1, 1, [])
    entrants = standings.rank(plan._replace(folder=os.path.abspath(folder), presets=["quick"]))
    return [(each.name, each.status, each.step, each.scores) for each in entrants]


def test_a_tournament_that_is_killed_ends_with_the_same_table(cli, tmp_path):
    data = testing.write_digits(str(tmp_path / "digits.npz"), count=240)
    with open(os.path.join(REPOSITORY, "samples", "plugins", "two_updates_gan.py")) as file:
        (tmp_path / "rival.py").write_text(file.read() + HOLD)
    rival = f"{tmp_path / 'rival.py'} --metric min:generator"
    words = ["--presets", "quick", "--plugin", rival, "--data", data, *SMALL]
    (tmp_path / "hold").touch()
    killed = process_fixtures.start("gan-league", "--dir", "cup", *words)
    process_fixtures.wait_for_file(tmp_path / "held", among=[killed])
    process_fixtures.kill(killed)
    (tmp_path / "hold").unlink()
    result = cli("gan-league", "--dir", "cup", *words, "--json")
    assert result.code == 0, result.err
    rows = json.loads(result.out)["rows"]
    assert {row["name"].split()[0] for row in rows} == {"quick", "rival"}
    assert all(row["scores"] for row in rows)
    other = cli("gan-league", "--dir", "undisturbed", *words, "--markdown", "gan.md")
    assert other.code == 0, other.err
    assert results_of("cup", rival) == results_of("undisturbed", rival)
    assert {line.split()[0] for line in other.out.splitlines()[1:3]} == {"quick", "rival"}
    command = "toolkit gan-league --dir=undisturbed --presets=quick "
    assert f"    {command}" in (tmp_path / "gan.md").read_text()
    assert os.path.getsize("gan-samples.png") > 100
