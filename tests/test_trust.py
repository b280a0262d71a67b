"""The code of a stranger: what a run or a configuration cannot make the toolkit execute."""

import importlib.util
import json
import os
import py_compile
import shutil
import subprocess
import sys

import pytest
import test_streams
from file_fixtures import REPOSITORY, edit, read_json
from linear_fixtures import write_bars

import toolkit
from toolkit import ToolkitError, UsageError
from toolkit.child_process import python_code
from toolkit.cli import run_command
from toolkit.plugins import load, trust
from toolkit.plugins.source_files import locate_file

# Each of the stranger's files leaves a file behind when it is executed.
MARK = """
import os
open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "executed"), "a").close()
"""
PLUGIN = """
from stranger_helper import plugin
for name in ("options", "build", "call", "loss", "optimize", "predict", "metrics"):
    globals()[name] = getattr(plugin, name)
"""
HELPER = MARK + "from linear_fixtures import Linear\nplugin = Linear()\n"
PLAIN = "from toolkit import hookimpl\n@hookimpl\ndef run_finished(run, summary): pass\n"
FILES = {
    "stranger.py": MARK + PLUGIN,
    "stranger_helper.py": HELPER,
    "stranger_extension.py": MARK + PLAIN,
}
CLASSIFIER = ["--plugin", "classifier", "--network", "mlp", "--hidden", "4", "--batch-size", "8"]
REFERENCES = {
    "file": ["--plugin", "./stranger.py"],
    "module": ["--plugin", "stranger:"],
    "extension": [*CLASSIFIER, "--with", "./stranger_extension.py"],
}


def begin_process():
    """Forget the stranger's modules, and what is trusted without a record of it."""
    trust._recorded.clear()
    for name in [name for name in sys.modules if "stranger" in name]:
        del sys.modules[name]


@pytest.fixture(scope="module")
def _strangers(tmp_path_factory):
    """Reference -> a folder with a stranger's plugin and a run of it; read-only."""
    root = tmp_path_factory.mktemp("strangers")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(root / "state"))
        patch.setattr(sys, "meta_path", list(sys.meta_path))
        for name, flags in REFERENCES.items():
            (root / name).mkdir()
            patch.chdir(root / name)
            for file, text in FILES.items():
                (root / name / file).write_text(text)
            argv = ["run", *flags, "--data", write_bars("bars.npz"), "--run-dir", "run"]
            argv += ["--steps", "4", "--checkpoint-steps", "2", "--steps-per-call", "1"]
            assert run_command(argv) == 0
            assert os.path.exists("executed")
            os.remove("executed")
            begin_process()
    return root


@pytest.fixture
def user(here, monkeypatch):
    """The state folder of a user who has run nothing yet."""
    monkeypatch.setenv("XDG_STATE_HOME", str(here / "state"))
    yield here / "state"
    begin_process()


@pytest.fixture
def stranger(user, here, monkeypatch, _strangers, request):
    """A copy of a stranger's folder, which is the working directory; tests may name the plugin."""
    reference = getattr(request, "param", "file")
    shutil.copytree(str(_strangers / reference), str(here / "theirs"))
    monkeypatch.chdir(here / "theirs")
    return here / "theirs"


def trust_once(cli):
    """Trust the code of the run, as the user may have done in a process before."""
    assert cli("evaluate", "run", "--trust").code == 0
    os.remove("executed")
    begin_process()


def import_extra(stranger):
    """Let the plugin import a neighbour that may be absent."""
    optional = "try:\n    import stranger_extra\nexcept ImportError:\n    pass\n"
    edit(stranger / "stranger.py", "from stranger_helper", optional + "from stranger_helper")


def was_executed(folder):
    return (folder / "executed").exists()


# --------------------------------------------------------------------------------- what is refused

NEEDS_TRUST = [
    ["resume", "run", "--steps", "6"],
    ["resume", "run", "--print-config"],
    ["resume", "run", "--gain", "2"],
    ["evaluate", "run"],
    ["predict", "run", "bars.npz"],
    ["export", "run", "model"],
    ["sample", "run"],
    ["verify", "run", "--replay", ":"],
    ["verify", "run", "--chaos", "1"],
    ["run", "--config", "run/config.json", "--run-dir", "new"],
    ["run", "--config", "run/config.json", "--print-config", "--json"],
]


@pytest.mark.parametrize("stranger", sorted(REFERENCES), indirect=True)
def test_a_command_refuses_code_that_a_run_names_and_the_user_did_not_run(cli, stranger):
    for argv in NEEDS_TRUST:
        result = cli(*argv)
        assert result.code == 2, (argv, result.err)
        assert not was_executed(stranger), argv
        assert result.err.startswith("Error: run/") and "stranger" in result.err
        assert "code that you have not run before; it was not executed.\n" in result.err
        assert "--trust" in result.err and "trust=True" in result.err
        assert not os.path.exists("new") and not os.path.exists("model")


NEVER_EXECUTES = [
    ["doctor", "run"],
    ["verify", "run"],
    ["resume", "run", "--help"],
    ["sample", "run", "--help"],
    ["evaluate", "run", "--help"],
    ["run", "--config", "run/config.json", "--trust", "--help"],
    ["run", "--config", "run/config.json", "-vh"],
    ["plugins", "list"],
    ["--help"],
]


@pytest.mark.parametrize("stranger", sorted(REFERENCES), indirect=True)
def test_looking_at_a_run_executes_no_code_of_a_stranger(cli, stranger):
    for argv in NEVER_EXECUTES:
        cli(*argv).ok()
        assert not was_executed(stranger), argv


def test_open_trained_refuses_the_code_too(stranger):
    with pytest.raises(UsageError, match="run/config.json names the plugin 'stranger.py'"):
        toolkit.open_trained("run")
    assert not was_executed(stranger)
    with toolkit.open_trained("run", trust=True) as trained:
        assert trained.step == 4


def test_the_doctor_says_what_it_did_not_check(cli, stranger):
    result = cli("doctor", "run")
    assert "data and model fit was not checked: run/config.json names" in result.out
    assert "To check it, add --trust." in result.out


# --------------------------------------------------------------------------------- what is trusted


@pytest.mark.parametrize(
    "argv",
    [
        ["evaluate", "run", "--trust"],
        ["resume", "run", "--steps", "6", "--trust"],
        ["verify", "run", "--replay", ":", "--trust"],
        ["doctor", "run", "--trust"],
        ["run", "--config", "run/config.json", "--run-dir", "new", "--plugin", "stranger.py"],
        ["plugins", "show", "./stranger.py"],
    ],
    ids=" ".join,
)
def test_code_that_the_user_names_or_trusts_is_executed_and_then_known(cli, stranger, argv):
    assert cli(*argv).code == 0
    assert was_executed(stranger)
    begin_process()
    assert cli("evaluate", "run").code == 0


def test_a_link_to_a_plugin_of_the_user_is_not_that_plugin(cli, stranger, here):
    """It would import the neighbours of the link."""
    shutil.move("stranger.py", str(here / "mine.py"))
    os.symlink(str(here / "mine.py"), "stranger.py")
    flags = ["--config", "run/config.json", "--with", here / "mine.py", "--print-config"]
    assert cli("run", *flags).code == 2
    assert not was_executed(stranger) and not was_executed(here)


def test_a_variable_is_the_users_own_choice(cli, stranger, monkeypatch):
    monkeypatch.setenv("TOOLKIT_PLUGIN", "./stranger.py")
    cli("evaluate", "run").ok()
    assert was_executed(stranger)


@pytest.mark.parametrize("file", ["stranger.py", "stranger_helper.py"])
def test_code_that_has_changed_is_refused_again(cli, stranger, file):
    trust_once(cli)
    edit(stranger / file, "import os", "import os  # and more")
    words = f"code that has changed since you ran it ({file}); it was not executed."
    cli.refuse(2, words, "evaluate", "run")
    assert not was_executed(stranger)


def test_the_same_code_in_another_folder_is_known(cli, stranger, here):
    trust_once(cli)
    shutil.copytree(str(stranger), str(here / "moved"))
    assert cli("evaluate", here / "moved" / "run").code == 0


def test_another_neighbour_than_before_is_refused(cli, stranger, here):
    """The same plugin, beside a module that it did not have when the user ran it."""
    import_extra(stranger)
    trust_once(cli)
    (stranger / "stranger_extra.py").write_text(MARK)
    cli.refuse(2, "(stranger_extra.py)", "evaluate", "run")
    assert not was_executed(stranger)


def test_the_same_code_with_fewer_neighbours_is_known(cli, stranger):
    import_extra(stranger)
    (stranger / "stranger_extra.py").write_text("")
    trust_once(cli)
    os.remove("stranger_extra.py")
    assert cli("evaluate", "run").code == 0


def test_a_neighbour_that_no_import_statement_names_is_checked_when_it_is_imported(cli, stranger):
    late = "import importlib\nimportlib.import_module('stranger_late')\n"
    edit(stranger / "stranger_helper.py", "plugin = ", late + "plugin = ")
    (stranger / "stranger_late.py").write_text("")
    trust_once(cli)
    assert cli("evaluate", "run").code == 0
    begin_process()
    (stranger / "stranger_late.py").write_text("open('late', 'w')")
    cli.refuse(2, "stranger_late.py', code that you have not run", "evaluate", "run")
    assert not os.path.exists("late")


@pytest.mark.parametrize("flags, is_trusted", [([], False), (["--trust"], True)])
def test_the_processes_of_chaos_get_trust_from_the_command_alone(
    cli, trained, monkeypatch, flags, is_trusted
):
    commands = []

    def start(command, **settings):
        commands.append(command)
        raise UsageError("enough")

    monkeypatch.setattr(subprocess, "Popen", start)
    assert cli("verify", trained / "run", "--chaos", "1", *flags).code == 2
    assert ("--trust" in commands[0]) == is_trusted


def test_compiled_code_beside_the_source_is_not_executed(cli, stranger):
    """A .pyc file of the same time and size as the source, as Python would accept it."""
    trust_once(cli)
    for name in ("stranger", "stranger_helper"):
        source = stranger / (name + ".py")
        original, status = source.read_text(), os.stat(str(source))
        source.write_text("open('compiled', 'w')".ljust(len(original)))
        os.utime(str(source), ns=(status.st_atime_ns, status.st_mtime_ns))
        py_compile.compile(str(source), importlib.util.cache_from_source(str(source)))
        source.write_text(original)
        os.utime(str(source), ns=(status.st_atime_ns, status.st_mtime_ns))
    assert cli("evaluate", "run").code == 0
    assert not os.path.exists("compiled")


@pytest.mark.parametrize("content", ["{", '{"plugin": 1}\n', '{"plugin": "a"}\n\xff\n'])
def test_a_damaged_record_knows_nothing_and_is_continued(cli, stranger, user, content):
    path = user / "toolkit" / "trusted-plugins.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(content.encode("latin-1") + b"\n")
    path.chmod(0o600)
    assert cli("evaluate", "run").code == 2
    assert not was_executed(stranger)
    trust_once(cli)
    assert cli("evaluate", "run").code == 0


def test_a_record_that_others_can_write_is_ignored(cli, stranger, user):
    trust_once(cli)
    path = trust.record_path()
    os.chmod(path, 0o666)
    assert cli("evaluate", "run").code == 2
    size = os.path.getsize(path)
    assert cli("evaluate", "run", "--trust").code == 0
    assert os.path.getsize(path) == size  # an entry that does not count is not added
    begin_process()
    os.chmod(path, 0o600)
    assert cli("evaluate", "run").code == 0


@pytest.mark.parametrize("home", [".", "home"])
def test_a_record_in_the_working_directory_is_not_read(cli, stranger, monkeypatch, home):
    """A stranger could have written it, beside the plugin that it names."""
    trust_once(cli)
    folder = stranger / home / ".local" / "state" / "toolkit"
    folder.mkdir(parents=True)
    shutil.copy(trust.record_path(), str(folder))
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", home)
    assert cli("evaluate", "run").code == 2
    size = os.path.getsize(str(folder / "trusted-plugins.jsonl"))
    assert cli("evaluate", "run", "--trust").code == 0  # without a record on disk
    assert os.path.getsize(str(folder / "trusted-plugins.jsonl")) == size


def test_a_state_folder_that_cannot_be_written_only_has_no_memory(cli, stranger, user):
    user.write_text("a file")
    trust_once(cli)
    assert cli("evaluate", "run").code == 2


@pytest.mark.parametrize("attribute", ["os:system", "antigravity:", "json.tool:main", "sys:exit"])
def test_a_run_cannot_choose_any_module_of_the_installation(cli, stranger, attribute):
    before = set(sys.modules)
    config = dict(read_json("run", "config.json"), plugin=attribute)
    (stranger / "run" / "config.json").write_text(json.dumps(config))
    cli.refuse(2, f"names the plugin '{attribute}'", "evaluate", "run")
    assert not {"antigravity", "json.tool"} & (set(sys.modules) - before)


# -------------------------------------------------------------------------- modules and neighbours


def test_a_neighbour_does_not_replace_an_installed_module(user, here):
    (here / "colorsys.py").write_text("open('replaced', 'w')")
    (here / "plain.py").write_text("import colorsys\n" + PLAIN)
    sys.modules.pop("colorsys", None)
    assert hasattr(load("./plain.py", "extension").object.colorsys, "rgb_to_hsv")
    assert not os.path.exists("replaced")


def test_a_neighbour_behind_an_installed_module_is_named(user, here):
    (here / "colorsys.py").write_text("ANSWER = 42")
    (here / "plain.py").write_text("from colorsys import ANSWER\n" + PLAIN)
    with pytest.raises(ToolkitError, match="'colorsys' precedes the file colorsys.py; rename"):
        load("./plain.py", "extension")


def test_neighbours_may_be_packages(user, here):
    (here / "stranger_package" / "inner").mkdir(parents=True)
    (here / "stranger_package" / "__init__.py").write_text("from .inner.part import ANSWER\n")
    (here / "stranger_package" / "inner" / "part.py").write_text("ANSWER = 42\n")
    (here / "plain.py").write_text("import stranger_package.inner.part\n" + PLAIN)
    plugin = load("./plain.py", "extension")
    assert plugin.object.stranger_package.ANSWER == 42
    assert sorted(plugin.sha256()) == [
        "plain.py",
        os.path.join("stranger_package", "__init__.py"),
        os.path.join("stranger_package", "inner", "part.py"),
    ]
    assert load("./plain.py", "extension", named_by="a file").object.stranger_package.ANSWER == 42
    assert not list(here.glob("**/__pycache__"))


def test_the_toolkit_beside_a_plugin_is_no_neighbour_of_it(here):
    """As for a plugin's file in a clone of the toolkit."""
    (here / "toolkit").mkdir()
    (here / "toolkit" / "__init__.py").write_text("")
    (here / "plain.py").write_text(PLAIN)
    assert set(locate_file("plain.py").hashes) == {"plain.py"}


def test_python_m_toolkit_imports_no_module_of_the_working_directory(user, here):
    for name in ("json", "click", "numpy", "toolkit_classifier", "sitecustomize"):
        (here / (name + ".py")).write_text("open('replaced', 'w')")
    result = test_streams.toolkit("", "plugins", "show", "classifier")
    assert result.returncode == 0, result.stderr
    assert not os.path.exists("replaced")


def test_a_child_has_the_working_directory_on_its_path_only_where_the_user_named_it(
    here, monkeypatch
):
    monkeypatch.setattr(sys, "path", ["", str(here)])  # of a python -c with PYTHONPATH=.
    assert python_code("pass") == f"import sys; sys.path[:] = {[str(here), REPOSITORY]!r}; pass"
