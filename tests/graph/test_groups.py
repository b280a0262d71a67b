"""Groups of variables: own rates and decays, and variables that are frozen."""

import pytest
from graph_fixtures import make_run
from linear_fixtures import Linear
from update_fixtures import (
    ONLY_2,
    SGD,
    WithBatchNorm,
    after_steps,
    build_on_pairs,
    changed_by,
    create_variable,
    train,
    train_by_both,
)

from toolkit import Group, UsageError, testing, tf
from toolkit.options.groups import parse_group


def test_a_group_has_a_pattern_a_rate_and_a_decay():
    group = parse_group("conv*/kernel:learning_rate=1e-4,weight_decay=0")
    assert group == Group("conv*/kernel", learning_rate=1e-4, weight_decay=0.0)
    assert group.fits("conv1/a/kernel") and not group.fits("conv1/bias")
    assert parse_group("*[12]/bias:frozen=true") == Group("*[12]/bias", frozen=True)


@pytest.mark.parametrize(
    "text, message",
    [
        ("conv1/*", "'conv1/\\*' is no group of variables"),
        ("a:rate=1", "'a:rate=1' sets 'rate'"),
        ("a:learning_rate=fast", "sets learning_rate to 'fast', which is no number"),
        ("a:learning_rate=0", "Group 'a': learning_rate is 0.0, but should be greater than 0"),
        ("a:learning_rate=nan", "learning_rate is nan, but should be a finite number"),
        ("a:weight_decay=-1", "weight_decay is -1.0, but should be a finite number that is not"),
        ("a:frozen=maybe", "frozen is 'maybe', but should be true or false"),
        ("a:frozen=true,weight_decay=1", "frozen variables have neither a learning rate nor"),
        ("a:weight_decay=1,weight_decay=2", "sets weight_decay twice"),
    ],
)
def test_a_group_that_is_none_is_refused_in_one_sentence(text, message):
    with pytest.raises(UsageError, match=message):
        parse_group(text)


@pytest.mark.parametrize("pattern", [" ", "w:0", "a,b", None])
def test_a_pattern_that_fits_no_name_whatever_is_refused(pattern):
    with pytest.raises(UsageError, match="is empty|has a comma or a colon"):
        Group(pattern)


def descend_two(**options):
    """The variables a and b after a step of plain descent at rate 1, each by a gradient of 1."""
    loss = tf.reduce_sum(create_variable("a", [0.0]) + create_variable("net/b", [0.0]))
    return train(loss, **options)


@pytest.mark.parametrize(
    "options, a, b",
    [
        ({"group": "net/*:learning_rate=0.25"}, -1, -0.25),
        # The first group that fits a variable holds.
        ({"group": "net/*:learning_rate=0.25,*:learning_rate=0.5"}, -0.5, -0.25),
        # Warm-up over two steps: half of each full rate in the first.
        ({"group": "net/*:learning_rate=0.25", "warmup_steps": 2}, -0.5, -0.125),
        ({"group": "net/b:frozen=no,*:learning_rate=0.5"}, -0.5, -1),
        ({"group": ["a:frozen=no", "*:frozen=yes"]}, -1, 0),
    ],
)
def test_a_group_has_a_rate_of_its_own(options, a, b):
    assert descend_two(**options) == {"a": [a], "net/b": [b]}


def test_the_rate_of_each_group_is_logged():
    loss = tf.reduce_sum(create_variable("a", 0.0) + create_variable("net/b", 0.0))
    run = make_run(**dict(SGD, group="net/*:learning_rate=0.25"))
    run.minimize(loss, name="player")
    logged = after_steps([], run.logged)
    del logged["player/gradient_norm"]
    assert logged == {"player/learning_rate": 1.0, "player/learning_rate/net/*": 0.25}


def test_the_global_norm_is_one_over_all_groups():
    loss = tf.reduce_sum(3 * create_variable("a", [0.0]) + 4 * create_variable("b", [0.0]))
    options = {"clip": "global-norm", "clip_limit": 1.0, "group": "b:learning_rate=0.5"}
    assert train(loss, **options) == {"a": pytest.approx([-0.6]), "b": pytest.approx([-0.4])}


def test_decay_exclude_excludes_variables_from_every_decay():
    loss = 0 * sum(tf.reduce_sum(create_variable(name, [[1.0]])) for name in "abc")
    options = {"weight_decay": 0.5, "group": "b:weight_decay=0.25"}
    assert train(loss, decay_exclude="a", **options) == {"a": [[1]], "b": [[0.75]], "c": [[0.5]]}


@pytest.mark.parametrize(
    "options, optimizers",
    [
        ({"group": "b:weight_decay=0.1"}, ["p"]),
        ({"group": "b:learning_rate=0.1", "freeze": "c"}, ["p", "p/group_1"]),
    ],
)
def test_a_group_with_a_rate_has_an_optimizer_of_its_own_whatever_is_frozen(options, optimizers):
    a, b, c = (create_variable(name, [[1.0]]) for name in "abc")
    make_run(optimizer="adam", **options).minimize(tf.reduce_sum(a * b * c), name="p")
    names = sorted(v.op.name for v in tf.global_variables() if "beta1_power" in v.op.name)
    assert names == [f"optimizer/{name}/beta1_power" for name in optimizers]


def test_adamw_is_adam_with_a_decay_of_a_hundredth():
    def value(**options):
        with tf.Graph().as_default():
            loss = tf.reduce_sum(create_variable("w", [[1.0]]))
            return train(loss, **dict(options, learning_rate=0.5))["w"][0][0]

    assert value(optimizer="adam") == pytest.approx(0.5)
    assert value(optimizer="adamw") == pytest.approx(0.5 * (1 - 0.5 * 0.01))
    assert value(optimizer="AdamW", weight_decay=0.5) == pytest.approx(0.5 * (1 - 0.5 * 0.5))
    assert value(optimizer="adamw", weight_decay=0.0) == value(optimizer="adam")


def test_groups_accumulate_together():
    # The gradients 1 and 3: one update by their mean 2.
    step = tf.cast(tf.train.get_or_create_global_step().read_value(), tf.float32)
    a, b = create_variable("a", 0.0), create_variable("b", 0.0)
    weights = train((a + b) * (2 * step + 1), 2, accumulate=2, group="b:learning_rate=0.5")
    assert weights == {"a": -2, "b": -1}


def test_a_frozen_variable_has_no_gradient_no_decay_no_slots_and_no_sum():
    run = make_run(optimizer="adam", accumulate=2, weight_decay=0.5, freeze="b", clip="global-norm")
    a, b = create_variable("a", [[1.0]]), create_variable("b", [[1.0]])
    op = run.minimize(tf.reduce_sum(3 * a + 4 * b))
    variables = {v.op.name: v for v in tf.global_variables()}
    values = after_steps(op, dict(variables, norm=run.logged["gradient_norm"]), 2)
    assert values["norm"] == 3
    assert values["b"] == [[1.0]] and values["a"] != [[1.0]]
    assert not [name for name in values if name.startswith("b/") or name.endswith("/b")]


@pytest.mark.parametrize(
    "options, a, b",
    [
        ({"freeze": "b"}, -1, 1),
        ({"freeze": "a"}, 1, 9),
        ({"freeze": "b", "accumulate": 2}, 0, 1),
        ({"freeze": "a", "accumulate": 2}, 1, 9),
    ],
)
def test_one_of_two_updates_may_be_frozen_whole(options, a, b):
    run = make_run(**dict(SGD, on_nonfinite="skip", **options))
    first, second = create_variable("a", 1.0), create_variable("b", 1.0)
    op = run.minimize(1.0 * first, [first], "first", advance_step=False)
    with tf.control_dependencies([op]):
        op = run.minimize(1.0 * second, [second], "second", after=lambda: second.assign(9.0))
    assert after_steps(op, [first, second, run.global_step], 2) == [a, b, 2]


def test_the_guard_looks_at_the_loss_of_a_frozen_update():
    run = make_run(**dict(SGD, on_nonfinite="skip", freeze="b"))
    a, b = create_variable("a", 0.0), create_variable("b", 0.0)
    op = run.apply([run.gradients(1.0 * a, [a], "a"), run.gradients(b / 0, [b], "b")])
    assert after_steps(op, [a, b]) == [0, 0]


def test_freezing_everything_is_refused():
    with pytest.raises(UsageError, match="All variables that the update 'p' trains are frozen"):
        make_run(**dict(SGD, freeze="*")).minimize(create_variable("w", 0.0) * 1, name="p")


@pytest.mark.parametrize(
    "freeze, changed, same, in_loop",
    [
        ("moving_*", {"linear/w", "gamma"}, {"moving_mean", "moving_variance"}, False),
        ("moving_*", {"linear/w", "gamma"}, {"moving_mean", "moving_variance"}, True),
        (["gamma", "beta"], {"linear/w", "moving_mean"}, {"gamma", "beta"}, False),
    ],
)
def test_averages_of_batch_norm_stay_only_where_a_pattern_fits(freeze, changed, same, in_loop):
    training = build_on_pairs(WithBatchNorm, in_loop, optimizer="sgd", freeze=freeze)
    names = set(changed_by(training.train_op))
    assert changed <= names and not same & names


@pytest.mark.parametrize(
    "options, message, hint",
    [
        ({"freeze": "nett/*"}, "--freeze nett/\\* fits no variable that the run", "'net/*'"),
        ({"group": "net/c:learning_rate=1"}, "--group net/c fits no variable", "'net/b'"),
        ({"decay_exclude": "c"}, "--decay-exclude c fits no variable that the run trains", ""),
        ({"group": "*:frozen=no,a:frozen=no"}, "a has no effect: an earlier group .* 'a'", "Leave"),
        ({"freeze": "a", "group": "a:learning_rate=2"}, "--group a has no effect", ""),
    ],
)
def test_a_pattern_that_holds_for_no_variable_is_refused(options, message, hint):
    with pytest.raises(UsageError, match=message) as error:
        descend_two(**options)
    assert hint in error.value.hint


def test_the_options_hold_for_the_variables_of_all_updates_of_a_step():
    run = make_run(**dict(SGD, group="b:learning_rate=0.5"))
    a, b = create_variable("a", 0.0), create_variable("b", 0.0)
    op = run.apply([run.gradients(1.0 * a, [a], "a"), run.gradients(1.0 * b, [b], "b")])
    assert after_steps(op, [a, b]) == [-1, -0.5]


def test_a_group_of_a_plugin_that_fits_a_variable_of_another_update_is_refused():
    a, _ = create_variable("a", 0.0), create_variable("b", 0.0)
    with pytest.raises(UsageError, match="Group 'b' fits no variable that the update 'x' trains"):
        make_run(**SGD).gradients(1.0 * a, [a], "x", groups=[Group("b", learning_rate=0.5)])


def test_the_groups_of_the_options_come_before_those_of_the_plugin():
    run = make_run(**dict(SGD, group="b:learning_rate=0.5"))
    a, b = create_variable("a", 0.0), create_variable("b", 0.0)
    op = run.minimize(a + b, groups=[Group("*", learning_rate=0.25)])
    assert after_steps(op, [a, b]) == [-0.25, -0.5]


def test_a_step_in_a_loop_makes_the_same_updates_of_groups(data):
    options = {"data": data, "accumulate": 2, "freeze": "linear/b"}
    options.update(schedule="cosine", clip="global-norm", clip_limit=0.1)
    group = "linear/w:learning_rate=0.1,weight_decay=0.1"
    testing.check_step_in_a_loop(Linear, group=group, **options)


@ONLY_2
@pytest.mark.parametrize("options", [{}, {"accumulate": 2}], ids=["plain", "accumulated"])
def test_a_compiled_step_trains_groups_as_a_plain_one_does(tmp_path, options):
    options = dict(options, freeze="moving_*,linear/b", group="linear/w:learning_rate=0.1")
    tensors = train_by_both(tmp_path, WithBatchNorm, weight_decay=0.1, **options)
    assert not tensors["moving_mean"].any() and not tensors["linear/b"].any()
