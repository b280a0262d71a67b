"""Configuration files, the paths in them, which count from their folder, and runs that moved."""

from __future__ import annotations

import json
import os
import shutil

import pytest
from file_fixtures import read_json
from linear_fixtures import LINEAR, write_bars
from run_fixtures import write_plugin

from toolkit import Options, UsageError, open_trained, option
from toolkit import config as configuration
from toolkit.options import CoreOptions, find_path, move_start, resolve


def write(path, **values):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(values))
    return path


def printed(cli, *argv):
    """Name -> {"value", "origin"} of `--print-config --json`."""
    return cli("run", *argv, "--print-config", "--json").ok().json()


class WithPaths(Options):
    weights: str = option("auto", "weights to start from", path=True)
    masks: list = option([], "files", path=True)
    either: str = option("none", "a file behind a prefix", path=("file:",))
    other: str = option("classifier", "a plugin", path="reference")


CLASSES = [("paths", WithPaths)]


@pytest.mark.parametrize(
    "name, value, expected",
    [
        ("data", "idx:a/mnist", "idx:sub/a/mnist"),
        ("data", "images:..", "images:."),
        ("data", "npz:/abs/a.npz", "npz:/abs/a.npz"),
        ("weights", "w.npz", "sub/w.npz"),
        ("masks", ["a", "/b"], ["sub/a", "/b"]),
        ("either", "file:c", "file:sub/c"),
        ("other", "./p.py", "sub/p.py"),
        ("other", "p.py", "sub/p.py"),
        ("other", "/abs/p.py", "/abs/p.py"),
        # These are no paths.
        ("data", "mnist5k", "mnist5k"),
        ("either", "c", "c"),
        ("other", "gan", "gan"),
        ("other", "package.module:Plugin", "package.module:Plugin"),
    ],
)
def test_paths_in_a_file_start_at_its_folder_and_names_stay(here, name, value, expected):
    config = configuration.read(str(write(here / "sub" / "a.json", **{name: value})))
    options = resolve(CLASSES, [config]).options
    assert options.model_dump()[name] == expected


def test_the_plugins_in_a_file_start_at_its_folder(here):
    path = write(here / "sub" / "a.json", plugin="./mine.py", **{"with": ["e.py"]})
    read = configuration.read(str(path))
    assert (read.plugin, read.extensions) == ("sub/mine.py", ["sub/e.py"])


def test_paths_that_a_run_saves_start_at_its_folder_and_are_read_again(here):
    options = resolve(CLASSES, flags={"data": "npz:a.npz", "weights": "w.npz"}).options
    folder = str(here / "runs" / "x")
    saved = configuration.run_values("./mine.py", ["ema"], options, folder)
    assert (saved["plugin"], saved["with"]) == ("../../mine.py", ["ema"])
    assert (saved["data"], saved["weights"]) == ("npz:../../a.npz", "../../w.npz")
    assert set(saved) == {"plugin", "with", "folder"} | set(type(options).model_fields)
    assert saved["folder"] == os.path.realpath(folder)
    again = resolve(CLASSES, [configuration.parse_values(folder, saved)]).options
    assert (again.data, again.model_dump()["weights"]) == ("npz:a.npz", "w.npz")


def test_a_path_is_taken_from_the_first_folder_that_has_it(here):
    for folder in ("a", "b"):
        (here / folder).mkdir()
    (here / "b" / "x").write_text("")
    assert find_path("x", [str(here / "a"), str(here / "b")]) == "b/x"
    (here / "a" / "x").write_text("")
    assert find_path("x", [str(here / "a"), str(here / "b")]) == "a/x"
    assert find_path("y", [str(here / "a"), str(here / "b")]) == "a/y"
    assert find_path("y", []) == "y"


def test_a_path_goes_up_from_where_a_link_leads(here):
    (here / "deep" / "er").mkdir(parents=True)
    (here / "link").symlink_to(here / "deep" / "er")
    assert find_path("../x", [str(here / "link")]) == "deep/x"
    assert find_path("link/../x", [str(here)]) == "deep/x"
    assert move_start("link/../x", str(here), str(here / "link")) == "../x"
    assert move_start("link", str(here), str(here)) == "link"


def test_a_home_folder_is_spelled_out(monkeypatch):
    monkeypatch.setenv("HOME", "/home/ada")
    assert move_start("~/a.npz", "/base", "/run") == "/home/ada/a.npz"
    assert find_path("~/a.npz", ["/base"]) == "/home/ada/a.npz"


@pytest.mark.parametrize(
    "name, value", [("plugin", 3), ("plugin", "\ud800"), ("with", "one"), ("with", [5])]
)
def test_plugin_is_a_name_with_a_list(here, name, value):
    with pytest.raises(UsageError, match="'plugin' is one name and 'with' a list of names"):
        configuration.read(str(write(here / "a.json", **{name: value})))


@pytest.mark.parametrize(
    "name, text",
    [("a.json", '{"steps": 5, "steps": 9}'), ("a.toml", "batch-size = 5\nbatch_size = 9\n")],
)
def test_two_values_for_one_option_in_one_file_are_refused(here, name, text):
    (here / name).write_text(text)
    with pytest.raises(UsageError, match="' is set twice: to 5 and to 9"):
        configuration.read(str(here / name))


def test_nan_is_set_once(here):
    (here / "a.toml").write_text("seed = nan\n")
    assert list(configuration.read(str(here / "a.toml")).values) == ["seed"]


def test_every_layer_shows_in_print_config_with_its_origin(cli, here, monkeypatch):
    (here / "a.toml").write_text(
        f'plugin = "{LINEAR}"\ncheckpoint_steps = 3\nseed = 2\nlog_steps = 2\n'
    )
    (here / "b.toml").write_text("seed = 3\nlog_steps = 3\n")
    monkeypatch.setenv("TOOLKIT_LOG_STEPS", "4")
    monkeypatch.setenv("TOOLKIT_STEPS", "4")
    files = ["--config", "a.toml", "--config", "b.toml"]
    rows = printed(cli, "--plugin", LINEAR, *files, "--steps", "5")
    assert rows["plugin"]["value"] == LINEAR
    assert rows["clip"] == {"value": "value", "origin": "default"}
    assert rows["batch_size"] == {"value": 8, "origin": "plugin Linear"}
    assert rows["checkpoint_steps"] == {"value": 3, "origin": "a.toml"}
    assert rows["seed"] == {"value": 3, "origin": "b.toml"}
    assert rows["log_steps"] == {"value": 4, "origin": "TOOLKIT_LOG_STEPS"}
    assert rows["steps"] == {"value": 5, "origin": "flag --steps"}


def test_print_config_as_text_has_one_line_per_option_and_leaves_nothing(cli, here):
    result = cli("run", "--plugin", LINEAR, "--print-config", "--gain", "2").ok()
    lines = {line.split()[0]: line.split()[1:] for line in result.out.split("\n") if line}
    assert lines["gain"] == ["2.0", "flag", "--gain"]
    assert lines["steps"] == ["none", "default"]
    assert set(lines) == set(CoreOptions.model_fields) | {"plugin", "with", "gain"}
    assert list(here.iterdir()) == []


def test_a_flag_or_a_variable_names_another_plugin_than_the_file(cli, here, monkeypatch):
    path = write(here / "a.json", plugin="no_such_module:X")
    assert printed(cli, "--config", path, "--plugin", LINEAR)["plugin"]["value"] == LINEAR
    monkeypatch.setenv("TOOLKIT_PLUGIN", LINEAR)
    assert printed(cli, "--config", path)["plugin"]["value"] == LINEAR
    monkeypatch.setenv("TOOLKIT_PLUGIN", "")  # as a script leaves one that has no value
    path = write(here / "b.json", plugin=LINEAR)
    assert printed(cli, "--config", path)["plugin"]["value"] == LINEAR


@pytest.mark.parametrize("name", ["folder", "origins"])
def test_what_only_a_run_writes_is_no_option_of_a_person(cli, here, name):
    path = write(here / "a.json", **{name: "runs"})
    cli.refuse(2, f"There is no option '{name}' (", "run", LINEAR, "--config", path)


def test_a_misspelt_variable_is_warned_of_and_not_used(cli, monkeypatch):
    monkeypatch.setenv("TOOLKIT_BATCHSIZE", "3")
    monkeypatch.setenv("TOOLKIT_CACHE", "cache")  # which is read elsewhere
    warning = "warning: TOOLKIT_BATCHSIZE is not used; did you mean TOOLKIT_BATCH_SIZE?\n"
    assert cli("run", "--plugin", LINEAR, "--print-config").ok().err == warning


def test_a_saved_configuration_runs_again_from_another_folder(cli, here, trained, monkeypatch):
    (here / "elsewhere").mkdir()
    monkeypatch.chdir(here / "elsewhere")
    cli("run", "--config", trained / "run" / "config.json", "--run-dir", here / "again").ok()
    runs = trained / "run", here / "again"
    first, second = (read_json(run, "config.json") for run in runs)
    assert second.pop("data") == "npz:../trained/bars.npz"
    assert first.pop("data") == "npz:../bars.npz"
    assert second.pop("folder") == os.path.realpath(str(here / "again"))
    del first["folder"]
    assert first == second
    first, second = (read_json(run, "manifest.json")["summary"] for run in runs)
    assert first["test"] == second["test"]


def test_every_path_that_a_run_stores_is_relative_but_that_of_its_folder(trained):
    home = os.path.dirname(read_json(trained, "run", "config.json")["folder"])
    for name in ("config.json", "manifest.json", "checkpoints/checkpoint"):
        text = (trained / "run" / name).read_text()
        if name.endswith(".json"):
            values = json.loads(text)
            text = json.dumps({k: v for k, v in values.items() if k not in ("argv", "folder")})
        assert home not in text, name


# Commands on a run that need its plugin and its data.
COMMANDS = [
    ["evaluate", "RUN"],
    ["resume", "RUN", "--steps", "4"],
    ["doctor", "RUN"],
    ["resume", "RUN", "--print-config"],
    ["run", "--config", "RUN/config.json", "--run-dir", "again", "--trust"],
]


@pytest.fixture
def start(cli, here):
    """A function that trains a run in work/run, with data in data/bars.npz beside it."""
    (here / "data").mkdir()
    write_bars("data/bars.npz")

    def call(data="npz:data/bars.npz", plugin=LINEAR, more=()):
        argv = ["--plugin", plugin, "--data", data, "--run-dir", "work/run", *more]
        cli("run", *argv, "--steps", 2, "--steps-per-call", 1, "--no-evaluate").ok()
        return here / "work" / "run"

    return call


def test_a_run_that_moved_alone_finds_its_data_plugin_and_extension(cli, here, start):
    source = "from toolkit import hookimpl\n@hookimpl\ndef run_finished(): pass\n"
    (here / "nothing.py").write_text(source)
    path = start(plugin=write_plugin(), more=["--with", "./nothing.py"])
    (here / "far" / "away").mkdir(parents=True)
    moved = shutil.move(str(path), str(here / "far" / "away"))
    for words in COMMANDS:
        cli(*[word.replace("RUN", moved) for word in words]).ok()
    with open_trained(moved) as trained:
        assert trained.step == 4
    config = read_json(moved, "config.json")
    assert (config["folder"], config["data"]) == (moved, "npz:../../../data/bars.npz")


@pytest.mark.parametrize("data", ["data/bars.npz", "HERE/data/bars.npz"])
def test_a_run_that_moved_with_its_data_finds_them(cli, here, start, data):
    start("npz:" + data.replace("HERE", str(here)))
    far = here / "far" / "away"
    far.mkdir(parents=True)
    for name in ("work", "data"):
        shutil.move(str(here / name), str(far))
    assert cli("doctor", far / "work" / "run").code == 0
