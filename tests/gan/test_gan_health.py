"""Verdicts on records of known failures, and the hook that makes the records."""

from __future__ import annotations

import json

import numpy as np
import pytest
from graph_fixtures import session
from linear_fixtures import Linear, write_bars
from toolkit_gan import health as rules
from toolkit_gan.health import Health, Record, Verdict, describe, spread

# A record of a healthy run: the discriminator is right and wrong, samples vary and change.
HEALTHY = Record(
    step=0,
    accuracy_real=0.8,
    accuracy_fake=0.75,
    discriminator_gradient_norm=1.0,
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


def make_records(*changes, every=500):
    """A record per change (a dict, {} for a healthy record), from step `every` on."""
    return [HEALTHY._replace(step=(i + 1) * every, **c) for i, c in enumerate(changes)]


def verdicts(records, health=None):
    """(step, name) of each verdict."""
    health = health or Health(["a", "b", "c", "d"])
    return [(r.step, verdict.name) for r in records for verdict in health.judge(r)]


def verdict_of(records):
    """The one verdict of the records."""
    health = Health(["a", "b", "c", "d"])
    (verdict,) = [verdict for r in records for verdict in health.judge(r)]
    assert isinstance(verdict, Verdict)
    return verdict


# ------------------------------------------------------------------------------------- the verdicts


def test_samples_that_all_look_alike_are_a_total_collapse():
    verdict = verdict_of(make_records({}, {}, COLLAPSED, COLLAPSED))
    assert verdict.name == "total-collapse"
    assert "step 2000 they vary 0.010 times as much as real images (up to 0.90 before)" in (
        verdict.sentence
    )
    assert "--penalty r1" in verdict.advice and "--spectral-norm" in verdict.advice


def test_classes_without_samples_are_lost_and_named():
    verdict = verdict_of(make_records({}, LOST, LOST, LOST))
    assert verdict.name == "lost-classes"
    assert "lack 1 of 4 classes: 'b' (0 of 200, expected 50)" in verdict.sentence


def test_a_discriminator_that_is_always_right_without_a_gradient_is_saturated():
    verdict = verdict_of(make_records({}, {}, {}, SATURATED, SATURATED, SATURATED))
    assert verdict.name == "critic-saturated"
    assert "100 % of the real and 100 % of the generated" in verdict.sentence
    assert "gradient norm is 1.0e-05 (usually 5.0e-01)" in verdict.sentence
    assert "--discriminator-rate" in verdict.advice


def test_samples_that_no_longer_change_without_a_gradient_are_a_frozen_generator():
    verdict = verdict_of(make_records({}, FROZEN, FROZEN))
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
def test_a_verdict_is_reported_once_and_again_after_it_ended(failure, name, first):
    once = [{}] * 3 + [failure] * 6
    assert verdicts(make_records(*once)) == [(first, name)]
    again = verdicts(make_records(*(once + [{}] + [failure] * 6)))
    assert again == [(first, name), (first + 3500, name)]


def test_two_failures_at_once_are_two_verdicts():
    both = dict(COLLAPSED, **LOST)
    assert verdicts(make_records({}, both, both, both)) == [
        (1500, "total-collapse"),
        (2000, "lost-classes"),
    ]


def test_every_verdict_has_a_rule_and_the_reverse():
    everything = dict(COLLAPSED, **LOST, **SATURATED)
    everything.update(FROZEN)
    names = {name for _, name in verdicts(make_records(*[{}] * 3 + [everything] * 5))}
    assert names == set(rules.RULES)


# ---------------------------------------------------------------------------------- no false alarms


def test_a_healthy_run_has_no_verdict():
    random = np.random.RandomState(0)
    records = [
        HEALTHY._replace(
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
    assert verdicts(records) == []


@pytest.mark.parametrize("failure", [COLLAPSED, LOST, SATURATED, FROZEN])
def test_an_untrained_run_has_no_verdict(failure):
    early = [HEALTHY._replace(step=step, **failure) for step in range(0, rules.WARM_UP, 10)]
    assert verdicts(early + [HEALTHY._replace(step=step) for step in (500, 510, 520)]) == []


@pytest.mark.parametrize("failure", [COLLAPSED, LOST, SATURATED, FROZEN])
def test_an_oscillation_within_a_few_steps_is_no_verdict(failure):
    records = [HEALTHY._replace(step=step) for step in range(500, 600, 10)]
    records += [HEALTHY._replace(step=600 + step, **failure) for step in range(0, rules.SPAN, 10)]
    assert verdicts(records) == []
    assert len(verdicts(records + [HEALTHY._replace(step=600 + rules.SPAN, **failure)])) == 1


@pytest.mark.parametrize("failure", [COLLAPSED, LOST, SATURATED, FROZEN])
def test_records_that_are_not_in_a_row_are_no_verdict(failure):
    assert verdicts(make_records(*[{}, {}, {}, failure] * 10)) == []


def test_a_discriminator_that_is_always_right_but_has_a_gradient_is_healthy():
    right = {
        "accuracy_real": 1.0,
        "accuracy_fake": 1.0,
    }  # Wasserstein discriminators are, and should be
    assert verdicts(make_records(*[right] * 20)) == []


def test_a_small_gradient_is_healthy_while_samples_change():
    # Adam and RMSProp divide a gradient by its usual size.
    assert verdicts(make_records(*[dict(SATURATED, change=0.02)] * 20)) == []


def test_a_discriminator_that_was_always_right_from_the_start_is_saturated():
    assert verdicts(make_records(*[SATURATED] * 10)) == [(1500, "critic-saturated")]


def test_a_gradient_of_a_hundredth_of_the_usual_one_is_lost():
    usual = {"generator_gradient_norm": 50.0}
    faded = dict(SATURATED, generator_gradient_norm=0.4)
    assert verdicts(make_records(*[usual] * 3 + [faded] * 3)) == [(3000, "critic-saturated")]
    assert verdicts(make_records(*[{}] * 3 + [faded] * 3)) == []


def test_a_slow_start_is_no_collapse():
    # As seen of a Wasserstein discriminator with a low rate: hundreds of steps, and then it rises.
    start = [{"spread": 0.05 + 0.001 * i} for i in range(10)]
    assert verdicts(make_records(*start, every=150)) == []


def test_a_start_that_lasts_for_thousands_of_steps_is_a_collapse():
    assert verdicts(make_records(*[{"spread": 0.05}] * 10)) == [(2500, "total-collapse")]


def test_samples_that_vary_more_than_reals_are_no_measure_to_fall_from():
    assert verdicts(make_records({"spread": 4.0}, *[{"spread": 0.5}] * 5)) == []


def test_a_fall_to_less_than_a_quarter_is_a_collapse_and_to_more_is_none():
    assert verdicts(make_records({"spread": 0.8}, *[{"spread": 0.19}] * 2)) == [
        (1500, "total-collapse")
    ]
    assert verdicts(make_records({"spread": 0.8}, *[{"spread": 0.21}] * 2)) == []


def test_samples_that_no_longer_change_at_the_end_of_a_schedule_are_healthy():
    assert verdicts(make_records({}, *[{"change": 0.0}] * 10)) == []


def test_few_samples_of_many_classes_cannot_lose_one():
    # 64 samples of ten classes: six of each are expected, by chance there may be none.
    few = {"class_counts": (0, 8, 8, 6, 7, 7, 7, 7, 7, 7)}
    assert verdicts(make_records(*[few] * 10), Health()) == []


def test_a_class_that_is_rare_in_the_data_may_be_rare_in_the_samples():
    rare = {"class_counts": (100, 1, 50, 49)}
    assert verdicts(make_records(*[rare] * 10), Health("abcd", [0.5, 0.01, 0.25, 0.24])) == []
    assert verdicts(make_records(*[rare] * 3), Health("abcd", [0.25] * 4)) == [
        (1500, "lost-classes")
    ]


@pytest.mark.parametrize("nothing", [None, float("nan")])
def test_an_unknown_value_is_no_failure(nothing):
    unknown = dict.fromkeys(
        ["accuracy_real", "accuracy_fake", "generator_gradient_norm", "spread", "change"], nothing
    )
    assert verdicts(make_records(*[dict(unknown, class_counts=None)] * 10)) == []


# -------------------------------------------------------------------------------- words and numbers


def test_a_record_is_described_in_a_line():
    assert describe(HEALTHY._replace(step=500)) == (
        "step 500: discriminator accuracy 80 % on real and 75 % on generated images, samples vary "
        "0.90 times as much as real images, mean change per pixel 0.0300, 4 of 4 classes present "
        "(50 45 55 50)"
    )


def test_unknown_values_are_left_out_of_the_description():
    assert (
        describe(Record(7, spread=0.5)) == "step 7: samples vary 0.50 times as much as real images"
    )
    assert describe(Record(7)) == "step 7: nothing to report"


def test_spread_is_the_deviation_over_images_and_not_within_one():
    striped = np.tile(
        np.array([0.0, 1.0])[None, None, :, None], [8, 2, 1, 1]
    )  # eight times the same
    assert spread(striped) == 0
    halves = np.zeros([8, 2, 2, 1])
    halves[4:] = 1
    assert spread(halves) == 0.5


def test_the_spread_of_few_images_is_unknown():
    assert spread(np.zeros([7, 2, 2, 1])) is None


# ----------------------------------------------------------------------------------------- the hook


class Loop:
    """The part of the training loop that the hook uses."""

    def __init__(self):
        self.messages, self.records, self.step = [], [], 0

    def log(self, text):
        self.messages.append(text)

    def record(self, values):
        self.records.append(json.loads(json.dumps(values)))


class Context:
    def __init__(self, session):
        self.session = session


SCALARS = {
    "accuracy_real": np.float32(1),
    "accuracy_fake": np.float32(0.5),
    "discriminator_gradient_norm": np.float32(3),
    "generator_gradient_norm": np.float32(2),
}
REALS = np.tile(np.array([0.0, 1.0], np.float32)[:, None, None, None], [8, 2, 2, 1])  # spread 0.5


def make_hook(samples, reals=REALS, **kwargs):
    """A hook whose records use one of `samples` after the other."""
    from toolkit_gan.health_hook import HealthHook

    from toolkit import Every

    remaining = iter(samples)
    hook = HealthHook(Every(500), {}, lambda session: next(remaining), reals, **kwargs)
    hook.loop = Loop()
    return hook


def make_record(hook, step, **scalars):
    hook.on_step(step, dict(SCALARS, **scalars), Context(None))


def grey(level=0.5):
    return np.full([16, 2, 2, 1], level, np.float32)


def test_a_record_is_logged_with_the_spread_relative_to_the_reals_and_the_change():
    hook = make_hook([REALS / 2, REALS / 2 + 0.25])
    make_record(hook, 500)
    make_record(hook, 1000)
    accuracy = "discriminator accuracy 100 % on real and 50 % on generated images"
    variety = "samples vary 0.50 times as much as real images"
    assert hook.loop.messages == [
        f"step 500: {accuracy}, {variety}",
        f"step 1000: {accuracy}, {variety}, mean change per pixel 0.2500",
    ]
    assert hook.loop.records == []


def test_a_verdict_is_logged_and_recorded_with_its_numbers():
    hook = make_hook([REALS, grey(), grey()])
    for step in (500, 1000, 1500):
        make_record(hook, step)
    (event,) = hook.loop.records
    assert (event["step"], event["kind"], event["event"]) == (1500, "event", "health")
    assert (event["verdict"], event["spread"], event["change"]) == ("total-collapse", 0.0, 0.0)
    assert hook.loop.messages[-1] == f"warning: {event['sentence']} {event['advice']}"


def test_with_the_state_of_another_hook_it_logs_what_that_one_would_have_logged():
    samples = [REALS, grey(), grey(), REALS, grey(), grey()]
    whole = make_hook(samples)
    for step in range(2000, 5000, 500):
        make_record(whole, step)
    first, second = make_hook(samples[:2]), make_hook(samples[2:])
    for step in (2000, 2500):
        make_record(first, step)
    state = first.state()
    second.set_state({"health": json.loads(json.dumps(state["health"])), "before": state["before"]})
    assert second.state()["health"] == state["health"]
    for step in range(3000, 5000, 500):
        make_record(second, step)
    assert first.loop.messages + second.loop.messages == whole.loop.messages
    assert first.loop.records + second.loop.records == whole.loop.records
    assert [event["step"] for event in whole.loop.records] == [3000, 4500]


def test_after_a_resume_with_another_number_of_samples_the_change_is_unknown():
    first, resumed = make_hook([REALS]), make_hook([REALS[:10], REALS[:10] / 2])
    make_record(first, 500)
    resumed.set_state(first.state())
    make_record(resumed, 1000)
    make_record(resumed, 1500)
    assert ["change" in message for message in resumed.loop.messages] == [False, True]


def test_without_a_state_it_starts_again():
    hook = make_hook([REALS] + [grey()] * 3)
    make_record(hook, 2000)
    make_record(hook, 2500)
    hook.set_state({})
    make_record(hook, 3000)  # the first of a new row, and no change is known
    assert hook.loop.records == [] and "change" not in hook.loop.messages[-1]
    make_record(hook, 3500)
    assert [event["verdict"] for event in hook.loop.records] == ["total-collapse"]


def test_classes_are_counted_in_samples_and_reals_by_the_same_classifier():
    def classify(images):
        return (images[:, 0, 0, 0] > 0.5).astype(int)

    many = np.repeat(REALS, 10, axis=0)
    hook = make_hook([many * 0] * 3, many, classify=classify, class_names=["dark", "light"])
    for step in (500, 1000, 1500):
        make_record(hook, step)
    (event,) = [e for e in hook.loop.records if e["verdict"] == "lost-classes"]
    assert event["class_counts"] == [160, 0]
    assert "'light' (0 of 160, expected 80)" in event["sentence"]


def test_reals_that_do_not_vary_leave_the_spread_unknown():
    hook = make_hook([grey()] * 3, reals=grey())
    for step in (500, 1000, 1500):
        make_record(hook, step)
    assert hook.loop.records == [] and "vary" not in hook.loop.messages[0]


def test_samples_are_generated_in_the_session_after_the_step():
    from toolkit_gan.health_hook import HealthHook

    from toolkit import Every, tf

    v = tf.get_variable("v", initializer=tf.constant(0.0), use_resource=True)
    images = v.read_value() * tf.constant(REALS)
    hook = HealthHook(Every(500), {}, lambda session: session.run(images), REALS)
    hook.loop = Loop()
    with session() as tf_session:
        tf_session.run(tf.group(v.assign(0.5)))
        hook.on_step(500, SCALARS, Context(tf_session))
    assert "samples vary 0.50 times" in hook.loop.messages[0]


def test_in_a_run_the_hook_works_on_due_steps_and_records_its_verdicts(tmp_path):
    from toolkit_gan.health_hook import HealthHook

    from toolkit import Every, hookimpl, testing, tf

    class WithHealth(Linear):
        @hookimpl
        def session_hooks(self, run):
            step = run.global_step
            scalars = {name: tf.constant(float(value)) for name, value in SCALARS.items()}
            images = tf.constant(REALS) * tf.cast(step.read_value() < 700, tf.float32)
            WithHealth.steps = []

            def samples(session):
                WithHealth.steps.append(int(session.run(step)))
                return session.run(images)

            return [HealthHook(Every(200), scalars, samples, REALS)]

    data, folder = write_bars(tmp_path / "bars.npz"), str(tmp_path / "run")
    testing.train(WithHealth, folder, data=data, steps=1000, log_steps=1000, checkpoint_steps=1000)
    assert WithHealth.steps == [200, 400, 600, 800, 1000]
    with open(folder + "/metrics.jsonl", encoding="utf-8") as file:
        records = [json.loads(line) for line in file]
    events = [(r["step"], r["verdict"]) for r in records if r.get("event") == "health"]
    assert events == [(1000, "total-collapse")]
