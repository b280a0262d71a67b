"""New plugins of each kind, installed in a fresh environment beside the wheel of toolkit."""

import re

import pytest

PLUGINS = {"fresh-model": "model", "fresh_extension": "extension", "fresh": "command"}
RUN = ["run", "--plugin", "fresh-model", "--with", "fresh_extension", "--steps", 100]


@pytest.fixture(scope="module")
def environment(installed, tmp_path_factory):
    """An environment with a new plugin of each kind, installed as their READMEs say."""
    environment = installed.layer(tmp_path_factory.mktemp("kit"), installed.work)
    environment.toolkit(
        *(["plugins", "new", name, "--kind", kind] for name, kind in PLUGINS.items())
    )
    folders = [word for name in PLUGINS for word in ("-e", name)]
    environment.run("-m", "pip", "install", "--no-deps", "--no-build-isolation", *folders)
    return environment


@pytest.fixture(scope="module")
def results(environment):
    """What commands with the plugins print, in the order in which they are given."""
    commands = {
        "list": ["plugins", "list", "--json"],
        "run": [*RUN, "--run-dir", "run", "--json"],
        "read": ["fresh", "run", "--count", 3, "--json"],
        "sample": ["plugins", "new", "fresh-vae", "--from", "vae", "--json"],
    }
    return dict(zip(commands, environment.toolkit(*commands.values())))


def test_pip_and_toolkit_list_the_new_plugins(environment, results):
    packages = environment.run("-m", "pip", "list").out
    assert len(re.findall(r"(?m)^toolkit-fresh", packages)) == 3 and "UNKNOWN" not in packages
    rows = results["list"].json()
    plugins = {row["name"]: (row["kind"], row["state"]) for row in rows if row["name"] in PLUGINS}
    assert plugins == {name: (kind, "ok") for name, kind in PLUGINS.items()}


def test_the_wheel_has_the_samples_from_which_a_model_may_start(results):
    assert "toolkit_fresh_vae/network.py" in results["sample"].json()["files"]


def test_the_new_model_trains_with_the_new_extension(results):
    accuracy = results["run"].json()["test"]["metrics"]["accuracy"]
    assert accuracy > 0.5  # ten digits; guessing: 0.1; after 100 steps: 0.9


def test_the_new_command_reads_the_run(results):
    assert results["read"].json()["probabilities"]["shape"] == [3, 10]


@pytest.mark.parametrize("name", PLUGINS)
def test_the_tests_of_a_new_plugin_pass(environment, name):
    printed = environment.run("-m", "pytest", "-q", "-p", "no:cacheprovider", folder=name).out
    assert re.search(r"\d+ passed", printed) and "failed" not in printed
