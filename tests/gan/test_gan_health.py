"""Verdicts on records with the failure put in by hand, and the hook that makes the records."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
from graph_fixtures import session
from linear_fixtures import Linear, write_bars
from toolkit_gan import health
from toolkit_gan.health import Health, Record, Verdict, spread, words

# What one look of a healthy run shows: both sides win some, samples vary, and move.
WELL = Record(
    step=0,
    accuracy_real=0.8,
    accuracy_fake=0.75,
    critic_gradient_norm=1.0,
    generator_gradient_norm=0.5,
    spread=0.9,
    class_counts=(50, 45, 55, 50),
    change=0.03,
)
COLLAPSED = {"spread": 0.01}
LOST = {"class_counts": (70, 0, 70, 60)}
SATURATED = {
    "accuracy_real": 1.0,
    "accuracy_fake": 1.0,
    "generator_gradient_norm": 1e-5,
    "change": 1e-3,
}
FROZEN = {"change": 0.0, "generator_gradient_norm": 0.0}


def looks(*changes, every=500):
    """A record per change (a dict, {} for a healthy look), from step `every` on."""
    return [WELL._replace(step=(i + 1) * every, **c) for i, c in enumerate(changes)]


def told(records, judge=None):
    """(step, name) of each verdict."""
    judge = judge or Health(["a", "b", "c", "d"])
    return [(r.step, verdict.name) for r in records for verdict in judge.judge(r)]


def verdict_of(records):
    """The one verdict of the records."""
    judge = Health(["a", "b", "c", "d"])
    (verdict,) = [verdict for r in records for verdict in judge.judge(r)]
    assert isinstance(verdict, Verdict)
    return verdict


# ------------------------------------------------------------------------------------- the verdicts


def test_samples_that_all_look_alike_are_a_total_collapse():
    verdict = verdict_of(looks({}, {}, COLLAPSED, COLLAPSED))
    assert verdict.name == "total-collapse"
    assert "step 2000 they vary 0.010 times as much as real images (up to 0.90 before)" in (
        verdict.sentence
    )
    assert "--penalty r1" in verdict.advice and "--spectral-norm" in verdict.advice


def test_classes_without_samples_are_lost_and_named():
    verdict = verdict_of(looks({}, LOST, LOST, LOST))
    assert verdict.name == "lost-classes"
    assert "lack 1 of 4 classes: 'b' (0 of 200, expected 50)" in verdict.sentence


def test_a_discriminator_that_is_always_right_and_teaches_nothing_is_saturated():
    verdict = verdict_of(looks({}, {}, {}, SATURATED, SATURATED, SATURATED))
    assert verdict.name == "critic-saturated"
    assert "100 % of the real and 100 % of the generated" in verdict.sentence
    assert "gradient norm is 1.0e-05 (usually 5.0e-01)" in verdict.sentence
    assert "--critic-rate" in verdict.advice


def test_samples_that_no_longer_move_without_a_gradient_are_a_frozen_generator():
    verdict = verdict_of(looks({}, FROZEN, FROZEN))
    assert verdict.name == "generator-frozen"
    assert "since step 1000 its samples changed by 0.0e+00" in verdict.sentence
    assert "in step 1500 its gradient norm is 0.0e+00" in verdict.sentence


@pytest.mark.parametrize(
    "failure, name, first",
    [
        (COLLAPSED, "total-collapse", 2500),
        (LOST, "lost-classes", 3000),
        (SATURATED, "critic-saturated", 3000),
        (FROZEN, "generator-frozen", 2500),
    ],
)
def test_a_verdict_is_given_once_and_again_after_it_went_away(failure, name, first):
    once = [{}] * 3 + [failure] * 6
    assert told(looks(*once)) == [(first, name)]
    again = told(looks(*(once + [{}] + [failure] * 6)))
    assert again == [(first, name), (first + 3500, name)]


def test_two_failures_at_once_are_two_verdicts():
    both = dict(COLLAPSED, **LOST)
    assert told(looks({}, both, both, both)) == [(1500, "total-collapse"), (2000, "lost-classes")]


def test_every_verdict_has_a_rule_and_the_reverse():
    everything = dict(COLLAPSED, **LOST, **SATURATED)
    everything.update(FROZEN)
    names = {name for _, name in told(looks(*[{}] * 3 + [everything] * 5))}
    assert names == set(health.RULES)


# ---------------------------------------------------------------------------------- no false alarms


def test_a_healthy_run_is_told_nothing():
    random = np.random.RandomState(0)
    records = [
        WELL._replace(
            step=step,
            accuracy_real=random.uniform(0.5, 1.0),
            accuracy_fake=random.uniform(0.4, 1.0),
            generator_gradient_norm=10 ** random.uniform(-1.5, 0.5),
            spread=random.uniform(0.6, 1.1),
            class_counts=random.multinomial(200, [0.25] * 4),
            change=random.uniform(0.005, 0.1),
        )
        for step in range(100, 20000, 100)
    ]
    assert told(records) == []


@pytest.mark.parametrize("failure", [COLLAPSED, LOST, SATURATED, FROZEN])
def test_an_untrained_run_is_told_nothing(failure):
    early = [WELL._replace(step=step, **failure) for step in range(0, health.WARM_UP, 10)]
    assert told(early + [WELL._replace(step=step) for step in (500, 510, 520)]) == []


@pytest.mark.parametrize("failure", [COLLAPSED, LOST, SATURATED, FROZEN])
def test_a_swing_within_a_few_steps_is_told_nothing(failure):
    records = [WELL._replace(step=step) for step in range(500, 600, 10)]
    records += [WELL._replace(step=600 + step, **failure) for step in range(0, health.SPAN, 10)]
    assert told(records) == []
    assert len(told(records + [WELL._replace(step=600 + health.SPAN, **failure)])) == 1


@pytest.mark.parametrize("failure", [COLLAPSED, LOST, SATURATED, FROZEN])
def test_every_other_look_is_no_row(failure):
    assert told(looks(*[{}, {}, {}, failure] * 10)) == []


def test_a_discriminator_that_is_always_right_but_teaches_is_well():
    right = {
        "accuracy_real": 1.0,
        "accuracy_fake": 1.0,
    }  # Wasserstein discriminators are, and should be
    assert told(looks(*[right] * 20)) == []


def test_a_small_gradient_is_well_while_samples_move():
    # Adam and RMSProp divide a gradient by its usual size.
    assert told(looks(*[dict(SATURATED, change=0.02)] * 20)) == []


def test_a_discriminator_that_was_sure_from_the_start_is_saturated():
    assert told(looks(*[SATURATED] * 10)) == [(1500, "critic-saturated")]


def test_a_gradient_of_a_hundredth_of_the_usual_one_is_lost():
    usual = {"generator_gradient_norm": 50.0}
    faded = dict(SATURATED, generator_gradient_norm=0.4)
    assert told(looks(*[usual] * 3 + [faded] * 3)) == [(3000, "critic-saturated")]
    assert told(looks(*[{}] * 3 + [faded] * 3)) == []


def test_a_slow_start_is_no_collapse():
    # As seen of a Wasserstein discriminator with a low rate: hundreds of steps, and then it rises.
    start = [{"spread": 0.05 + 0.001 * i} for i in range(10)]
    assert told(looks(*start, every=150)) == []


def test_a_start_that_lasts_for_thousands_of_steps_is_a_collapse():
    assert told(looks(*[{"spread": 0.05}] * 10)) == [(2500, "total-collapse")]


def test_samples_that_vary_more_than_reals_are_no_measure_to_fall_from():
    assert told(looks({"spread": 4.0}, *[{"spread": 0.5}] * 5)) == []


def test_a_fall_to_less_than_a_quarter_is_a_collapse_and_to_more_is_none():
    assert told(looks({"spread": 0.8}, *[{"spread": 0.19}] * 2)) == [(1500, "total-collapse")]
    assert told(looks({"spread": 0.8}, *[{"spread": 0.21}] * 2)) == []


def test_samples_that_rest_at_the_end_of_a_schedule_are_well():
    assert told(looks({}, *[{"change": 0.0}] * 10)) == []


def test_few_samples_of_many_classes_cannot_lose_one():
    # 64 samples of ten classes: six of each are expected, by chance there may be none.
    few = {"class_counts": (0, 8, 8, 6, 7, 7, 7, 7, 7, 7)}
    assert told(looks(*[few] * 10), Health()) == []


def test_a_class_that_is_rare_in_the_data_may_be_rare_in_the_samples():
    rare = {"class_counts": (100, 1, 50, 49)}
    assert told(looks(*[rare] * 10), Health("abcd", [0.5, 0.01, 0.25, 0.24])) == []
    assert told(looks(*[rare] * 3), Health("abcd", [0.25] * 4)) == [(1500, "lost-classes")]


@pytest.mark.parametrize("nothing", [None, float("nan")])
def test_what_is_not_known_is_no_failure(nothing):
    unknown = dict.fromkeys(
        ["accuracy_real", "accuracy_fake", "generator_gradient_norm", "spread", "change"], nothing
    )
    assert told(looks(*[dict(unknown, class_counts=None)] * 10)) == []


# -------------------------------------------------------------------------------- words and numbers


def test_words_tell_a_look_in_a_line():
    assert words(WELL._replace(step=500)) == (
        "step 500: the discriminator is right on 80 % of real and 75 % of generated images, samples vary "
        "0.90 times as much as real images, they changed by 0.0300 per pixel, 4 of 4 classes are "
        "seen (50 45 55 50)"
    )


def test_words_leave_out_what_is_not_known():
    assert words(Record(7, spread=0.5)) == "step 7: samples vary 0.50 times as much as real images"
    assert words(Record(7)) == "step 7: nothing to tell"


def test_spread_is_the_deviation_over_images_and_not_within_one():
    striped = np.tile(
        np.array([0.0, 1.0])[None, None, :, None], [8, 2, 1, 1]
    )  # eight times the same
    assert spread(striped) == 0
    halves = np.zeros([8, 2, 2, 1])
    halves[4:] = 1
    assert spread(halves) == 0.5


def test_spread_of_few_images_is_not_known():
    assert spread(np.zeros([7, 2, 2, 1])) is None


def test_health_imports_no_tensorflow():
    code = "import sys, toolkit_gan.health; print('tensorflow' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code]).strip() == b"False"


# ----------------------------------------------------------------------------------------- the hook


class Loop:
    """What a hook may ask of the loop."""

    def __init__(self):
        self.said, self.recorded, self.step = [], [], 0

    def say(self, text):
        self.said.append(text)

    def record(self, values):
        self.recorded.append(json.loads(json.dumps(values)))


class Context:
    def __init__(self, session):
        self.session = session


SCALARS = {
    "discriminator_accuracy_real": np.float32(1),
    "discriminator_accuracy_fake": np.float32(0.5),
    "critic_gradient_norm": np.float32(3),
    "generator_gradient_norm": np.float32(2),
}
REALS = np.tile(np.array([0.0, 1.0], np.float32)[:, None, None, None], [8, 2, 2, 1])  # spread 0.5


def hook_of(samples, reals=REALS, **kwargs):
    """A HealthHook of which each look sees the next of `samples`."""
    from toolkit_gan.monitor import HealthHook

    from toolkit import Every

    rest = iter(samples)
    hook = HealthHook(Every(500), {}, lambda session: next(rest), reals, **kwargs)
    hook.loop = Loop()
    return hook


def look(hook, step, **scalars):
    hook.on_step(step, dict(SCALARS, **scalars), Context(None))


def grey(level=0.5):
    return np.full([16, 2, 2, 1], level, np.float32)


def test_a_look_is_said_with_the_spread_relative_to_the_reals_and_the_change():
    hook = hook_of([REALS / 2, REALS / 2 + 0.25])
    look(hook, 500)
    look(hook, 1000)
    start = "the discriminator is right on 100 % of real and 50 % of generated images, samples vary 0.50 "
    assert hook.loop.said == [
        "step 500: " + start + "times as much as real images",
        "step 1000: " + start + "times as much as real images, they changed by 0.2500 per pixel",
    ]
    assert hook.loop.recorded == []


def test_a_verdict_is_said_and_recorded_with_its_numbers():
    hook = hook_of([REALS, grey(), grey()])
    for step in (500, 1000, 1500):
        look(hook, step)
    (event,) = hook.loop.recorded
    assert (event["step"], event["kind"], event["event"]) == (1500, "event", "health")
    assert (event["verdict"], event["spread"], event["change"]) == ("total-collapse", 0.0, 0.0)
    assert hook.loop.said[-1] == f"warning: {event['sentence']} {event['advice']}"


def test_with_the_state_of_another_it_says_what_that_one_would_have_said():
    samples = [REALS, grey(), grey(), REALS, grey(), grey()]
    whole = hook_of(samples)
    for step in range(2000, 5000, 500):
        look(whole, step)
    first, second = hook_of(samples[:2]), hook_of(samples[2:])
    for step in (2000, 2500):
        look(first, step)
    state = first.state()
    second.set_state({"health": json.loads(json.dumps(state["health"])), "before": state["before"]})
    assert second.state()["health"] == state["health"]
    for step in range(3000, 5000, 500):
        look(second, step)
    assert first.loop.said + second.loop.said == whole.loop.said
    assert first.loop.recorded + second.loop.recorded == whole.loop.recorded
    assert [event["step"] for event in whole.loop.recorded] == [3000, 4500]


def test_without_a_state_it_begins_anew():
    hook = hook_of([REALS] + [grey()] * 3)
    look(hook, 2000)
    look(hook, 2500)
    hook.set_state({})
    look(hook, 3000)  # the first of a new row, and no change is known
    assert hook.loop.recorded == [] and "changed" not in hook.loop.said[-1]
    look(hook, 3500)
    assert [event["verdict"] for event in hook.loop.recorded] == ["total-collapse"]


def test_classes_are_counted_in_samples_and_reals_by_the_same_classifier():
    def classify(images):
        return (images[:, 0, 0, 0] > 0.5).astype(int)

    many = np.repeat(REALS, 10, axis=0)
    hook = hook_of([many * 0] * 3, many, classify=classify, class_names=["dark", "light"])
    for step in (500, 1000, 1500):
        look(hook, step)
    (event,) = [e for e in hook.loop.recorded if e["verdict"] == "lost-classes"]
    assert event["class_counts"] == [160, 0]
    assert "'light' (0 of 160, expected 80)" in event["sentence"]


def test_reals_that_do_not_vary_leave_the_spread_unknown():
    hook = hook_of([grey()] * 3, reals=grey())
    for step in (500, 1000, 1500):
        look(hook, step)
    assert hook.loop.recorded == [] and "vary" not in hook.loop.said[0]


def test_samples_are_drawn_in_a_session_after_the_step():
    from toolkit_gan.monitor import HealthHook

    from toolkit import Every, tf

    v = tf.get_variable("v", initializer=tf.constant(0.0), use_resource=True)
    images = v.read_value() * tf.constant(REALS)
    hook = HealthHook(Every(500), {}, lambda session: session.run(images), REALS)
    hook.loop = Loop()
    with session() as made:
        made.run(tf.group(v.assign(0.5)))
        hook.on_step(500, SCALARS, Context(made))
    assert "samples vary 0.50 times" in hook.loop.said[0]


def test_in_a_run_the_hook_looks_on_due_steps_and_keeps_its_verdicts(tmp_path):
    from toolkit_gan.monitor import HealthHook

    from toolkit import Every, hookimpl, testing, tf

    class Watched(Linear):
        @hookimpl
        def session_hooks(self, run):
            made = run.global_step
            scalars = {name: tf.constant(float(value)) for name, value in SCALARS.items()}
            images = tf.constant(REALS) * tf.cast(made.read_value() < 700, tf.float32)
            self.steps = []

            def samples(session):
                self.steps.append(int(session.run(made)))
                return session.run(images)

            Watched.seen = self.steps
            return [HealthHook(Every(200), scalars, samples, REALS)]

    data, folder = write_bars(tmp_path / "bars.npz"), str(tmp_path / "run")
    testing.train(Watched, folder, data=data, steps=1000, log_steps=1000, checkpoint_steps=1000)
    assert Watched.seen == [200, 400, 600, 800, 1000]
    with open(folder + "/metrics.jsonl", encoding="utf-8") as file:
        records = [json.loads(line) for line in file]
    events = [(r["step"], r["verdict"]) for r in records if r.get("event") == "health"]
    assert events == [(1000, "total-collapse")]
