"""Configuration files: what they name, paths that count from their folder, and a run's own."""

from __future__ import annotations

import json
import os

import pytest
from file_fixtures import read_json
from linear_fixtures import LINEAR, Linear, LinearOptions, write_bars

import toolkit
from toolkit import CheckpointError, UsageError, hookimpl, option
from toolkit import config as configuration
from toolkit.options import (
    CoreOptions,
    find_path,
    map_paths,
    map_reference,
    move_start,
    resolve,
)
from toolkit.options.core import PATH_PREFIXES
from toolkit.storage.run_folder import RunFolder


def write(path, **values):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(values))
    return path


def printed(cli, *argv):
    """Name -> {"value", "origin"} of `--print-config --json`."""
    result = cli("run", *(argv + ("--print-config", "--json")))
    assert result.code == 0, result.err
    return json.loads(result.out)


# -------------------------------------------------------------------------------------------- paths


@pytest.mark.parametrize(
    "reference, moved",
    [
        ("npz:a.npz", "npz:../a.npz"),
        ("idx:sub/mnist", "idx:../sub/mnist"),
        ("images:..", "images:../.."),
        ("./mine.py", "../mine.py"),
        ("mine.py", "../mine.py"),
        ("npz:/abs/a.npz", "npz:/abs/a.npz"),
        ("/abs/mine.py", "/abs/mine.py"),
        ("mnist5k", "mnist5k"),
        ("package.module:Plugin", "package.module:Plugin"),
        ("", ""),
    ],
)
def test_a_relative_path_is_rewritten_and_a_name_stays(reference, moved):
    def move(path):
        return move_start(path, "/base", "/base/run")

    if reference.startswith(PATH_PREFIXES) or reference == "mnist5k":
        assert map_paths(CoreOptions, "data", reference, move) == moved
    else:
        assert map_reference(reference, move) == moved


def test_a_home_folder_is_spelled_out(monkeypatch):
    monkeypatch.setenv("HOME", "/home/ada")
    assert move_start("~/a.npz", "/base", "/run") == "/home/ada/a.npz"
    assert find_path("~/a.npz", ["/base"]) == "/home/ada/a.npz"


def test_paths_in_a_file_start_at_the_files_folder(here):
    path = write(
        here / "sub" / "a.json", plugin="./mine.py", data="npz:a.npz", **{"with": ["e.py"]}
    )
    read = configuration.read(str(path))
    assert (read.plugin, read.extensions) == ("sub/mine.py", ["sub/e.py"])
    assert resolve([], [read.layer(str(path))]).options.data == "npz:sub/a.npz"


NAMES = "'plugin' is one name and 'with' a list of names"
TEXT = "a.json: 'data' is text that may hold a path"


@pytest.mark.parametrize(
    "name, value, message",
    [
        ("plugin", 3, NAMES),
        ("plugin", "~\0", NAMES),
        ("plugin", "\ud800", NAMES),
        ("with", "one", NAMES),
        ("with", [5], NAMES),
        ("data", 3, TEXT),
        ("data", "npz:~\0", TEXT),
        ("data", "npz:\ud800", TEXT),
    ],
)
def test_plugin_is_a_name_with_a_list_and_data_a_text(here, name, value, message):
    with pytest.raises(UsageError, match=message):
        configuration.read(str(write(here / "a.json", **{name: value})))


def test_paths_that_a_run_saves_start_at_its_folder(here):
    options = CoreOptions(data="npz:a.npz")
    saved = configuration.run_values("./mine.py", ["ema"], options, str(here / "runs" / "x"))
    assert (saved["plugin"], saved["with"], saved["data"]) == (
        "../../mine.py",
        ["ema"],
        "npz:../../a.npz",
    )
    assert set(saved) == {"plugin", "with", "folder"} | set(CoreOptions.model_fields)
    assert saved["folder"] == os.path.realpath(str(here / "runs" / "x"))


def test_a_missing_or_damaged_saved_configuration_is_a_checkpoint_error(here):
    with pytest.raises(CheckpointError, match="config.json is missing"):
        configuration.read_run_config(RunFolder(str(here)))
    (here / "config.json").write_text("{")
    with pytest.raises(CheckpointError, match="config.json is not valid JSON"):
        configuration.read_run_config(RunFolder(str(here)))


# --------------------------------------------------------------------------------- the command line


def test_every_layer_shows_in_print_config_with_its_origin(cli, here, monkeypatch):
    (here / "a.toml").write_text(
        f'plugin = "{LINEAR}"\nkeep_checkpoints = 2\nseed = 2\nlog_steps = 2\n'
    )
    (here / "b.toml").write_text("seed = 3\nlog_steps = 3\n")
    monkeypatch.setenv("TOOLKIT_LOG_STEPS", "4")
    files = ["--config", "a.toml", "--config", "b.toml"]
    rows = printed(cli, "--plugin", LINEAR, *files, "--steps", "5")
    assert rows["plugin"]["value"] == LINEAR
    assert rows["clip"] == {"value": "value", "origin": "default"}
    assert rows["batch_size"] == {"value": 8, "origin": "plugin Linear"}
    assert rows["keep_checkpoints"] == {"value": 2, "origin": "a.toml"}
    assert rows["seed"] == {"value": 3, "origin": "b.toml"}
    assert rows["log_steps"] == {"value": 4, "origin": "TOOLKIT_LOG_STEPS"}
    assert rows["steps"] == {"value": 5, "origin": "flag --steps"}


def test_print_config_as_text_has_one_line_per_option_and_leaves_nothing(cli, here):
    result = cli("run", "--plugin", LINEAR, "--print-config", "--set", "gain=2")
    lines = {line.split()[0]: line.split()[1:] for line in result.out.split("\n") if line}
    assert result.code == 0
    assert lines["gain"] == ["2.0", "--set", "gain"]
    assert lines["steps"] == ["none", "default"]
    assert set(lines) == set(CoreOptions.model_fields) | {"plugin", "with", "gain"}
    assert list(here.iterdir()) == []


def test_a_flag_or_a_variable_names_another_plugin_than_the_file(cli, here, monkeypatch):
    path = write(here / "a.json", plugin="no_such_module:X")
    assert printed(cli, "--config", path, "--plugin", LINEAR)["plugin"]["value"] == LINEAR
    monkeypatch.setenv("TOOLKIT_PLUGIN", LINEAR)
    assert printed(cli, "--config", path)["plugin"]["value"] == LINEAR


def test_a_misspelt_variable_is_warned_of_and_not_used(cli, monkeypatch):
    monkeypatch.setenv("TOOLKIT_BATCHSIZE", "3")
    result = cli("run", "--plugin", LINEAR, "--print-config")
    assert result.code == 0
    assert result.err == (
        "warning: TOOLKIT_BATCHSIZE is not used; did you mean TOOLKIT_BATCH_SIZE?\n"
    )


# ------------------------------------------------------------------------------- a run's own config


def test_a_saved_configuration_runs_again_from_another_folder(cli, here, trained, monkeypatch):
    (here / "elsewhere").mkdir()
    monkeypatch.chdir(here / "elsewhere")
    again = cli("run", "--config", trained / "run" / "config.json", "--run-dir", here / "again")
    assert again.code == 0, again.err
    first, second = (
        read_json(trained, "run", "config.json"),
        read_json(here, "again", "config.json"),
    )
    assert second.pop("data") == "npz:../trained/bars.npz"
    assert first.pop("data") == "npz:../bars.npz"
    assert second.pop("folder") == os.path.realpath(str(here / "again"))
    del first["folder"]
    assert first == second
    summaries = [
        read_json(f, "manifest.json")["summary"] for f in (trained / "run", here / "again")
    ]
    assert summaries[0]["test"] == summaries[1]["test"]


def test_every_path_that_a_run_stores_is_relative_but_that_of_its_folder(cli, here):
    argv = ["run", "--plugin", LINEAR, "--data", write_bars("bars.npz"), "--steps", "2"]
    assert cli(*(argv + ["--run-dir", here / "r"])).code == 0
    for name in ("config.json", "manifest.json", "checkpoints/checkpoint"):
        text = (here / "r" / name).read_text()
        if name.endswith(".json"):
            values = json.loads(text)
            text = json.dumps({k: v for k, v in values.items() if k not in ("argv", "folder")})
        assert str(here) not in text, name


class RenamedOptions(LinearOptions):
    strength: float = option(1.0, "a number", aliases=("force_of_it",))


class Renamed(Linear):
    @hookimpl
    def options(self):
        return RenamedOptions


def test_code_that_uses_an_earlier_name_of_an_option_gets_a_warning_with_the_present_one(here):
    data = write_bars("bars.npz")
    with pytest.warns(FutureWarning, match="^Option force_of_it is now called strength.$"):
        opened = toolkit.open_data(Renamed, {"data": data, "force_of_it": 2})
    assert opened.options.strength == 2
