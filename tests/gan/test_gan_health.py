"""Verdicts on records of known failures, and the hook that makes the records."""

import json
import types

import numpy as np
import pytest
from gan_fixtures import build_image_game, make_run
from toolkit_gan import health as rules
from toolkit_gan.health import Health, HealthHook, Record, advise, describe, spread

from toolkit import Every, Split

# A record of a healthy run: the discriminator is right and wrong, samples vary and change.
HEALTHY = Record(
    step=0,
    **{"accuracy_real": 0.8, "accuracy_fake": 0.75, "generator_gradient_norm": 0.5},
    **{"spread": 0.9, "change": 0.03},
)
ADVICE = advise(make_run().options, make_run().data)
COLLAPSED = {"spread": 0.01}
RIGHT = {"accuracy_real": 1.0, "accuracy_fake": 1.0}  # as Wasserstein discriminators should be
SATURATED = {**RIGHT, "generator_gradient_norm": 1e-5, "change": 1e-3}
FROZEN = {"change": 0.0, "generator_gradient_norm": 0.0}


def make_records(*changes, every=500):
    """A record per change (a dict, {} for a healthy record), from step `every` on."""
    return [HEALTHY._replace(step=(i + 1) * every, **c) for i, c in enumerate(changes)]


def verdicts(records):
    """(step, name) of each verdict."""
    health = Health(ADVICE)
    return [(r.step, verdict.name) for r in records for verdict in health.judge(r)]


@pytest.mark.parametrize(
    "changes, texts",
    [
        (
            [{}, {}, *[COLLAPSED] * 2],
            ["step 2000 they vary 0.010 times as much as real images (up to 0.90", "--penalty r1"],
        ),
        (
            [{}, {}, {}, *[SATURATED] * 3],
            ["100 % of the real and 100 % of the generated", "--discriminator-rate"]
            + ["gradient norm is 1.0e-05 (usually 5.0e-01)"],
        ),
        (
            [{}, FROZEN, FROZEN],
            ["since step 1000 its samples changed by 0.0e+00"]
            + ["in step 1500 its gradient norm is 0.0e+00"],
        ),
    ],
    ids=["collapse", "saturated", "frozen"],
)
def test_a_verdict_says_what_was_seen_and_what_may_help(changes, texts):
    health = Health(ADVICE)
    (verdict,) = [each for record in make_records(*changes) for each in health.judge(record)]
    assert [text for text in texts if text not in f"{verdict.sentence} {verdict.advice}"] == []


@pytest.mark.parametrize(
    "options, collapsed, saturated",
    [
        (
            {"loss": "hinge", "spectral_norm": False},
            "--penalty r1, --spectral-norm or a lower --generator-rate",
            "a lower --discriminator-rate, --penalty r1, --spectral-norm or --loss non-saturating; "
            "with few images, --diff-augment auto",
        ),
        (
            {"penalty": "r1", "loss": "non-saturating", "diff_augment": ["auto"]},
            "a higher --penalty-weight or a lower --generator-rate",
            "a lower --discriminator-rate or a higher --penalty-weight",
        ),
        (
            {"discriminator_norm": "batch", "loss": "non-saturating", "shape": (6,)},
            "a lower --generator-rate",
            "a lower --discriminator-rate",
        ),
    ],
)
def test_the_advice_is_what_the_run_does_not_have_and_would_accept(options, collapsed, saturated):
    run = make_run(**dict({"spectral_norm": True}, **options))
    advice = advise(run.options, run.data)
    assert advice["total-collapse"] == f"It is unlikely to recover: start again with {collapsed}."
    assert advice["discriminator-saturated"] == f"Try {saturated}."


@pytest.mark.parametrize(
    "failure, name, first",
    [
        (COLLAPSED, "total-collapse", 2500),
        (SATURATED, "discriminator-saturated", 3000),
        (FROZEN, "generator-frozen", 2500),
    ],
)
def test_a_verdict_is_reported_once_and_again_after_it_ended(failure, name, first):
    records = make_records(*[{}] * 3, *[failure] * 6, {}, *[failure] * 6)
    assert verdicts(records) == [(first, name), (first + 3500, name)]


@pytest.mark.parametrize("failure", [COLLAPSED, SATURATED, FROZEN])
def test_an_untrained_run_has_no_verdict(failure):
    early = [HEALTHY._replace(step=step, **failure) for step in range(0, rules.WARM_UP, 10)]
    assert verdicts(early + [HEALTHY._replace(step=step) for step in (500, 510, 520)]) == []


@pytest.mark.parametrize("failure", [COLLAPSED, SATURATED, FROZEN])
def test_an_oscillation_within_a_few_steps_is_no_verdict(failure):
    records = [HEALTHY._replace(step=step) for step in range(500, 600, 10)]
    records += [HEALTHY._replace(step=600 + step, **failure) for step in range(0, rules.SPAN, 10)]
    assert verdicts(records) == []
    assert len(verdicts(records + [HEALTHY._replace(step=600 + rules.SPAN, **failure)])) == 1


@pytest.mark.parametrize("failure", [COLLAPSED, SATURATED, FROZEN])
def test_records_that_are_not_in_a_row_are_no_verdict(failure):
    assert verdicts(make_records(*[{}, {}, {}, failure] * 10)) == []


STEEP, FADED = {"generator_gradient_norm": 50.0}, dict(SATURATED, generator_gradient_norm=0.4)
MEASURES = ["accuracy_real", "accuracy_fake", "generator_gradient_norm", "spread", "change"]


@pytest.mark.parametrize(
    "changes, expected",
    [
        ([RIGHT] * 20, []),
        # Adam and RMSProp divide a gradient by its usual size: samples that change are enough.
        ([dict(SATURATED, change=0.02)] * 20, []),
        ([SATURATED] * 10, [(1500, "discriminator-saturated")]),
        # A gradient of a hundredth of the usual one is lost.
        ([STEEP] * 3 + [FADED] * 3, [(3000, "discriminator-saturated")]),
        ([{}] * 3 + [FADED] * 3, []),
        # A fall to less than a quarter is a collapse, also from a start of thousands of steps, but
        # samples that vary more than reals are no measure to fall from.
        ([{"spread": 0.8}, *[{"spread": 0.19}] * 2], [(1500, "total-collapse")]),
        ([{"spread": 0.8}, *[{"spread": 0.21}] * 2], []),
        ([{"spread": 4.0}, *[{"spread": 0.5}] * 5], []),
        ([{"spread": 0.05}] * 10, [(2500, "total-collapse")]),
        # At the end of a schedule samples no longer change.
        ([{}, *[{"change": 0.0}] * 10], []),
        ([dict.fromkeys(MEASURES, None)] * 10, []),
        ([dict.fromkeys(MEASURES, float("nan"))] * 10, []),
    ],
)
def test_each_rule_has_its_bounds(changes, expected):
    assert verdicts(make_records(*changes)) == expected


def test_a_slow_start_is_no_collapse():
    # As seen of a Wasserstein discriminator with a low rate: hundreds of steps, and then it rises.
    start = [{"spread": 0.05 + 0.001 * i} for i in range(10)]
    assert verdicts(make_records(*start, every=150)) == []


def test_unknown_values_are_left_out_of_the_description():
    text = "step 7: samples vary 0.50 times as much as real ones"
    assert describe(Record(7, spread=0.5)) == text
    assert describe(Record(7)) == "step 7: nothing to report"


def test_spread_is_the_deviation_over_images_and_not_within_one():
    striped = np.zeros([8, 2, 2, 1])  # eight times the same
    striped[:, :, 1] = 1
    halves = np.zeros([8, 2, 2, 1])
    halves[4:] = 1
    assert spread(striped) == 0 and spread(halves) == 0.5
    assert spread(halves[:7]) is None  # of too few images


SCALARS = dict(zip(MEASURES, np.float32([1, 0.5, 2])))
REALS = np.tile(np.array([0.0, 1.0], np.float32)[:, None, None, None], [8, 2, 2, 1])  # spread 0.5


def make_hook(samples, reals=REALS):
    """A hook whose records use one of `samples` after the other."""
    hook, remaining = HealthHook(Every(500), {}, None, reals, ADVICE), iter(samples)
    hook.loop = types.SimpleNamespace(messages=[], records=[])
    hook.loop.log = hook.loop.messages.append
    hook.loop.record = lambda values: hook.loop.records.append(json.loads(json.dumps(values)))
    hook.session = types.SimpleNamespace(run=lambda images: next(remaining))
    return hook


def record_steps(hook, *steps):
    for step in steps:
        hook.on_step(step, SCALARS, types.SimpleNamespace(session=hook.session))


GREY = np.full([16, 2, 2, 1], 0.5, np.float32)


def test_a_record_is_logged_with_the_spread_relative_to_the_reals():
    hook = make_hook([REALS / 2, REALS / 2 + 0.25])
    record_steps(hook, 500, 1000)
    accuracy = "discriminator right on 100 % of real and 50 % of generated images"
    variety = "samples vary 0.50 times as much as real ones"
    assert hook.loop.messages == [f"step {n}: {accuracy}, {variety}" for n in (500, 1000)]
    assert hook.loop.records == []


def test_a_verdict_is_logged_and_recorded_with_its_numbers():
    hook = make_hook([REALS, GREY, GREY])
    record_steps(hook, 500, 1000, 1500)
    (event,) = hook.loop.records
    assert (event["step"], event["kind"], event["event"]) == (1500, "event", "health")
    assert (event["verdict"], event["spread"], event["change"]) == ("total-collapse", 0.0, 0.0)
    assert hook.loop.messages[-1] == f"warning: {event['sentence']} {event['advice']}"


def test_with_the_state_of_another_hook_it_logs_what_that_one_would_have_logged():
    samples = [REALS, GREY, GREY, REALS, GREY, GREY]
    whole, first, second = make_hook(samples), make_hook(samples[:2]), make_hook(samples[2:])
    record_steps(whole, *range(2000, 5000, 500))
    record_steps(first, 2000, 2500)
    state = first.state()
    second.set_state({"health": json.loads(json.dumps(state["health"])), "before": state["before"]})
    assert second.state()["health"] == state["health"]
    record_steps(second, *range(3000, 5000, 500))
    assert first.loop.messages + second.loop.messages == whole.loop.messages
    assert first.loop.records + second.loop.records == whole.loop.records
    assert [event["step"] for event in whole.loop.records] == [3000, 4500]


def test_after_a_resume_with_another_number_of_samples_the_change_is_unknown(monkeypatch):
    monkeypatch.setattr(rules, "describe", lambda record: record.change)
    first, resumed = make_hook([REALS]), make_hook([REALS[:10], REALS[:10] / 2])
    record_steps(first, 500)
    resumed.set_state(first.state())
    record_steps(resumed, 1000, 1500)
    assert [change is None for change in resumed.loop.messages] == [True, False]


def test_reals_that_do_not_vary_leave_the_spread_unknown():
    hook = make_hook([GREY] * 3, reals=GREY)
    record_steps(hook, 500, 1000, 1500)
    assert hook.loop.records == [] and "vary" not in hook.loop.messages[0]


@pytest.mark.parametrize(
    "given, total, expected",
    [(None, 300, (500, 30)), (None, 20_000, (500, 500)), (7, 300, (7, 7)), (0, 300, (0, 0))],
)
def test_a_short_run_writes_ten_grids_unless_it_is_told_how_many(given, total, expected):
    options = types.SimpleNamespace(sample_steps=given)
    run = types.SimpleNamespace(options=options, total_steps=total)
    assert rules.choose_sample_steps(run) == expected


@pytest.mark.parametrize("part, is_judged", [("dense/*", True), ("*", False)])
def test_a_generator_that_is_frozen_is_not_judged(tmp_path, part, is_judged):
    game = build_image_game(freeze=["generator/" + part])
    vars(game.run).update(folder=str(tmp_path))
    split = Split(np.zeros([9, 8, 8, 1], np.uint8))
    hooks = rules.create_hooks(game.model, {}, game.run, {"train": split}.get)
    assert [hook.name for hook in hooks] == ["samples", "health"][: 1 + is_judged]
