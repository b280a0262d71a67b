"""Presets that the data choose: resolution, what a run saves, and what is refused."""

from __future__ import annotations

import json

import numpy as np
import pytest
from file_fixtures import read_json
from linear_fixtures import Linear, LinearOptions
from typing_extensions import Literal

from toolkit import Split, ToolkitError, UsageError, hookimpl, option
from toolkit.api import load_plugins, open_data, train
from toolkit.options import DATA, Origin, Value, resolve
from toolkit.preset_choice import choose_by_data
from toolkit.storage.run_folder import RunFolder
from toolkit.testing import make_run


class Recipes(LinearOptions):
    """Two recipes, of which the data choose one."""

    presets = {"slow": {"learning_rate": 0.1, "gain": 2.0}, "fast": {"learning_rate": 0.9}}

    preset: Literal["auto", "slow", "fast"] = option("auto", "which recipe")

    @classmethod
    def choose_preset(cls, data, num_examples):
        return ("fast", f"there are {num_examples} examples") if num_examples > 4 else ("slow", "-")


FAST = {"preset": Value("fast", Origin(DATA, "so it is"))}


def with_recipes(layers=(), **flags):
    return resolve([("recipes", Recipes)], layers, None, flags)


def test_until_the_data_are_open_the_first_preset_counts():
    resolved = with_recipes()
    assert (resolved.options.preset, resolved.options.gain) == ("auto", 2.0)
    assert resolved.open_presets == {"preset": ("recipes", Recipes)}
    assert not with_recipes(preset="slow").open_presets


def test_a_choice_names_the_preset_and_its_origin_is_the_reason():
    resolved = with_recipes().choose(FAST)
    assert (resolved.options.preset, resolved.options.learning_rate) == ("fast", 0.9)
    assert resolved.origins["preset"] == ("data", "so it is", "")
    assert str(resolved.origins["learning_rate"]) == "preset fast"
    assert not resolved.open_presets and not resolved.origins["preset"].is_choice


def test_auto_by_name_takes_the_place_of_values_of_weaker_layers_like_a_name():
    layer = "a.toml", {"preset": "slow", "learning_rate": 0.5}
    resolved = with_recipes([layer], preset="auto").choose(FAST)
    assert (resolved.options.preset, resolved.options.learning_rate) == ("fast", 0.9)
    assert resolved.notes == [
        "learning_rate is 0.9 by preset fast (data so it is), no longer 0.5 (a.toml)"
    ]


def test_print_config_shows_values_that_the_data_are_to_choose_as_auto(cli):
    rows = json.loads(cli("run", "classifier", "--rotate", "5", "--print-config", "--json").out)
    assert rows["shift"] == {"value": "auto", "origin": "preset auto"}
    assert rows["rotate"] == {"value": 5.0, "origin": "flag --rotate"}


class Plugin(Linear):
    """A model plugin with the options of a class."""

    def __init__(self, cls):
        self.cls = cls

    @hookimpl
    def options(self):
        return self.cls


@pytest.mark.parametrize(
    "choose, message",
    [
        (lambda data: ("strange", "it can"), "returned 'strange', which is no preset"),
        (lambda data: data.no_such_attribute, "failed: AttributeError"),
    ],
)
def test_a_strange_choice_is_one_sentence(choose, message):
    class Odd(Recipes):
        @classmethod
        def choose_preset(cls, data, num_examples):
            return choose(data)

    with pytest.raises(ToolkitError, match=f"choose_preset of plugin 'plugin' {message}"):
        open_data(Plugin(Odd))


class OwnData(Plugin):
    """A plugin whose data depend on an option that a preset sets."""

    @hookimpl
    def data(self, split, run):
        count = int(8 * run.options.gain)
        return Split(np.zeros([count, 2], np.float32), np.zeros([count], np.int32))


def test_a_preset_that_changes_what_the_data_were_opened_with_is_refused():
    with pytest.raises(ToolkitError, match="'gain' is 1.0 .default., and the data were opened"):
        open_data(OwnData(Recipes))
    assert open_data(OwnData(Recipes), {"gain": 1.5}).options.preset == "fast"


QUICK = {"batch_size": 4, "steps_per_call": 1, "evaluate": False}


@pytest.fixture
def data(tmp_path):
    path = str(tmp_path / "data.npz")
    features = np.random.RandomState(0).normal(size=[40, 2]).astype(np.float32)
    np.savez(path, x_train=features, y_train=np.arange(40) % 2)
    return "npz:" + path


def test_a_run_saves_the_name_and_the_reason_and_a_resume_has_the_same(tmp_path, data):
    folder, lines = str(tmp_path / "run"), []
    plugin, options = Plugin(Recipes), {"data": data, "steps": 2, **QUICK}
    train(plugin, folder, options, say=lines.append)
    config, manifest = read_json(folder, "config.json"), read_json(folder, "manifest.json")
    count = manifest["data"]["examples"]["train"]
    reason = f"there are {count} examples"
    assert f"note   preset fast, because {reason}" in lines
    assert (config["preset"], config["learning_rate"], config["gain"]) == ("fast", 0.9, 1.0)
    assert config["origins"]["preset"] == f"data {reason}"
    session = RunFolder(folder).commits.sessions()[0]
    assert session["options"]["preset"] == "fast"

    class Other(Recipes):
        @classmethod
        def choose_preset(cls, data, num_examples):
            raise AssertionError("a resume asks again")

    train(Plugin(Other), folder, dict(options, steps=3))
    train(Plugin(Other), folder, dict(options, steps=4, preset="auto"))
    config = read_json(folder, "config.json")
    assert (config["preset"], config["origins"]["preset"]) == ("fast", f"data {reason}")
    with pytest.raises(UsageError, match="preset was fast, now slow"):
        train(plugin, folder, dict(options, steps=5, preset="slow"))


def test_the_data_choose_for_trials_of_a_search_and_for_data_that_code_opens(data):
    plugins = load_plugins(Plugin(Recipes))
    for values, preset in [({}, "fast"), ({"preset": "slow"}, "slow")]:
        trial = resolve(plugins.options(), flags=dict(values, data=data))
        assert choose_by_data(plugins, trial).options.preset == preset
    assert open_data(Plugin(Recipes), {"data": data}).options.learning_rate == 0.9
    assert make_run(Plugin(Recipes), "eval", open_data(Plugin(Recipes)).data).options.gain == 2.0
