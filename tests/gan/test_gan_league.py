"""The league of GANs in benchmarks/: its page, its data, and what its peers share."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import signal
import subprocess
import sys
import tarfile

import numpy as np
import process_fixtures
import pytest
from file_fixtures import REPOSITORY

BENCHMARKS = os.path.join(REPOSITORY, "benchmarks")


@pytest.fixture(autouse=True)
def benchmarks(monkeypatch):
    """The folders of the league among those of modules."""
    monkeypatch.setattr(sys, "path", [BENCHMARKS, os.path.join(BENCHMARKS, "gan_peers"), *sys.path])


# ----------------------------------------------------------------------------------------- the page


def score(distance, accuracy):
    ends = {"low": accuracy - 0.02, "high": accuracy + 0.02}
    return {
        **{"n": 100, "m": 50, "frechet_floor": 0.5, "frechet_ratio": distance / 0.5},
        "frechet_distance": {
            "mean": distance,
            "interval": {"low": distance - 0.1, "high": distance + 0.1},
        },
        "two_sample": dict(ends, accuracy=accuracy, n=50, m=50),
        **{"precision": 0.5, "recall": 0.25, "coverage": None, "classes": None},
        "features": {"name": "self-supervised, of idx:/home/me/mnist"},
    }


def row(name, scores, program="", path="run"):
    facts = {"plugin": "", "status": "finished", "reason": "", "step": 0, "cpu_secs": 9.0}
    return dict(facts, name=name, scores=scores, paths=[path], program=program, distance=1.0)


@pytest.fixture
def league(tmp_path, monkeypatch):
    """The folder of a league with two rounds of one data set, and its arguments."""
    import gan_league

    monkeypatch.setattr(gan_league.result_page, "write_samples", lambda rows, path: True)
    run = tmp_path / "run"
    run.mkdir()
    (run / "manifest.json").write_text(json.dumps({"versions": {"tensorflow": "2.21"}}))
    (run / "config.json").write_text(json.dumps({"data": "idx:/home/me/mnist"}))
    rounds = {
        "0.2": [row("auto", [score(2.0, 0.7)]), row("Keras", [score(5.0, 0.6)], "python")],
        "5": [
            row("Keras", [score(1.0, 0.9)], "python"),
            row("auto", [score(1.05, 0.9)]),
            dict(row("PyTorch", [], "python"), status="failed"),
        ],
    }
    for minutes, rows in rounds.items():
        rows = [dict(each, paths=[str(run)]) for each in rows]
        path = tmp_path / "league" / "mnist5k" / f"{minutes}-minutes.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"rows": rows}))
    words = ["--dir", str(tmp_path / "league"), "--cpu-minutes", "0.2,5,20", "--page-only"]
    words += ["--data-sets", "mnist5k", "--markdown", str(tmp_path / "gan.md")]
    monkeypatch.setattr(sys, "argv", ["gan_league.py", *words, "--peers37", "/opt/p/python"])
    gan_league.main()
    return (tmp_path / "gan.md").read_text()


def test_the_page_has_a_row_for_each_entrant_and_budget_with_floors(league):
    rows = [line for line in league.splitlines() if line.startswith(("| 0.2", "| 5"))]
    assert [line.split(" | ")[:2] for line in rows] == [
        ["| 0.2", "auto"],
        ["| 0.2", "Keras"],
        ["| 5", "Keras"],
        ["| 5", "auto"],
        ["| 5", "PyTorch"],
    ]
    assert "| 2.00 [1.90, 2.10] | 4.0 [3.8, 4.2] | 70 [68, 72] | - | 0.50 | 0.25 | - |" in rows[0]


def test_the_page_says_who_is_first_by_interval(league):
    assert "- 0.2 CPU minutes: **first by interval** by the FD. By the FD, auto is better" in league
    assert "- 0.2 CPU minutes: **not first** by the two-sample accuracy." in league
    assert "- 5 CPU minutes: **not first** by the FD. By the FD, auto and Keras are not" in league
    assert (
        "- 5 CPU minutes: first by the two-sample accuracy, but not by interval from Keras. By the "
        "two-sample accuracy, auto and Keras are not separated"
    ) in league
    assert league.count("Without scores, so not compared: PyTorch.") == 2  # after 5 minutes


def test_the_page_says_that_the_network_of_clusters_is_not_counted(league):
    assert "(`cluster_features=self`) is trained once, before the\nruns, and its time" in league
    assert 'trains it, once, into the\n  cache: neither the budget nor "CPU" counts it.' in league


def test_the_page_says_which_score_favours_a_preset_that_learned_from_its_network(league):
    text = " ".join(league.split())
    assert "there the FD favours it, and only the two-sample test is independent." in text


def test_the_page_names_no_path_of_the_machine(league, tmp_path):
    assert "/home/me" not in league and "/opt" not in league and str(tmp_path) not in league
    assert "features: self-supervised, of mnist5k." in league
    assert "--page-only" not in league  # it makes no tournament
    assert "--dir DIR" in league and "--markdown FILE.md" in league
    assert "--peers37 PYTHON37" in league and "](gan-mnist5k.png)" in league


def place_of(distances):
    """The verdict by the FD of the first preset among peers, from the distances of their seeds."""
    import gan_league

    names = ["auto", "near", "noisy", "far"]
    rows = [
        row(name, [score(value, 0.9) for value in values], "" if name == "auto" else "python")
        for name, values in zip(names, distances)
    ]
    entrants = [gan_league.Entrant(**{k: v for k, v in r.items() if k != "distance"}) for r in rows]
    each = gan_league.Round(gan_league.DataSet("d", "D", []), 2.0, 1)
    return next(gan_league.verdicts(each, entrants))


AUTO, NEAR, NOISY = (1.0, 1.1, 1.2), (2.0, 2.1, 2.2), (2.0, 4.0, 12.0)


def test_first_by_interval_is_who_is_separated_from_every_peer():
    text = place_of([AUTO, NEAR, NOISY])
    assert text.startswith("2 CPU minutes: first by the FD, but not by interval from noisy. ")
    assert "auto is better than near" in text and "adjusted for 2 comparisons" in text
    assert place_of([AUTO, NEAR]).startswith("2 CPU minutes: **first by interval** by the FD. ")


def test_seeds_of_a_poor_peer_that_vary_as_its_mean_do_not_hide_the_factor():
    # Each seed of the peer is 20, 30 or 45 times as bad; as a difference, its noise hides that.
    text = place_of([AUTO, (20.0, 33.0, 54.0)])
    assert text.startswith("2 CPU minutes: **first by interval** by the FD. ")
    factor = np.exp(np.mean(np.log([20.0, 33.0, 54.0])) - np.mean(np.log(AUTO)))
    assert f"auto is better than near by a factor of {factor:.1f} [" in text
    assert "Welch's t test over seeds, of logarithms" in text


def test_an_interval_of_a_factor_may_have_no_end():
    text = place_of([(1.0, 1.1), (1e-150, 1e200)])
    assert "they differ by a factor of" in text and ", inf] (p = " in text


def test_first_by_interval_holds_for_all_comparisons_together():
    # All have intervals of +- 0.8, their differences so of +- sqrt(2) 0.8 = 1.13. A difference of
    # 1.20 is more, but three comparisons need 1.13 * 2.39 / 1.96 = 1.38.
    import gan_league

    def at(name, value, program):
        ends = {"interval": {"low": value - 0.8, "high": value + 0.8}}
        scores = [dict(score(value, 0.9), frechet_distance=dict(ends, mean=value))]
        values = row(name, scores, program)
        return gan_league.Entrant(**{k: v for k, v in values.items() if k != "distance"})

    each = gan_league.Round(gan_league.DataSet("d", "D", []), 2.0, 1)
    rows = [at("auto", 1.0, ""), *(at(name, 2.2, "python") for name in ("a", "b", "c"))]
    assert next(gan_league.verdicts(each, rows[:2])).startswith("2 CPU minutes: **first by")
    text = next(gan_league.verdicts(each, rows))
    assert "first by the FD, but not by interval from a, b, c. By the FD, auto and a are" in text
    assert "1.20 [-0.182, 2.58]" in text
    # The best of two presets was chosen by the tested values: two comparisons need 1.13 * 2.24 /
    # 1.96 = 1.29.
    text = next(gan_league.verdicts(each, [*rows[:2], at("quick", 1.0, "")]))
    assert "first by the FD, but not by interval from a. By the FD, auto and a are not" in text
    assert "adjusted for 2 comparisons" in text


# --------------------------------------------------------------------------------------- the rounds


def parse(*words):
    import gan_league

    arguments = gan_league.parse(["--dir", "league", "--markdown", "a.md", *words])
    arguments.flags = []
    return arguments


def test_each_budget_may_have_its_own_number_of_seeds():
    import gan_league

    assert gan_league.parse_budgets("2,20,5", "3,1,2") == [(2, 3), (5, 2), (20, 1)]
    assert gan_league.parse_budgets("2,5", "4") == [(2, 4), (5, 4)]


@pytest.mark.parametrize(
    "seeds, message",
    [
        ("3,1", "--seeds has 2 numbers and --cpu-minutes has 3: expected one for all budgets"),
        ("0", "--seeds is '0', expected positive whole numbers."),
        ("3,,1", "--seeds is '3,,1', expected positive whole numbers."),
    ],
)
def test_numbers_of_seeds_that_fit_no_budgets_end_the_league(seeds, message):
    import gan_league

    with pytest.raises(SystemExit, match=re.escape(message)):
        gan_league.parse_budgets("2,5,20", seeds)


SETS = "mnist5k, mnist, mnist-unlabelled, fashion, emoji"


@pytest.mark.parametrize(
    "words, message",
    [
        (["--data-sets", "mnist5k,nmist"], f"names 'nmist', expected some of: {SETS}."),
        (["--data-sets", "mnist5k,"], f"names '', expected some of: {SETS}."),
        (["--data-sets", "mnist"], "names 'mnist', whose files need --mnist."),
        (
            ["--data-sets", "fashion", "--mnist", "m"],
            "names 'fashion', whose files need --fashion.",
        ),
    ],
)
def test_a_data_set_that_the_league_cannot_have_ends_it(words, message, tmp_path, monkeypatch):
    import gan_league

    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as raised:
        gan_league.list_data(parse(*words))
    assert str(raised.value) == f"--data-sets {message}"
    assert not os.listdir(str(tmp_path))


def test_without_names_the_league_has_the_data_sets_whose_files_are_given(tmp_path, monkeypatch):
    import gan_league

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(gan_league.gan_data, "prepare_emoji", lambda folder: 0)
    sets = gan_league.list_data(parse("--fashion", "place"))
    assert [each.name for each in sets] == ["mnist5k", "fashion", "emoji"]
    assert sets[1].flags == ["--data", "idx:place"]


def test_a_round_that_fails_leaves_no_older_result_for_the_page(tmp_path, monkeypatch):
    import gan_league

    monkeypatch.chdir(tmp_path)
    each = gan_league.Round(gan_league.DataSet("d", "D", []), 2.0, 1)
    results = iter([(0, b'{"rows": []}'), (1, b"")])
    monkeypatch.setattr(gan_league, "run_command", lambda command: next(results))
    os.makedirs("league/d")
    gan_league.run_round(parse(), each)
    assert gan_league.read_entrants("league", each) == []
    gan_league.run_round(parse(), each)
    assert gan_league.read_entrants("league", each) is None


# A command that ends a while after a signal, and writes which one it was.
ENDS = """
import os, signal, sys, time
def end(signum, frame):
    time.sleep(0.2)
    with open(sys.argv[1] + ".part", "w") as file: file.write(str(signum))
    os.rename(sys.argv[1] + ".part", sys.argv[1])
    print("ended")
    sys.stdout.flush()
    os._exit(128 + signum)
for signum in (signal.SIGINT, signal.SIGTERM): signal.signal(signum, end)
open(sys.argv[1] + ".started", "w").close()
while True: signal.pause()
"""


def handles_sigterm(process):
    """Whether a process has a handler of SIGTERM."""
    with open(f"/proc/{process.pid}/status") as file:
        (mask,) = [line.split()[1] for line in file if line.startswith("SigCgt:")]
    return int(mask, 16) >> (signal.SIGTERM - 1) & 1


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_the_end_of_the_league_ends_its_tournament(tmp_path, sent):
    path = tmp_path / "signal"
    command = [sys.executable, "-c", ENDS, str(path)]
    statements = f"import gan_league; print(gan_league.run_command({command!r}))"
    with open(str(tmp_path / "out"), "wb") as out:
        league = process_fixtures.start(statements=statements, fresh=True, stdout=out)
    process_fixtures.wait_for_file(tmp_path / "signal.started", among=[league])
    process_fixtures.wait_until(lambda: handles_sigterm(league), among=[league])
    league.send_signal(sent)
    league.wait(process_fixtures.PATIENCE)
    process_fixtures.wait_for_file(path)
    if sent == signal.SIGKILL:
        assert path.read_text() == str(int(signal.SIGTERM))
    else:  # the league has waited, and has its answer
        assert (tmp_path / "out").read_text().strip() == str((128 + sent, b"ended\n"))


# ----------------------------------------------------------------------------------------- the data


def test_emoji_are_unpacked_into_folders_by_category(tmp_path):
    import gan_data

    emoji = [
        {"category": "Food & Drink", "unified": "1F34E", "image": "1f34e.png"},
        {"category": "Component", "unified": "1F3FB", "image": "1f3fb.png"},
        {"category": "Flags", "unified": "1F3F4", "image": "missing.png"},
    ]
    files = {"package/emoji.json": json.dumps(emoji).encode()}
    files.update({f"package/img/google/64/{name}.png": b"PNG" for name in ("1f34e", "1f3fb")})
    with tarfile.open(str(tmp_path / "package.tgz"), "w:gz") as package:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            package.addfile(info, io.BytesIO(content))
    assert gan_data.prepare_emoji(str(tmp_path / "emoji"), str(tmp_path / "package.tgz")) == 1
    assert (tmp_path / "emoji" / "Food-Drink" / "1f34e.png").read_bytes() == b"PNG"


def test_images_without_labels_are_those_of_the_idx_files(tmp_path):
    import gan_data

    images = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    header = b"\0\0\x08\x03" + np.array(images.shape, ">i4").tobytes()
    (tmp_path / "train-images-idx3-ubyte").write_bytes(header + images.tobytes())
    with gzip.open(str(tmp_path / "t10k-images-idx3-ubyte.gz"), "wb") as file:
        file.write(header + (images + 1).tobytes())
    gan_data.remove_labels(str(tmp_path), str(tmp_path / "a.npz"))
    with np.load(str(tmp_path / "a.npz")) as arrays:
        assert sorted(arrays) == ["x_test", "x_train"]
        np.testing.assert_array_equal(arrays["x_train"][..., 0], images)
        np.testing.assert_array_equal(arrays["x_test"][..., 0], images + 1)


# ------------------------------------------------------------------------------------ the protocol


@pytest.fixture
def task(tmp_path, monkeypatch):
    """A peer's task: 10 images of 5 x 6 pixels, a CPU second, 7 samples."""
    import protocol

    images = np.random.RandomState(0).randint(0, 256, (10, 5, 6, 3)).astype(np.uint8)
    np.savez(str(tmp_path / "data.npz"), x_train=images)
    words = ["--data", str(tmp_path / "data.npz"), "--cpu-secs", "4.05", "--seed", "3"]
    words += ["--samples", "7", "--out", str(tmp_path / "out.npz")]
    monkeypatch.setattr(sys, "argv", ["peer.py", *words])
    return protocol.Task()


def test_a_peer_trains_until_a_step_would_exceed_its_budget(task, tmp_path, monkeypatch):
    import protocol

    clock = iter([9.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0])  # a step takes a second
    monkeypatch.setattr(protocol.time, "process_time", lambda: next(clock))
    assert list(task.steps()) == [0, 1, 2, 3, 4]  # four after the first, which does not count
    assert (tmp_path / "out.npz.trained").exists()


@pytest.mark.parametrize("first_secs", [1.0, 100.0])
def test_a_peer_does_not_pay_for_its_first_step(task, monkeypatch, capsys, first_secs):
    import protocol

    now = [9.0]
    monkeypatch.setattr(protocol.time, "process_time", lambda: now[0])
    for step in task.steps():
        now[0] += 1.0 if step else first_secs
    assert step == 4
    before = f"{9 + first_secs:.1f} before and in the first"
    assert capsys.readouterr().out == f"5 steps in 4.0 CPU seconds, {before}\n"


def test_batches_of_a_peer_are_epochs_in_the_range_of_tanh(task):
    batches = task.batches(5)
    epochs = [np.concatenate([next(batches), next(batches)]) for _ in range(2)]
    images = task.images / np.float32(127.5) - 1
    for epoch in epochs:
        np.testing.assert_allclose(np.sort(epoch, axis=0), np.sort(images, axis=0), atol=1e-6)
    assert not np.array_equal(*epochs) and next(task.batches(64)).shape == (10, 5, 6, 3)


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


def test_pixels_are_repeated_and_edges_fill_the_rest():
    import protocol

    images = np.array([[1, 2], [3, 4]], np.uint8).reshape(1, 2, 2, 1)
    enlarged = protocol.Resizing((2, 2), (4, 7)).apply(images)
    expected = [[1, 1, 1, 2, 2, 2, 2]] * 2 + [[3, 3, 3, 4, 4, 4, 4]] * 2
    assert enlarged[0, ..., 0].tolist() == expected


def test_images_larger_than_a_network_are_averaged_down():
    import protocol

    images = np.kron([[10, 30], [50, 70]], np.ones((3, 3))).astype(np.uint8).reshape(1, 6, 6, 1)
    resizing = protocol.Resizing((6, 6), (2, 2))
    assert resizing.apply(images)[0, ..., 0].tolist() == [[10, 30], [50, 70]]
    assert resizing.undo(resizing.apply(images)).shape == (1, 6, 6, 1)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="These peers need Keras 3.")
@pytest.mark.parametrize("script, contrast", [("keras_dcgan.py", 20), ("keras_wgan_gp.py", 60)])
def test_samples_of_keras_have_the_contrast_of_their_batch_after_two_steps(
    script, contrast, tmp_path
):
    # The moving averages are still nearly those of no data: with them, the contrast is 3 and 38.
    process_fixtures.take_turn()
    images = np.random.RandomState(0).randint(0, 256, (20, 8, 8, 1)).astype(np.uint8)
    np.savez(str(tmp_path / "data.npz"), x_train=images)
    command = [sys.executable, os.path.join(BENCHMARKS, "gan_peers", script)]
    command += ["--data", str(tmp_path / "data.npz"), "--cpu-secs", "0.001", "--seed", "1"]
    subprocess.run([*command, "--samples", "20", "--out", str(tmp_path / "out.npz")], check=True)
    with np.load(str(tmp_path / "out.npz")) as arrays:
        assert arrays["images"].shape == images.shape and arrays["images"].std() > contrast


def test_samples_of_a_peer_are_written_in_the_size_of_the_data(task, tmp_path):
    task.resize(8, 8)
    assert task.images.shape == (10, 8, 8, 3)
    values = iter([-2.0, 0.0, 1.0])
    task.write(lambda count: np.full((count, 8, 8, 3), next(values)), batch_size=3)
    with np.load(str(tmp_path / "out.npz")) as arrays:
        images = arrays["images"]
    assert images.shape == (7, 5, 6, 3) and images.dtype == np.uint8
    assert [image.max() for image in images] == [0, 0, 0, 128, 128, 128, 255]
