"""`toolkit plugins new`: the files of a new plugin, and names that it refuses."""

import ast
import os
import re

import pytest

from toolkit.cli.plugins.new import SAMPLES, render

KINDS = ["model", "extension", "command"]
FORMS = [*([kind, "classifier"] for kind in KINDS), *(["model", sample] for sample in SAMPLES)]


@pytest.mark.parametrize("kind, sample", FORMS)
def test_the_folder_has_what_its_readme_explains(cli, here, kind, sample):
    result = cli.succeed("plugins", "new", "my-thing", "--kind", kind, "--from", sample)
    folder = here / "my-thing"
    files = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert {"pyproject.toml", "README.md", "setup.py", "tests/test_my_thing.py"} <= files
    explained = set(re.findall(r"(?m)^\| `([^`]+)`", (folder / "README.md").read_text()))
    assert explained == files - {"README.md", "tests/conftest.py"}
    assert "pip install -e my-thing" in result.out
    assert ("plugins check my-thing" in result.out) == (kind != "command")


@pytest.mark.parametrize("kind, sample", FORMS)
@pytest.mark.parametrize("name", ["resnet", "my-long-model_name", "v2"])
def test_the_python_files_are_valid_short_and_complete(name, kind, sample):
    for path, text in render(name, kind, sample).items():
        assert "$" not in text and "my_thing" not in text and "samples/plugins" not in text, path
        assert text.endswith("\n") and not text.endswith("\n\n"), path
        if path.endswith(".py"):
            compile(text, path, "exec")
            assert ast.get_docstring(ast.parse(text)) or path == "tests/conftest.py", path
            if name == "resnet":
                assert max(map(len, text.split("\n"))) <= 100, path


@pytest.mark.parametrize("kind, group", list(zip(KINDS, ["plugins", "extensions", "commands"])))
def test_the_entry_point_names_the_package(kind, group):
    toml = render("my-thing", kind)["pyproject.toml"]
    target = "toolkit_my_thing:command" if kind == "command" else "toolkit_my_thing"
    assert f'[project.entry-points."toolkit.{group}"]\nmy-thing = "{target}"\n' in toml


def test_json_lists_the_files(cli, here):
    facts = cli("plugins", "new", "thing", "--out", "sub", "--json").json()
    assert (facts["folder"], facts["kind"]) == ("sub", "model")
    assert all((here / "sub" / path).is_file() for path in facts["files"])


@pytest.mark.parametrize(
    "name", ["My", "1st", "a b", "a/b", "../a", "a.py", "-a", "a-", "a__b", "é", "class", ""]
)
def test_a_name_that_no_package_can_have_is_refused(cli, here, name):
    cli.refuse(2, "cannot be the name of a plugin.", "plugins", "new", "--", name)
    assert os.listdir(str(here)) == []


@pytest.mark.parametrize(
    "argv, text",
    [
        (["classifier"], "There is a plugin 'classifier' already, of toolkit."),
        (["adopt", "--kind", "command"], "There is a command 'adopt' already"),
        (["extensions"], "There is a package 'toolkit_extensions' already, which the new one"),
        (["toolkit"], "There is a package 'toolkit' already, which the new one would hide."),
        (["run", "--kind", "command"], "There is a command 'run' already, of toolkit."),
        (["thing", "--kind", "layer"], "Invalid value for '--kind'"),
        (["thing", "--kind", "command", "--from", "gan"], "--from gan is a model, and --kind is"),
        (["thing", "--out", "absent/sub"], "No such file or directory."),
    ],
    ids=" ".join,
)
def test_what_cannot_be_is_refused(cli, here, argv, text):
    cli.refuse(2, text, "plugins", "new", *argv)
    assert os.listdir(str(here)) == []


def test_what_is_there_is_not_touched(cli, here):
    (here / "thing").symlink_to("nowhere")
    cli.refuse(2, "thing exists.", "plugins", "new", "thing")
    assert os.listdir(str(here)) == ["thing"]


def test_a_write_that_fails_leaves_nothing(cli, here, monkeypatch):
    def fail(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "rename", fail)
    cli.refuse(138, "thing cannot be written: No space left on device.", "plugins", "new", "thing")
    assert os.listdir(str(here)) == []
