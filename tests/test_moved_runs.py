"""A run that moved, alone or with its files, or that is reached through a symbolic link."""

from __future__ import annotations

import json
import shutil

import pytest
from file_fixtures import read_json
from linear_fixtures import LINEAR, write_bars
from run_fixtures import write_plugin

from toolkit import Options, open_trained, option
from toolkit.config import parse_values, run_values
from toolkit.options import find_path, move_start, resolve

RUN = ["run", "--plugin", LINEAR, "--steps", "2", "--run-dir", "work/run"]
# Commands on a run that need its data.
COMMANDS = [
    ["evaluate", "RUN"],
    ["resume", "RUN", "--steps", "4"],
    ["doctor", "RUN"],
    ["resume", "RUN", "--print-config"],
    ["run", "--config", "RUN/config.json", "--run-dir", "again", "--trust"],
]


@pytest.fixture
def run(cli, here):
    """A run in work/run, with data in data/bars.npz beside it."""
    (here / "data").mkdir()
    write_bars("data/bars.npz")
    result = cli(*RUN, "--data", "npz:data/bars.npz")
    assert result.code == 0, result.err
    return here / "work" / "run"


def check_commands(cli, path):
    for words in COMMANDS:
        result = cli(*[word.replace("RUN", str(path)) for word in words])
        assert result.code == 0, (words, result.err)


def test_a_run_that_moved_alone_finds_its_data(cli, here, run):
    (here / "far" / "away").mkdir(parents=True)
    shutil.move(str(run), str(here / "far" / "away" / "run"))
    check_commands(cli, here / "far" / "away" / "run")


def test_a_run_that_moved_with_its_data_finds_it(cli, here, run, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    for name in ("work", "data"):
        shutil.move(str(here / name), str(elsewhere / name))
    check_commands(cli, elsewhere / "work" / "run")


def test_a_run_with_an_absolute_path_that_moved_with_its_data_finds_it(
    cli, here, run, tmp_path_factory
):
    argv = list(RUN)
    argv[-1] = "work/absolute"
    assert cli(*argv, "--data", f"npz:{here}/data/bars.npz").code == 0
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    for name in ("work", "data"):
        shutil.move(str(here / name), str(elsewhere / name))
    check_commands(cli, elsewhere / "work" / "absolute")


@pytest.mark.parametrize("place", ["link", "deep/er/link"])
def test_a_run_behind_a_symbolic_link_finds_its_data(cli, here, run, place):
    (here / place).parent.mkdir(parents=True, exist_ok=True)
    (here / place).symlink_to(run)
    check_commands(cli, here / place)
    assert read_json(run, "config.json")["data"] == "npz:../../data/bars.npz"


def test_a_run_is_started_and_resumed_through_a_link_in_its_path(cli, here):
    (here / "deep" / "er").mkdir(parents=True)
    (here / "work").symlink_to(here / "deep" / "er")
    write_bars("bars.npz")
    assert cli(*RUN, "--data", "npz:bars.npz").code == 0
    assert read_json(here, "deep", "er", "run", "config.json")["data"] == "npz:../../../bars.npz"
    check_commands(cli, here / "work" / "run")


def test_a_run_that_moved_alone_finds_its_plugin_and_extension(cli, here):
    write_bars("bars.npz")
    plugin = write_plugin()
    (here / "nothing.py").write_text("")
    argv = ["--with", "./nothing.py", "--data", "npz:bars.npz", "--steps", "2", "--run-dir", "r"]
    assert cli("run", "--plugin", plugin, *argv).code == 0
    (here / "far" / "away").mkdir(parents=True)
    shutil.move(str(here / "r"), str(here / "far" / "away" / "r"))
    check_commands(cli, here / "far" / "away" / "r")
    with open_trained(str(here / "far" / "away" / "r")) as trained:
        assert trained.step == 4


def test_a_resume_writes_where_the_run_is_now(cli, here, run):
    shutil.move(str(run), str(here / "now"))
    assert cli("resume", here / "now", "--steps", 4).code == 0
    config = read_json(here, "now", "config.json")
    assert (config["folder"], config["data"]) == (str(here / "now"), "npz:../data/bars.npz")


# ---------------------------------------------------------------------------------- paths in files


class WithPaths(Options):
    weights: str = option("auto", "weights to start from", path=True, words=("auto", "none"))
    masks: list = option([], "files", path=True)
    either: str = option("none", "a file behind a prefix", path=("file:",))
    other: str = option("classifier", "a plugin", path="reference")


CLASSES = [("paths", WithPaths)]


def resolved(layer):
    return resolve(CLASSES, [layer]).options.model_dump()


def test_paths_of_a_plugins_options_start_at_the_folder_of_their_file(here):
    values = {"weights": "w.npz", "masks": ["a", "/b"], "either": "file:c", "other": "./p.py"}
    config = parse_values(str(here / "sub"), values, "sub/a.toml", is_saved=False)
    options = resolved(config.layer("sub/a.toml"))
    assert options["weights"] == "sub/w.npz"
    assert options["masks"] == ["sub/a", "/b"]
    assert options["either"] == "file:sub/c"
    assert options["other"] == "sub/p.py"


@pytest.mark.parametrize("value", ["auto", "none"])
def test_words_of_a_path_option_are_no_paths(here, value):
    config = parse_values(str(here / "sub"), {"weights": value, "either": "c"}, "a", False)
    assert resolved(config.layer("a"))["weights"] == value
    assert resolved(config.layer("a"))["either"] == "c"
    assert resolved(config.layer("a"))["other"] == "classifier"


def test_a_run_saves_the_paths_of_a_plugin_so_that_it_reads_them_again(here):
    options = resolve(CLASSES, flags={"weights": "w.npz"}).options
    saved = run_values("p", [], options, str(here / "runs" / "r"))
    assert saved["weights"] == "../../w.npz"
    config = parse_values(str(here / "runs" / "r"), saved)
    assert resolved(config.layer("c"))["weights"] == "w.npz"


def test_a_path_that_is_no_text_is_refused_in_a_sentence(here):
    config = parse_values(str(here), {"weights": "a\0b"}, "a.json", False)
    with pytest.raises(Exception, match="Option 'weights' .a.json. is no text that can be a path"):
        resolved(config.layer("a.json"))


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


def test_the_features_of_a_gan_are_found_from_the_file_that_names_them(cli, here):
    (here / "sub").mkdir()
    (here / "sub" / "a.toml").write_text('plugin = "gan"\nfeatures = "run"\n')
    printed = cli("run", "--config", "sub/a.toml", "--print-config", "--json")
    assert json.loads(printed.out)["features"]["value"] == "sub/run"
    printed = cli("run", "--plugin", "gan", "--features", "pixels", "--print-config", "--json")
    assert json.loads(printed.out)["features"]["value"] == "pixels"
