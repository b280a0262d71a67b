"""The league of GANs in benchmarks/: who is first, its rounds, and equal terms for its peers."""

import os
import subprocess
import sys
import types

import numpy as np
import pytest
from file_fixtures import REPOSITORY
from league_fixtures import make_scores, write_json

BENCHMARK = os.path.join(REPOSITORY, "plugins", "gan-league", "benchmark")


@pytest.fixture(autouse=True)
def _folders(monkeypatch):
    """The folders of the league among those of modules."""
    monkeypatch.setattr(sys, "path", [BENCHMARK, os.path.join(BENCHMARK, "peers"), *sys.path])


@pytest.fixture
def league(tmp_path, monkeypatch):
    """The script, in an empty folder, without pictures."""
    import league

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(league.result_page, "write_samples", lambda rows, path: True)
    return league


def make_score(distance, accuracy, half=0.1):
    test = {"accuracy": accuracy, "low": accuracy - 0.02, "high": accuracy + 0.02}
    return make_scores(distance, half, two_sample=test, coverage=None, classes=None)


def make_row(name, scores, program="python"):
    facts = {"status": "finished", "reason": "", "step": 0, "cpu_secs": 9.0}
    return dict(facts, name=name, scores=scores, paths=["run"], program=program)


def test_the_page_has_a_row_for_each_budget_and_no_path_of_the_machine(league, monkeypatch):
    write_json("run/manifest.json", {"versions": {"tensorflow": "2"}})
    write_json("run/config.json", {"data": "idx:/home/me/mnist"})
    keras = make_row("Keras", [make_score(5, 0.6)])
    auto = make_row("auto", [make_score(2, 0.7)], "")
    rounds = {"0.2": [auto, keras], "5": [keras, dict(make_row("PyTorch", []), status="failed")]}
    for minutes, rows in rounds.items():
        write_json(f"league/mnist5k/{minutes}-minutes.json", {"rows": rows})
    words = ["--dir", "league", "--cpu-minutes", "0.2", "5", "20", "--data-sets", "mnist5k"]
    words += ["--markdown", "gan.md", "--peers37", "/opt/p/python"]
    monkeypatch.setattr(sys, "argv", ["league.py", *words])
    monkeypatch.setattr(league, "run_round", lambda *arguments: None)
    league.main()
    with open("gan.md") as file:
        page = file.read()
    rows = [line for line in page.splitlines() if line.startswith(("| 0.2", "| 5"))]
    names = ["| 0.2 | auto", "| 0.2 | Keras", "| 5 | Keras", "| 5 | PyTorch"]
    assert [" | ".join(line.split(" | ")[:2]) for line in rows] == names
    assert "| 2.00 [1.90, 2.10] | 4.0 | 70 [68, 72] | - | 0.50 | 0.25 | - |" in rows[0]
    assert "- 0.2 CPU minutes: **first by interval** by the FD. By the FD, auto is better" in page
    assert "- 0.2 CPU minutes: **not first** by the two-sample accuracy." in page
    assert "/home/me" not in page and "/opt" not in page
    assert "--dir DIR" in page and "--peers37 PYTHON37" in page and "](gan-mnist5k.png)" in page


def place_of(league, rows):
    """The verdict by the FD."""
    return next(league.verdicts([league.Entrant(**row) for row in rows]))


def test_first_by_interval_is_who_is_separated_from_every_peer(league):
    seeds = (1.0, 1.1, 1.2), (2.0, 2.1, 2.2), (2.0, 4.0, 12.0)
    auto, *peers = [[make_score(distance, 0.9) for distance in each] for each in seeds]
    rows = [make_row("auto", auto, ""), *map(make_row, "ab", peers)]
    text = place_of(league, rows)
    assert text.startswith("first by the FD, but not by interval from b. ")
    assert "auto is better than a" in text and "adjusted for 2 comparisons" in text
    text = place_of(league, [*rows[:2], make_row("c", [])])
    assert text.startswith("**first by interval** by the FD. ")
    assert text.endswith("Without scores, so not compared: c.")


def test_first_by_interval_holds_for_all_comparisons_together(league):
    # All have intervals of +- 0.8, their differences so of +- sqrt(2) 0.8 = 1.13. A difference of
    # 1.20 is more, but three comparisons need 1.13 * 2.39 / 1.96 = 1.38.
    auto, quick = (make_row(name, [make_score(1.0, 0.9, 0.8)], "") for name in ("auto", "quick"))
    peers = [make_row(name, [make_score(2.2, 0.9, 0.8)]) for name in "abc"]
    assert place_of(league, [auto, peers[0]]).startswith("**first by")
    text = place_of(league, [auto, *peers])
    assert "first by the FD, but not by interval from a, b, c. By the FD, auto and a are" in text
    assert "1.20 [-0.182, 2.58]" in text
    # The best of two presets was chosen by the tested values: two comparisons need 1.13 * 2.24 /
    # 1.96 = 1.29.
    text = place_of(league, [auto, peers[0], quick])
    assert "first by the FD, but not by interval from a. By the FD, auto and a are not" in text
    assert "adjusted for 2 comparisons" in text


def parse(league, *words):
    return league.parse(["--dir", "league", "--markdown", "a.md", *words])


def test_a_data_set_whose_files_are_not_given_is_left_out(league):
    names = [each.name for each in league.select_data(parse(league, "--fashion", "f"))]
    assert names == ["mnist5k", "fashion", "emoji"]
    words = ["--data-sets", "mnist", "--cpu-minutes", "5", "2", "--", "--width", "8"]
    arguments = parse(league, *words)
    assert (arguments.cpu_minutes, arguments.flags) == ([2, 5], ["--width", "8"])


def test_a_round_that_fails_leaves_no_older_result_for_the_page(league, monkeypatch):
    endings = iter(
        subprocess.CompletedProcess([], *end) for end in ((0, b'{"rows": [{}]}'), (1, b""))
    )
    monkeypatch.setattr(league.subprocess, "run", lambda *_, **__: next(endings))
    os.makedirs("league/d")
    data = types.SimpleNamespace(name="d", title="D")
    for exists in (True, False):
        league.run_round(parse(league), data, [], 2.0)
        assert os.path.exists("league/d/2-minutes.json") == exists


@pytest.fixture
def task(tmp_path, monkeypatch):
    """A peer's task: 10 images of 5 x 6 pixels, four CPU seconds, 7 samples."""
    import protocol

    images = np.random.RandomState(0).randint(0, 256, (10, 5, 6, 3)).astype(np.uint8)
    np.savez(str(tmp_path / "data.npz"), x_train=images)
    words = ["--data", str(tmp_path / "data.npz"), "--cpu-secs", "4.05", "--seed", "3"]
    words += ["--samples", "7", "--out", str(tmp_path / "out.npz")]
    monkeypatch.setattr(sys, "argv", ["peer.py", *words])
    return protocol.Task()


@pytest.mark.parametrize("first_secs", [1.0, 100.0])
def test_a_peer_trains_until_a_step_would_exceed_its_budget_and_the_first_is_free(
    task, monkeypatch, capsys, first_secs
):
    import protocol

    now = [9.0]
    monkeypatch.setattr(protocol.time, "process_time", lambda: now[0])
    for step in task.steps():
        now[0] += 1.0 if step else first_secs
    assert step == 4
    before = f"{9 + first_secs:.1f} before and in the first"
    assert capsys.readouterr().out == f"5 steps in 4.0 CPU seconds, {before}\n"


@pytest.mark.parametrize("shape", [(28, 28, 1), (32, 32, 3), (30, 21, 3), (5, 6, 3)])
@pytest.mark.parametrize("wanted", ["64", "multiples of 4"])
def test_images_of_the_data_that_are_enlarged_come_back_exactly(shape, wanted):
    import protocol

    images = np.random.RandomState(0).randint(0, 256, (3, *shape)).astype(np.uint8)
    size = (64, 64) if wanted == "64" else [protocol.round_up(side, 4) for side in shape[:2]]
    resizing = protocol.Resizing(shape[:2], size)
    enlarged = resizing.apply(images)
    assert enlarged.shape == (3, *size, shape[2]) and enlarged.dtype == np.uint8
    np.testing.assert_array_equal(resizing.undo(enlarged), images)


def test_samples_of_a_peer_are_written_in_the_size_of_the_data(task, tmp_path):
    task.resize(8, 8)
    assert task.images.shape == (10, 8, 8, 3)
    values = iter([-2.0, 0.0, 1.0])
    task.write(lambda count: np.full((count, 8, 8, 3), next(values)), batch_size=3)
    with np.load(str(tmp_path / "out.npz")) as arrays:
        images = arrays["images"]
    assert images.shape == (7, 5, 6, 3) and images.dtype == np.uint8
    assert [image.max() for image in images] == [0, 0, 0, 128, 128, 128, 255]
