"""Runs that are trained once: what they count by, and what a failed or killed training leaves."""

import fcntl
import glob
import os
import shutil
import signal
import threading
from pathlib import Path

import pytest
from linear_fixtures import LINEAR
from process_fixtures import PATIENCE
from run_fixtures import checkpoint_file, set_state, write_plugin

import toolkit
from toolkit import CheckpointError, InterruptedRun, UsageError, api, cached_run
from toolkit.plugins import Plugins
from toolkit.training.signals import FirstSignal


class Cache:
    """An empty cache. To train a run, a copy of one that was trained before is made.

    Attributes:
        trainings: (plugin, options) of each training.
        after_training: called with the folder of each.
    """

    def __init__(self, monkeypatch, folder, run):
        self.trainings = []
        self.folder = str(folder / "cache" / "features")
        self._run, self.after_training = run, lambda run_dir: None
        monkeypatch.setenv("TOOLKIT_CACHE", str(folder / "cache"))
        monkeypatch.setattr(api, "train", self.train)

    def train(self, plugin, run_dir, options, say, named_by):
        shutil.copytree(self._run, run_dir)
        self.trainings.append((plugin, options))
        self.after_training(run_dir)
        return toolkit.open_trained(self._run)

    def open(self, plugin=LINEAR, options=None, **arguments):
        with cached_run(plugin, options or {}, **arguments) as trained:
            return trained


@pytest.fixture
def cache(golden, monkeypatch, tmp_path):
    run = golden("--steps", 3, "--checkpoint-steps", 3, "--no-evaluate") / "run"
    return Cache(monkeypatch, tmp_path, str(run))


def test_a_run_is_trained_once_and_then_found(cache):
    first, again = cache.open(), cache.open()
    (name,) = os.listdir(cache.folder)
    assert name.startswith("Linear-") and len(cache.trainings) == 1
    assert first.sha256 == again.sha256 and first.step == 3


def test_a_path_counts_as_its_text(cache):
    for data in "digits.npz", Path("digits.npz"):
        cache.open(options={"data": data})
    assert len(cache.trainings) == 1


def test_other_options_another_key_or_plugin_are_another_run(cache, tmp_path):
    write_plugin(path=str(tmp_path / "other.py"))
    cases = [({}, None), ({"seed": 1}, None), ({}, "a"), ({}, {"b": [1, 2]}), ({"data": "x"}, None)]
    for options, key in cases + cases:
        cache.open(options=options, key=key)
    cache.open(str(tmp_path / "other.py"))
    assert len(cache.trainings) == len(os.listdir(cache.folder)) == 6


def test_with_a_key_the_data_count_by_it_alone(cache):
    for data in ("npz:a.npz", "npz:./a.npz"):
        cache.open(options={"data": data}, key="hash")
    assert [options["data"] for _, options in cache.trainings] == ["npz:a.npz"]


def test_a_file_counts_by_its_code_whatever_its_path(cache, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_plugin()
    for plugin in ("mine.py", "./mine.py", str(tmp_path / "mine.py")):
        cache.open(plugin)
    assert len(cache.trainings) == 1
    write_plugin("    version = 2")
    cache.open("mine.py")
    assert len(cache.trainings) == 2
    assert all(name.startswith("mine-") for name in os.listdir(cache.folder))


@pytest.mark.parametrize("change", ["version of the plugin", "code of the plugin", "the toolkit"])
def test_an_upgrade_trains_another_run(cache, monkeypatch, change):
    cache.open()
    model = api.load_plugins(LINEAR).model
    if change == "version of the plugin":
        plugins = Plugins(model._replace(distribution="toolkit 9.9"))
        monkeypatch.setattr(api, "load_plugins", lambda *_, **__: plugins)
    elif change == "code of the plugin":
        monkeypatch.setattr(type(model), "sha256", lambda self: {"networks.py": "0" * 64})
    else:
        monkeypatch.setattr("toolkit.run_cache.__version__", "9.9")
    cache.open()
    assert len(cache.trainings) == len(os.listdir(cache.folder)) == 2


def test_an_interrupted_training_does_not_name_its_deleted_folder(cache):
    def interrupt(run_dir):
        message, hint = f"Step 2 is saved in {run_dir}.", f"Continue with: toolkit resume {run_dir}"
        raise InterruptedRun(message, hint=hint, signum=15)

    cache.after_training = interrupt
    with pytest.raises(InterruptedRun) as raised:
        cache.open()
    assert cache.folder not in str(raised.value) + raised.value.hint
    assert "while 'Linear' was trained for the cache; nothing is saved" in raised.value.message
    assert raised.value.exit_code == 128 + 15
    assert [os.listdir(path) for path in glob.glob(os.path.join(cache.folder, "*"))] == [[]]


def test_of_two_that_need_a_run_one_trains_and_the_other_waits(cache, monkeypatch):
    flock, waits = fcntl.flock, threading.Event()

    def lock(*arguments):
        if cache.trainings:
            waits.set()
        flock(*arguments)

    def train_until_another_waits(run_dir):
        other.start()
        assert waits.wait(PATIENCE)

    other = threading.Thread(target=cache.open)
    monkeypatch.setattr(fcntl, "flock", lock)
    cache.after_training = train_until_another_waits
    cache.open()
    other.join(PATIENCE)
    assert len(cache.trainings) == 1 and not other.is_alive()


@pytest.mark.parametrize("part, place", [("content", "left"), ("content/run", "../gone")])
def test_a_run_that_is_gone_is_trained_again_without_what_a_killed_training_left(
    cache, part, place
):
    cache.open()
    (name,) = os.listdir(cache.folder)
    folder = os.path.join(cache.folder, name)
    os.rename(os.path.join(folder, part), os.path.join(folder, place))
    assert cache.open().step == 3 and len(cache.trainings) == 2
    assert os.listdir(folder) == ["content"]


def test_a_signal_ends_the_wait_for_another_process_within_a_run(cache, monkeypatch):
    monkeypatch.setattr(fcntl, "flock", lambda *_: os.kill(os.getpid(), signal.SIGTERM))
    with FirstSignal(), pytest.raises(InterruptedRun, match="nothing is saved"):
        cache.open()
    assert cache.trainings == []


@pytest.mark.parametrize(
    "damage",
    [
        lambda run: set_state(run, status="interrupted", summary=None),
        lambda run: os.truncate(checkpoint_file(run, 3), 100),
    ],
    ids=["half", "damaged"],
)
def test_half_or_damaged_a_run_of_the_cache_is_refused_with_its_folder(cache, damage):
    cache.open()
    (folder,) = glob.glob(os.path.join(cache.folder, "*"))
    damage(Path(folder, "content", "run"))
    with pytest.raises(CheckpointError) as raised:
        cache.open()
    assert f"Delete {folder}; it will be trained again." in raised.value.hint


def test_a_plugin_file_that_a_stranger_may_have_named_is_not_executed(cache, tmp_path):
    (tmp_path / "stranger.py").write_text("open('executed', 'w').close()\n")
    with pytest.raises(UsageError, match="option mine names the plugin '.*stranger.py'"):
        cache.open(str(tmp_path / "stranger.py"), named_by="option mine")
    assert not os.path.exists("executed") and not os.path.isdir(cache.folder)
