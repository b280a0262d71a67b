"""How a run makes its steps: the mode that the options, the plugin and the speed allow."""

import pytest
from graph_fixtures import make_plugin
from hook_fixtures import ONLY_2, Fetch
from linear_fixtures import LINEAR, Linear, write_bars

import toolkit
from toolkit import hookimpl, testing, tf
from toolkit.compat import VERSION_FAMILY
from toolkit.errors import DivergedError, UsageError
from toolkit.graph.replica import Replica
from toolkit.graph.step_strategy import AsynchronousStep
from toolkit.options import resolve
from toolkit.plugins import Plugins
from toolkit.run_data import open_run_data
from toolkit.storage.run_folder import RunFolder
from toolkit.training import step_mode
from toolkit.training.peers import Place
from toolkit.training.setup import Job
from toolkit.training.step_mode import PlanBuilder

ONLY_1 = pytest.mark.skipif(VERSION_FAMILY == "2.x", reason="XLA compiles steps there")
LONG = 10**7  # steps of a run that is worth a trial


@pytest.fixture
def plan_builder(here):
    """`plan_builder(plugin, steps, **options)`: a PlanBuilder for a run on small data in memory."""
    data = write_bars("bars.npz")

    def make(plugin=Linear, steps=LONG, place=Place, **options):
        plugins = Plugins(make_plugin(plugin))
        values = dict(options, steps=steps, data=data, batch_size=8)
        resolved = resolve(plugins.options(), flags=values)
        job = Job(plugins, resolved, RunFolder("run", is_new=True), {}, [])
        return PlanBuilder(job, open_run_data(plugins, resolved.options), place(resolved.options))

    return make


@pytest.fixture
def trial_times(monkeypatch):
    """`trial_times(loop, xla)` sets the step times of trials; returns the list of trials."""

    def set_times(loop, xla):
        trials = []

        def time_step(self, plan, secs):
            trials.append((plan.mode, secs > 0))
            return xla if plan.is_compiled else loop

        monkeypatch.setattr(PlanBuilder, "_time_step", time_step)
        return trials

    return set_times


@pytest.mark.parametrize(
    "options, steps, step, mode",
    [
        ({}, step_mode.MIN_STEPS - 1, 0, "loop"),
        ({}, LONG, LONG - 100, "loop"),
        ({"xla": "off"}, LONG, 0, "loop"),
        ({"steps_per_call": 1}, LONG, 0, "single"),
        pytest.param({}, LONG, 0, "loop", marks=ONLY_1),
    ],
)
def test_with_few_steps_left_or_without_xla_there_is_no_trial(
    plan_builder, trial_times, options, steps, step, mode
):
    trials = trial_times(loop=1.0, xla=0.1)
    plan = plan_builder(steps=steps, **options).build(step=step)
    assert (plan.mode, plan.note, trials) == (mode, "", [])


@ONLY_2
def test_xla_on_request_is_compiled_and_not_timed(plan_builder, trial_times):
    trials = trial_times(loop=0.1, xla=1.0)
    plan = plan_builder(steps=1, xla="on", steps_per_call=1).build()
    assert (plan.mode, plan.note) == ("xla", "the step is compiled by XLA")
    assert trials == [("xla", False)]


@ONLY_1
def test_xla_is_refused_on_1_15(cli):
    argv = ["--plugin", LINEAR, "--data", write_bars("bars.npz"), "--steps", 3]
    words = "--xla is on, and XLA compiles steps on TensorFlow 2.x, not on this version."
    cli.refuse(2, words, "run", *argv, "--xla", "on")


@ONLY_2
@pytest.mark.parametrize(
    "secs, options",
    [(0.9 * step_mode.MIN_RUN_SECS / LONG, {}), (1.0, {"max_secs": step_mode.MIN_RUN_SECS - 1})],
    ids=["by its steps", "by --max-secs"],
)
def test_a_run_too_short_in_time_to_pay_for_compiling_is_not_compiled(
    plan_builder, trial_times, secs, options
):
    trials = trial_times(loop=secs, xla=0.1 * secs)
    assert plan_builder(**options).build().mode == "loop"
    assert trials == [("loop", True)]


@ONLY_2
@pytest.mark.parametrize("loop, xla, expected", [(1.11, 1.0, "xla"), (1.09, 1.0, "loop")])
def test_xla_is_used_where_it_is_a_tenth_faster(plan_builder, trial_times, loop, xla, expected):
    trials = trial_times(loop, xla)
    plan = plan_builder().build()
    assert plan.mode == expected
    assert plan.note == (
        "the step is compiled by XLA; a timing chose this, so another run of this seed may have "
        "other bits (--xla on or off: the same each time)"
        if expected == "xla"
        else ""
    )
    assert trials == [("loop", True), ("xla", True)]


@pytest.fixture
def always_worthwhile(monkeypatch):
    """Every run is long enough for a trial, and XLA wins at any speed."""
    monkeypatch.setattr(step_mode, "MIN_STEPS", 0)
    monkeypatch.setattr(step_mode, "MIN_RUN_SECS", 0.0)
    monkeypatch.setattr(step_mode, "TRIAL_SECS", 0.01)
    monkeypatch.setattr(step_mode, "MIN_SPEEDUP", 0.0)


@pytest.mark.usefixtures("always_worthwhile")
def test_the_run_reports_the_divergence_of_a_step_that_diverges_in_the_trial(data):
    class Infinite(Linear):
        @hookimpl
        def loss(self, labels, outputs, run):
            step = tf.cast(run.global_step.read_value(), tf.float32)
            return Linear.loss(self, labels, outputs) + tf.log(1.0 - step)

    with pytest.raises(DivergedError, match="diverged in step 2"):
        testing.train(Infinite, "run", data=data, steps=9, evaluate="no")


class LossThroughText(Linear):
    """Its loss is converted to text and back."""

    @hookimpl
    def loss(self, labels, outputs):
        loss = Linear.loss(self, labels, outputs)
        return loss + 0 * tf.strings.to_number(tf.strings.as_string(loss))


class OutputOfUnknownShape(Linear):
    """One of its outputs has a shape that is known only when the step runs."""

    @hookimpl
    def call(self, model, features, run):
        outputs = Linear.call(self, model, features, run)
        return dict(outputs, light=tf.boolean_mask(outputs["flat"], outputs["flat"] > 0.5))


@ONLY_2
@pytest.mark.parametrize("plugin", [LossThroughText, OutputOfUnknownShape])
def test_a_step_that_xla_cannot_compile_gives_a_short_error_with_xla_on(cli, plugin):
    argv = ["--plugin", "test_step_mode:" + plugin.__name__, "--data", write_bars("bars.npz")]
    words = "Error: XLA cannot compile the step: "
    result = cli.refuse(2, words, "run", *argv, "--steps", "3", "--xla", "on")
    lines = [line for line in result.err.split("\n") if line.strip()]
    assert lines[-2].startswith(words) and lines[-1].strip() == "Set --xla off."


@ONLY_2
@pytest.mark.usefixtures("always_worthwhile")
def test_a_step_that_xla_cannot_compile_runs_in_a_loop_without_a_note_by_default(plan_builder):
    plan = plan_builder(LossThroughText, steps=10).build()
    assert (plan.mode, plan.note) == ("loop", "")


class RefusesLoops(Linear):
    """It checks whether it is in a loop, and fails there."""

    @hookimpl
    def call(self, model, features, run):
        if tf.get_default_graph()._get_control_flow_context() is not None:
            raise ValueError("no loops here, please")
        return Linear.call(self, model, features, run)


class DerivesFromStepTensor(Linear):
    """Its session hook fetches what the hook `session_hooks` makes of a tensor of `call`."""

    @hookimpl
    def call(self, model, features, run):
        outputs = Linear.call(self, model, features, run)
        self.mean_logit = tf.reduce_mean(outputs["logits"])
        return outputs

    @hookimpl
    def session_hooks(self):
        return [Fetch(2.0 * self.mean_logit)]


def read_notes(plugin, run, **options):
    """Train; return the notes on the console."""
    lines = []
    toolkit.train(plugin, run, dict(options, steps=8, evaluate="no"), say=lines.append)
    return [line for line in lines if line.startswith("note")]


@pytest.mark.parametrize(
    "plugin, reason",
    [(RefusesLoops, "no loops here, please"), (DerivesFromStepTensor, "is in a while loop")],
)
def test_a_step_that_no_loop_supports_runs_alone_and_a_note_gives_the_reason(data, plugin, reason):
    (note,) = read_notes(plugin, "run", data=data)
    assert note.startswith("note   one step per call; a loop of steps cannot be built: ")
    assert reason in note
    assert not read_notes(plugin, "single", data=data, steps_per_call=1)
    assert testing.fingerprint("run") == testing.fingerprint("single")


@pytest.mark.parametrize(
    "options, flag, hint",
    [
        ({"steps_per_call": 50}, "--steps-per-call is 50", "Leave it at auto, or set it to 1."),
        pytest.param({"xla": "on"}, "--xla is on", "Set --xla off.", marks=ONLY_2),
    ],
)
def test_several_steps_per_call_that_are_impossible_are_refused(data, options, flag, hint):
    with pytest.raises(UsageError, match=f"^{flag}, but a loop of steps cannot be") as error:
        testing.open_trainer(RefusesLoops, "run", data=data, steps=8, **options)
    assert error.value.hint == hint


@ONLY_2
def test_a_resumed_run_is_compiled_if_and_only_if_it_was_before(data, request, monkeypatch):
    options = {"data": data, "evaluate": "no"}
    testing.train(Linear, "plain", steps=4, **options)  # too short for a trial
    request.getfixturevalue("always_worthwhile")
    testing.train(Linear, "xla", steps=4, **options)
    testing.train(Linear, "plain", steps=8)  # would be compiled if it were new
    monkeypatch.setattr(step_mode, "MIN_STEPS", LONG)
    testing.train(Linear, "xla", steps=8)  # would not be compiled if it were new
    for run, expected in (("plain", False), ("xla", True)):
        compiled = [session["compiled"] for session in RunFolder(run).commits.sessions()]
        assert compiled == [expected, expected]


@pytest.mark.parametrize("options", [{"xla": "off"}, pytest.param({}, marks=ONLY_1)], ids=str)
def test_a_compiled_run_continues_in_a_loop_with_xla_off_or_on_1_15(
    plan_builder, trial_times, options
):
    trials = trial_times(loop=1.0, xla=1.0)
    assert plan_builder(**options).build(step=4, was_compiled=True).mode == "loop"
    assert ("loop", True) not in trials


def test_a_worker_and_no_parameter_server_writes_and_reads_checkpoints(plan_builder):
    worker = "/job:worker/task:0"

    def place(options):
        return Place(options, Replica(0, 1, 8, is_asynchronous=True), AsynchronousStep(worker, 1))

    ops = plan_builder(place=place, steps_per_call=1).build().graph.tf_graph.get_operations()
    devices = {op.type: op.device for op in ops if op.type in ("SaveV2", "RestoreV2")}
    assert len(devices) == 2 and all(each.startswith(worker) for each in devices.values())
