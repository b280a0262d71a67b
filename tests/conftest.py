"""Fixtures for all tests: a fresh graph, the command line in this process, a trained run."""

import os
import resource
import shutil
import signal
import sys

import pytest

import toolkit
from toolkit.cli import run_command
from toolkit.display import waits

sys.path.insert(0, os.path.dirname(__file__))

import meter  # noqa: E402
import process_fixtures  # noqa: E402
import tiers  # noqa: E402
from environment_fixtures import _folder_of_environment, installed  # noqa: E402, F401
from file_fixtures import forget_modules  # noqa: E402
from linear_fixtures import LINEAR, write_bars  # noqa: E402
from workers import count_workers  # noqa: E402

# A shell ignores Ctrl-C for its jobs in the background, nohup the end of its terminal, and so would
# the processes that tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


waits.DELAY_SECS = process_fixtures.PATIENCE  # on a busy machine, more lines would appear


def pytest_addoption(parser):
    group = parser.getgroup("tiers")
    group.addoption(
        "--tier",
        help="quick, ci, long or several with commas; by default quick, all where a path is named",
    )
    group.addoption("--save-seconds", metavar="FILE", help="write the CPU seconds of each test")
    group.addoption("--show-seconds", action="store_true", help="print where the CPU time went")


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config):
    """Choose the tiers and, for whole tiers, as many processes as fit the machine."""
    option = config.option
    names_path = config.args_source == config.ArgsSource.ARGS
    if option.tier is None:
        option.tier = ",".join(tiers.TIERS) if names_path else "quick"
    unknown = set(option.tier.split(",")) - set(tiers.TIERS)
    if unknown:
        raise pytest.UsageError(f"--tier {option.tier}: no tier {', '.join(sorted(unknown))}")
    is_worker = "PYTEST_XDIST_WORKER" in os.environ  # which reads the same arguments again
    is_alone = is_worker or names_path or option.collectonly or option.usepdb
    if config.pluginmanager.hasplugin("xdist") and option.numprocesses is None and not is_alone:
        workers = count_workers()
        # Files are whole, since fixtures of a module cost most and some tests follow one another.
        if workers > 1:
            option.numprocesses, option.dist = workers, "loadfile"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Begin with the dearest of the files that are divided among workers."""
    from schedule import DearestFirst

    return DearestFirst(config, log) if config.option.dist == "loadfile" else None


def pytest_configure(config):
    """Add the fixtures of plugins' contracts, which import TensorFlow, where tests are run."""
    is_worker = hasattr(config, "workerinput")
    if is_worker or not getattr(config.option, "numprocesses", None):
        config.pluginmanager.import_plugin("toolkit.testing.fixtures")
    config.pluginmanager.register(meter.Meter(config), "meter")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_teardown(item):
    """Leave no process of a test behind."""
    yield
    process_fixtures.end_test()


def pytest_sessionfinish(session):
    process_fixtures.end_session()


def pytest_collection_modifyitems(config, items):
    """Leave out the tests of other tiers, and those that CI's other Python runs."""
    option = config.option
    share = os.environ.get(tiers.SHARE)
    chosen, others = tiers.select(items, option.tier.split(","), share)
    if others:
        config.hook.pytest_deselected(items=others)
        items[:] = chosen


def pytest_terminal_summary(terminalreporter, config):
    if config.option.tier == "quick":
        terminalreporter.write_line(
            "These were the quick tests. `pytest --tier ci` runs the dearer ones (half an hour), "
            "`./check --long` lists the long ones: CONTRIBUTING.md."
        )


@pytest.fixture(scope="session", autouse=True)
def _one_thread_within_an_op():
    """Use one intra-op thread, like a command that trains a small model.

    The first session decides for the process, and the order of sums depends on the number.
    """
    with toolkit.tf.Graph().as_default():
        config = toolkit.tf.ConfigProto(intra_op_parallelism_threads=1)
        toolkit.tf.Session(config=config).close()


@pytest.fixture(scope="session", autouse=True)
def _turns(tmp_path_factory):
    """Let few tests of all workers start processes at once."""
    own = tmp_path_factory.getbasetemp()  # of a worker it is within that of all
    process_fixtures.share_turns(own.parent if "PYTEST_XDIST_WORKER" in os.environ else own)


@pytest.fixture(scope="session", autouse=True)
def _user_folders(tmp_path_factory):
    """Keep what tests cache, and the plugins that they run, in folders of the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        patch.setenv("TOOLKIT_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture
def graph():
    """A fresh default graph."""
    with toolkit.tf.Graph().as_default() as fresh:
        yield fresh


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty working directory, no options or cluster in the environment; imports are undone."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    for name in list(os.environ):
        if name.startswith(("TOOLKIT_", "TF_CONFIG", "SLURM_")) and name != "TOOLKIT_CACHE":
            monkeypatch.delenv(name)
    yield tmp_path
    forget_modules(tmp_path)


@pytest.fixture
def site(here, monkeypatch):
    """A folder on sys.path, for what pip would install."""
    folder = here / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    return folder


@pytest.fixture
def data(here):
    """Images of bars in the working directory, as `--data` names them."""
    return write_bars("bars.npz")


@pytest.fixture
def full_disk():
    """A function that limits the size of every file, in bytes, as a full disk does."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.fixture
def cli(here, capsys):
    """`cli("run", "--steps", "3")`: how the command ended; also `cli.succeed` and `cli.refuse`."""
    return process_fixtures.Commands(capsys)


@pytest.fixture(scope="session")
def _made_folders():
    """A function and its arguments -> the folder that it has filled."""
    return {}


@pytest.fixture
def made_once(_made_folders, tmp_path_factory, tmp_path):
    """A function that lets another one fill its working directory, and returns a copy of it.

    `made_once(make, 2)` is a folder `made` in `tmp_path`; `make(2)` is called once for all tests.
    """

    def copy(make, *arguments, name="made"):
        key = (make, *arguments)
        if key not in _made_folders:
            folder = tmp_path_factory.mktemp("golden")
            with pytest.MonkeyPatch.context() as patch:
                patch.chdir(folder)
                make(*arguments)
            forget_modules(folder)
            _made_folders[key] = folder
        shutil.copytree(str(_made_folders[key]), str(tmp_path / name))
        return tmp_path / name

    return copy


def _train(*argv):
    write_bars("bars.npz")
    words = ["run", "--data", "npz:bars.npz", "--run-dir", "run", "--steps-per-call", "1"]
    assert run_command([*words, *argv]) == 0


@pytest.fixture
def golden(made_once):
    """A function that trains, once for all tests, and returns a copy of the folder.

    `golden("--steps", 2)` is a folder `trained` in `tmp_path` with a run `run` of the linear plugin
    and its data `bars.npz`. `plugin` names another plugin, `name` the copy. The run makes one step
    per call, which takes two thirds of the time, also where it continues or is replayed.
    """

    def copy(*flags, plugin=LINEAR, name="trained"):
        return made_once(_train, "--plugin", plugin, *map(str, flags), name=name)

    return copy


@pytest.fixture
def trained(golden):
    """The linear plugin after 6 steps, with checkpoints every 2 and the best one.

    `trained / "run"` is the run, `trained / "bars.npz"` its data.
    """
    return golden("--steps", 6, "--best-metric", "accuracy", "--eval-batch-size", 5)


@pytest.fixture
def run(trained):
    return trained / "run"
