"""`toolkit launch`: its flags and mistakes, and jobs of real training."""

import os

import pytest
from launch_fixtures import starts_of, statements
from process_fixtures import take_turn

from toolkit.cluster.child import child_code

RUN = ["run", "--plugin", "classifier", "--steps", "3"]


@pytest.fixture
def fake(monkeypatch):
    """A function that lets all processes play scripts in place of the command."""

    def install(scripts):
        def code(_):
            take_turn()
            return child_code(statements(scripts))

        monkeypatch.setattr("toolkit.cluster.launcher.child_code", code)

    return install


@pytest.mark.parametrize(
    "argv, message",
    [
        ([], "The command to launch is missing."),
        (["verify", "r"], "'toolkit launch' starts 'run' and 'resume', not 'verify'."),
        ([*RUN, "--cluster={}"], "--cluster is in the command, but 'toolkit launch' sets the task"),
        (["--steps=3", *RUN], "--steps is no option of launch.\nWrite an option of the command"),
        (["resume"], "Missing argument 'RUN'"),
        (["run", "--config", "mine.toml"], "mine.py', code that you have not run before"),
        (["resume", "missing"], "missing does not exist."),
        (["resume", "r", "--from", "2"], "--from creates a new run, which one process alone has"),
        (["run", "--plugin", "clasifier"], "There is no plugin 'clasifier'."),
        ([*RUN, "--steps", "4"], "Both --steps 3 and --steps 4 are set."),
        (["run", "--ps=1", *RUN[1:]], "--ps is an option of launch: write it before 'run'."),
        ([*RUN, "--resume"], "--resume is set, but --run-dir is not"),
        ([*RUN, "--run-dir", "r", "--resume", "--force"], "Both --resume and --force are set"),
        (["--workers", "0", *RUN], "Invalid value for '--workers'"),
        (["--chaos-seed", "5", *RUN], "--chaos-seed is set, but --chaos is not."),
    ],
    ids=str,
)
def test_a_mistake_is_reported_once_and_starts_nothing(cli, fake, here, argv, message):
    (here / "mine.toml").write_text('plugin = "./mine.py"')
    (here / "mine.py").write_text("raise SystemExit('executed')")
    fake({})
    result = cli.refuse(2, message, "launch", *argv)
    assert result.out == "" and result.err.count("Error: ") == 1
    assert sorted(os.listdir(".")) == ["mine.py", "mine.toml"]


def test_all_processes_and_restarts_have_one_folder(cli, fake):
    fake({"chief": "if start == 1: sys.exit(138)", "worker 0": "if start == 1: sys.exit(138)"})
    cli.succeed("launch", "--", *RUN)
    first, again = starts_of("chief")
    assert starts_of("worker 0") == [first, again]
    assert again == first + " --resume"
    assert first.startswith("run --run-dir runs/classifier/") and first.endswith("--steps 3")


def test_a_restart_replaces_a_run_that_no_process_has_replaced_yet(cli, fake, here):
    (here / "r").mkdir()
    (here / "r" / "config.json").write_text("{}")
    replace = "os.rename('r', 'r.old'); os.mkdir('r'); open('r/config.json', 'w').close(); "
    fake({"chief": f"if start == 2: {replace}\nsys.exit(138)"})
    result = cli("launch", "--workers", 1, "--restarts", 2, *RUN, "--run-dir", "r", "--force")
    first, second, third = starts_of("chief")
    assert first == second == " ".join([*RUN, "--run-dir r --force"])
    assert third == " ".join([*RUN, "--run-dir r --resume"])
    assert "Continue with: toolkit launch --workers 1 -- resume r" in result.err


def test_a_launch_that_has_replaced_no_run_does_not_say_how_to_continue_it(cli, fake, here):
    (here / "r").mkdir()
    (here / "r" / "config.json").write_text("{}")
    fake({"chief": "sys.exit(138)"})
    result = cli("launch", "--workers", 1, "--restarts", 0, *RUN, "--run-dir", "r", "--force")
    assert result.code == 138 and "Continue with" not in result.err


def test_the_environment_may_name_the_folder(cli, fake, monkeypatch):
    monkeypatch.setenv("TOOLKIT_RUN_DIR", "mine")
    fake({})
    cli.succeed("launch", *RUN)
    assert starts_of("chief") == ["run --run-dir mine --plugin classifier --steps 3"]


def test_variables_of_a_task_do_not_reach_the_processes_and_a_named_folder_stays(
    cli, fake, monkeypatch
):
    monkeypatch.setenv("TF_CONFIG", "nonsense")
    monkeypatch.setenv("TOOLKIT_TASK", "worker:7")
    fake({"chief": "say(os.environ.get('TOOLKIT_TASK'))"})
    assert "chief    | None\n" in cli.succeed("launch", *RUN, "--run-dir=mine").err
    assert starts_of("chief") == [" ".join([*RUN, "--run-dir=mine"])]


def test_an_interrupted_job_says_how_to_continue(cli, fake):
    os.mkdir("my run")
    open("my run/config.json", "w").close()
    fake({"*": "sys.exit(138)"})
    command = "launch   | Continue with: toolkit launch --workers 2 --ps 1 -- resume 'my run'\n"
    cli.refuse(138, command, "launch", "--restarts", 0, "--ps", 1, *RUN, "--run-dir", "my run")
