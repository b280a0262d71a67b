"""How a run makes its steps: what is asked for, what can be had, and what is faster."""

import io

import numpy as np
import pytest
from file_fixtures import read_json
from graph_fixtures import make_plugin
from linear_fixtures import Linear, bars, write_bars

from toolkit import Hook, Run, Split, hookimpl, testing, tf
from toolkit.compat import VERSION_FAMILY
from toolkit.data.examples import describe
from toolkit.data.resident import ResidentReader
from toolkit.display.console import Console
from toolkit.errors import DivergedError, ToolkitError, UsageError
from toolkit.graph.step_strategy import PLAIN
from toolkit.options import resolve
from toolkit.plugins import Plugins
from toolkit.training import step_mode
from toolkit.training.step_mode import Stepper

ONLY_2 = pytest.mark.skipif(VERSION_FAMILY == "1.15", reason="XLA compiles steps on 2.x alone")
LONG = 10**7  # steps of a run that is worth a trial


@pytest.fixture
def data(tmp_path):
    return write_bars(tmp_path / "bars.npz")


def stepper(plugin=Linear, steps=LONG, **options):
    """A Stepper for a run of so many steps on small data in memory."""
    plugins = Plugins(make_plugin(plugin))
    resolved = resolve(plugins.options(), flags=options).options
    labels = np.arange(40) % 3
    split = Split(bars(labels), labels)
    return Stepper(
        plugins,
        resolved,
        lambda: ResidentReader(split, resolved.batch_size),
        lambda reader, strategy=PLAIN: Run(
            "train", resolved, describe(split), None, steps, strategy
        ),
    )


def form(made):
    """The name of the form in which a Stepping makes its steps."""
    if made.compiled:
        return "xla"
    return "single" if made.graph.loop is None else "loop"


@pytest.fixture
def tried(monkeypatch):
    """`tried(loop, xla)` gives the forms step times, as a trial would; returns those asked for."""

    def give(loop, xla):
        asked = []

        def step_secs(self, stepping, secs):
            asked.append((form(stepping), secs > 0))
            return xla if stepping.compiled else loop

        monkeypatch.setattr(Stepper, "_step_secs", step_secs)
        return asked

    return give


# ----------------------------------------------------------------------------- what is asked for


def test_several_steps_a_call_are_the_default_of_a_short_run():
    made = stepper(steps=100).build()
    assert (form(made), made.note) == ("loop", "")


def test_one_step_a_call_is_no_loop():
    made = stepper(steps_per_call=1).build()
    assert (form(made), made.note) == ("single", "")


@pytest.mark.parametrize("options", [{"xla": "off"}, {"steps_per_call": 1}])
def test_xla_is_not_tried_where_it_is_not_wanted(tried, options):
    asked = tried(loop=1.0, xla=0.1)
    assert not stepper(**options).build().compiled
    assert not asked


@ONLY_2
def test_xla_that_is_wanted_is_compiled_and_not_timed(tried):
    asked = tried(loop=0.1, xla=1.0)
    for given in ({}, {"steps_per_call": 1}, {"steps_per_call": 50}):
        made = stepper(steps=1, xla="on", **given).build()
        assert (form(made), made.note) == ("xla", "the step is compiled by XLA")
    assert asked == [("xla", False)] * 3


@pytest.mark.skipif(VERSION_FAMILY == "2.x", reason="XLA compiles steps there")
def test_xla_is_refused_on_1_15(cli):
    data = write_bars("bars.npz")
    told = cli(
        "run", "--plugin", "linear_fixtures:Linear", "--data", data, "--steps", "3", "--xla", "on"
    )
    assert told.code == 2
    assert "Error: XLA compiles steps on TensorFlow 2.x, not on this one." in told.err
    assert "Traceback" not in told.err


# ------------------------------------------------------------------------------- what is faster


@pytest.mark.parametrize("steps", [1, 500, step_mode.FEWEST_STEPS - 1])
def test_a_short_run_has_no_trial(tried, steps):
    asked = tried(loop=1.0, xla=0.1)
    assert form(stepper(steps=steps).build()) == "loop"
    assert not asked


@ONLY_2
def test_the_steps_that_are_left_decide_whether_a_run_is_short(tried):
    asked = tried(loop=1.0, xla=0.1)
    assert form(stepper(steps=LONG).build(step=LONG - 100)) == "loop"
    assert not asked


@ONLY_2
@pytest.mark.parametrize(
    "secs, options",
    [(0.9 * step_mode.WORTH_SECS / LONG, {}), (1.0, {"max_secs": step_mode.WORTH_SECS - 1})],
    ids=["by its steps", "by --max-secs"],
)
def test_a_run_that_takes_less_than_compiling_is_worth_is_not_compiled(tried, secs, options):
    asked = tried(loop=secs, xla=0.1 * secs)
    assert form(stepper(**options).build()) == "loop"
    assert asked == [("loop", True)]


@ONLY_2
@pytest.mark.parametrize(
    "loop, xla, expected",
    [(1.2, 1.0, "xla"), (1.11, 1.0, "xla"), (1.09, 1.0, "loop"), (1.0, 1.2, "loop")],
)
def test_the_form_that_is_a_tenth_faster_is_taken(tried, loop, xla, expected):
    asked = tried(loop, xla)
    made = stepper().build()
    assert form(made) == expected
    assert made.note == ("the step is compiled by XLA" if expected == "xla" else "")
    assert asked == [("loop", True), ("xla", True)]


def test_on_1_15_nothing_is_tried(tried):
    asked = tried(loop=1.0, xla=0.1)
    made = stepper().build()
    assert form(made) == ("loop" if VERSION_FAMILY == "1.15" else "xla")
    assert bool(asked) == (VERSION_FAMILY == "2.x")


@pytest.fixture
def worth_it(monkeypatch):
    """Every run is long enough for a trial, and any XLA is fast enough."""
    monkeypatch.setattr(step_mode, "FEWEST_STEPS", 0)
    monkeypatch.setattr(step_mode, "WORTH_SECS", 0.0)
    monkeypatch.setattr(step_mode, "TRIAL_SECS", 0.01)
    monkeypatch.setattr(step_mode, "GAIN", 0.0)


@ONLY_2
@pytest.mark.usefixtures("worth_it")
def test_a_trial_times_both_forms():
    assert form(stepper(steps=10).build()) == "xla"


@ONLY_2
@pytest.mark.slow
@pytest.mark.usefixtures("worth_it")
def test_steps_of_a_trial_do_not_count(data, tmp_path):
    tried, asked = str(tmp_path / "tried"), str(tmp_path / "asked")
    testing.train(Linear, tried, data=data, steps=6, evaluate="no")
    testing.train(Linear, asked, data=data, steps=6, evaluate="no", xla="on")
    assert testing.fingerprint(tried) == testing.fingerprint(asked)


@pytest.mark.usefixtures("worth_it")
def test_a_step_that_diverges_in_the_trial_is_told_as_diverged_by_the_run(data, tmp_path):
    class Infinite(Linear):
        @hookimpl
        def loss(self, labels, outputs, run):
            made = tf.cast(run.global_step.read_value(), tf.float32)
            return Linear.loss(self, labels, outputs) + tf.log(1.0 - made)

    with pytest.raises(DivergedError, match="diverged in step 2"):
        testing.train(Infinite, str(tmp_path / "run"), data=data, steps=9, evaluate="no")


# ------------------------------------------------------------------------- what XLA cannot compile


class Texts(Linear):
    """Its loss goes through a text."""

    @hookimpl
    def loss(self, labels, outputs):
        loss = Linear.loss(self, labels, outputs)
        text = tf.strings.as_string(loss)
        return loss + 0 * tf.strings.to_number(text)


class Python(Linear):
    """Its loss goes through Python."""

    @hookimpl
    def loss(self, labels, outputs):
        loss = Linear.loss(self, labels, outputs)
        zero = tf.py_func(lambda: np.float32(0), [], tf.float32)
        zero.set_shape([])
        return loss + tf.stop_gradient(zero)


class Ragged(Linear):
    """An output of a shape that is known only when it runs."""

    @hookimpl
    def call(self, model, features, run):
        outputs = Linear.call(self, model, features, run)
        return dict(outputs, light=tf.boolean_mask(outputs["flat"], outputs["flat"] > 0.5))


@ONLY_2
@pytest.mark.parametrize("plugin", [Texts, Python, Ragged])
def test_what_xla_cannot_compile_is_told_in_one_sentence_where_it_was_asked_for(cli, plugin):
    argv = [
        "run",
        "--plugin",
        "test_step_mode:" + plugin.__name__,
        "--data",
        write_bars("bars.npz"),
    ]
    told = cli(*argv, "--steps", "3", "--xla", "on")
    assert told.code == 2
    lines = [line for line in told.err.split("\n") if line.strip()]
    assert lines[-2].startswith("Error: XLA cannot compile the step: ")
    assert lines[-1].strip() == "Set --xla off."
    assert "Traceback" not in told.err


@ONLY_2
@pytest.mark.usefixtures("worth_it")
@pytest.mark.parametrize("plugin", [Texts, Python, Ragged])
def test_what_xla_cannot_compile_is_looped_without_a_word_where_it_was_not(plugin):
    made = stepper(plugin, steps=10).build()
    assert (form(made), made.note) == ("loop", "")


@pytest.mark.parametrize("plugin", [Texts, Python, Ragged])
def test_what_xla_cannot_compile_is_exact_in_a_loop(data, tmp_path, plugin):
    one, many = str(tmp_path / "one"), str(tmp_path / "many")
    for run, number in ((one, 1), (many, 5)):
        testing.train(plugin, run, data=data, steps=8, evaluate="no", steps_per_call=number)
    assert testing.fingerprint(one) == testing.fingerprint(many)


# ------------------------------------------------------------------------ what a loop cannot hold


class Loopless(Linear):
    """It looks whether it is in a loop, and refuses that."""

    @hookimpl
    def call(self, model, features, run):
        if tf.get_default_graph()._get_control_flow_context() is not None:
            raise ValueError("no loops here, please")
        return Linear.call(self, model, features, run)


class Keeper(Linear):
    """It keeps a tensor of `call`; a hook of the session fetches it."""

    @hookimpl
    def call(self, model, features, run):
        outputs = Linear.call(self, model, features, run)
        self.kept = tf.reduce_mean(outputs["logits"])
        return outputs

    @hookimpl
    def session_hooks(self):
        self.hook = Fetching(self.kept)
        return [self.hook]


class Maker(Keeper):
    """Its hook `session_hooks` makes an op of the tensor that it kept."""

    @hookimpl
    def session_hooks(self):
        self.hook = Fetching(2.0 * self.kept)
        return [self.hook]


class Fetching(Hook):
    """Keeps what it fetches in every third step."""

    def __init__(self, tensor):
        self.tensor, self.seen = tensor, {}

    def next_step(self, step):
        return step - step % 3 + 3

    def is_due(self, step):
        return step % 3 == 0

    def fetches(self):
        return self.tensor

    def on_step(self, step, values, context):
        self.seen[step] = float(values)


def told(plugin, run, **options):
    """The lines that a run says."""
    stream = io.StringIO()
    options = dict({"steps": 8, "evaluate": "no"}, **options)
    testing.train(plugin, run, console=Console(stream, every_secs=1e9), **options)
    return stream.getvalue().split("\n")


@pytest.mark.parametrize(
    "plugin, why", [(Loopless, "no loops here, please"), (Maker, "is in a while loop")]
)
def test_a_step_that_no_loop_can_hold_is_made_alone_and_the_note_says_why(
    data, tmp_path, plugin, why
):
    run, asked = str(tmp_path / "run"), str(tmp_path / "asked")
    (note,) = [line for line in told(plugin, run, data=data) if line.startswith("note")]
    assert note.startswith("note   one step a call; a loop of steps cannot be built: ")
    assert why in note
    assert not [
        line for line in told(plugin, asked, data=data, steps_per_call=1) if line[:4] == "note"
    ]
    assert testing.fingerprint(run) == testing.fingerprint(asked)


@pytest.mark.parametrize(
    "plugin, options",
    [
        (Loopless, {"steps_per_call": 50}),
        (Maker, {"steps_per_call": 50}),
        (Loopless, {"xla": "on"}),
    ],
)
def test_where_several_steps_a_call_were_asked_for_that_is_refused(data, tmp_path, plugin, options):
    if "xla" in options and VERSION_FAMILY == "1.15":
        pytest.skip("XLA is refused there in any case")
    with pytest.raises(UsageError) as caught:
        testing.trainer(plugin, str(tmp_path / "run"), data=data, steps=8, **options)
    assert caught.value.exit_code == 2
    if "xla" not in options:
        assert str(caught.value).startswith("--steps-per-call is 50, but a loop of steps cannot")
        assert caught.value.hint == "Leave it at auto, or set it to 1."


def test_what_a_plugin_itself_does_wrong_is_told_as_that(data, tmp_path):
    class Wrong(Linear):
        @hookimpl
        def call(self, model, features, run):
            raise KeyError("of the plugin")

    for options in ({}, {"steps_per_call": 50}, {"steps_per_call": 1}):
        with pytest.raises(ToolkitError, match="failed in its hook 'call': KeyError") as caught:
            testing.trainer(Wrong, str(tmp_path / "run"), data=data, steps=8, **options)
        assert caught.value.exit_code == 1


def test_a_tensor_within_the_loop_that_a_hook_fetches_is_told_with_the_way_out(data, tmp_path):
    class Kept(Keeper):
        pass

    with pytest.raises(ToolkitError, match="'kept' fetches '.*', which is within the loop") as said:
        testing.train(Kept, str(tmp_path / "run"), data=data, steps=8, evaluate="no")
    assert "--steps-per-call 1" in said.value.hint
    single = str(tmp_path / "single")
    testing.train(Kept, single, data=data, steps=8, evaluate="no", steps_per_call=1)


@ONLY_2
@pytest.mark.slow
@pytest.mark.usefixtures("worth_it")
def test_a_hook_that_keeps_a_tensor_of_the_step_is_told_of_it_where_xla_is_faster(data, tmp_path):
    with pytest.raises(ToolkitError, match="which is within the loop of steps") as caught:
        told(Maker, str(tmp_path / "run"), data=data)
    assert caught.value.hint.endswith("or set --steps-per-call 1.")


# ------------------------------------------------------------------------ what a resume keeps to


def compiled(run):
    return read_json(run, "manifest.json")["xla"]


@ONLY_2
@pytest.mark.slow
def test_a_run_that_was_compiled_stays_so_and_one_that_was_not_too(data, tmp_path, monkeypatch):
    options = {"data": data, "evaluate": "no"}
    plain, xla = str(tmp_path / "plain"), str(tmp_path / "xla")
    testing.train(Linear, plain, steps=4, **options)  # too short for a trial
    with monkeypatch.context() as patch:
        patch.setattr(step_mode, "FEWEST_STEPS", 0)
        patch.setattr(step_mode, "WORTH_SECS", 0.0)
        patch.setattr(step_mode, "GAIN", 0.0)
        testing.train(Linear, xla, steps=4, **options)
        assert (compiled(plain), compiled(xla)) == (False, True)
        testing.train(Linear, plain, steps=8)  # would be compiled if it were new
    testing.train(Linear, xla, steps=8)  # would not be
    assert (compiled(plain), compiled(xla)) == (False, True)
    whole = str(tmp_path / "whole")
    testing.train(Linear, whole, steps=8, xla="on", **options)
    assert testing.fingerprint(xla) == testing.fingerprint(whole)


@ONLY_2
@pytest.mark.parametrize(
    "began, options, expected",
    [
        (True, {}, "xla"),
        (True, {"steps_per_call": 1}, "xla"),
        (True, {"xla": "off"}, "loop"),
        (False, {}, "loop"),
        (False, {"xla": "on"}, "xla"),
    ],
)
def test_a_resume_keeps_to_what_it_began_with_unless_told(tried, began, options, expected):
    asked = tried(loop=1.0, xla=1.0)
    assert form(stepper(**options).build(step=4, compiled=began)) == expected
    assert ("loop", True) not in asked


@pytest.mark.skipif(VERSION_FAMILY == "2.x", reason="XLA compiles steps there")
def test_a_compiled_run_goes_on_in_a_loop_on_1_15():
    assert form(stepper().build(step=4, compiled=True)) == "loop"


def test_a_run_from_before_the_manifest_told_is_taken_for_one_that_was_not_compiled(
    data, tmp_path, monkeypatch
):
    from toolkit.storage.run_folder import RunFolder

    run = str(tmp_path / "run")
    testing.train(Linear, run, data=data, steps=4, evaluate="no")
    folder = RunFolder(run)
    manifest = {n: v for n, v in folder.read_manifest().items() if n != "xla"}
    monkeypatch.setattr(RunFolder, "read_manifest", lambda self: dict(manifest))
    made = testing.trainer(Linear, run, steps=LONG)
    assert form(made._stepping) == "loop"
    made.close()
