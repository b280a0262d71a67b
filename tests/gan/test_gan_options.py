"""The options and presets of the GAN, and the combinations that are refused."""

from __future__ import annotations

import pytest
from gan_fixtures import evaluate, make_run, options
from toolkit_gan import checks, losses, penalties
from toolkit_gan.options import PRESETS, GanOptions
from toolkit_gan.presets import FEW_IMAGES
from typing_extensions import get_args

from toolkit import DataError, DataSpec, UsageError, tf
from toolkit.options import resolve
from toolkit.options.paths import map_paths

NETWORKS = ["mlp", "dcgan", "resnet"]


def test_the_presets_are_the_choices_of_the_option():
    names = get_args(GanOptions.model_fields["preset"].annotation)
    assert set(names) == {"auto", *PRESETS}


@pytest.mark.parametrize(
    "classes, num_images, name, reason",
    [
        (10, 4000, "quick", "the 4,000 images have labels of 10 classes"),
        (10, FEW_IMAGES, "quick", "the 3,000 images have labels of 10 classes"),
        (10, FEW_IMAGES - 1, "small-data", "the 2,999 images are fewer than 3,000"),
        (0, 60000, "unlabelled", "the 60,000 images have no labels"),
        (1, 60000, "unlabelled", "the 60,000 images have one class"),  # which tells nothing
        (0, 100, "small-data", "the 100 images are fewer than 3,000; clusters replace labels"),
        (0, 1, "small-data", "there is one image"),
    ],
)
def test_the_data_choose_a_preset(classes, num_images, name, reason):
    names = tuple(map(str, range(classes)))
    data = DataSpec((8, 8, 1), "uint8", classes, names, (1,) * classes)
    assert GanOptions.choose_preset(data, num_images) == (name, reason)


@pytest.mark.parametrize("num_images", [700, 5000])
def test_classes_that_are_too_small_are_named_with_the_ways_out(num_images):
    names = tuple(map(str, range(num_images // 10)))
    data = DataSpec((8, 8, 1), "uint8", len(names), names, (1,) * len(names))
    reason = GanOptions.choose_preset(data, num_images)[1]
    assert f"their {len(names)} classes are too small to be learned" in reason
    assert reason.endswith("move all images into one folder, or set --conditional none")


@pytest.mark.parametrize("shape", [(12,), (7, 9, 1)])
def test_no_network_clusters_what_is_smaller_than_its_filters(shape):
    name, reason = GanOptions.choose_preset(DataSpec(shape, "float32"), 60000)
    assert (name, reason) == ("quick", "the 60,000 images have no labels, and no 8 x 8 pixels")
    values = {**PRESETS["quick"], "conditional": "auto", "network": "mlp"}
    run = make_run(shape=shape, **values)
    checks.check_networks(run.options, run.data)


@pytest.mark.parametrize("preset", sorted(PRESETS))
def test_a_preset_sets_its_values_and_another_value_takes_precedence(preset):
    resolved = options(preset=preset)
    for name, value in PRESETS[preset].items():
        assert getattr(resolved, name) == value, name
    assert options(preset=preset, loss="minimax").loss == "minimax"


@pytest.mark.parametrize("preset", sorted(PRESETS))
def test_what_a_preset_sets_can_be_trained(preset):
    run = make_run(preset=preset)
    checks.check_networks(run.options, run.data)
    checks.check_method(run.options, run.options.batch_size)
    is_wasserstein, slope = run.options.loss == "wasserstein", run.options
    is_bounded = slope.penalty != "none" or slope.weight_clip > 0 or slope.spectral_norm
    assert is_bounded or not is_wasserstein  # a Wasserstein loss needs a bounded slope


@pytest.mark.parametrize(
    "preset, d_loss, g_loss",
    [
        # the losses at logits of zero, with 2 log 2 = 1.386294
        ("quick", 2.0, 0.0),  # relu(1) + relu(1)
        ("sn-hinge", 2.0, 0.0),
        ("dcgan", 1.386294, 0.693147),
        ("dragan", 1.386294 + 2.5, 0.693147),  # and 10 (0.5 - 1)^2 for a slope of 0.5
        ("wgan", 0.0, 0.0),
        ("wgan-gp", 2.5, 0.0),
        ("lsgan", 0.5, 0.5),
        ("r1r2", 0.693147 + 0.025, 0.693147),  # and 2 * 0.1 / 2 * 0.5^2
    ],
)
def test_a_preset_has_the_losses_of_its_paper(preset, d_loss, g_loss):
    run = make_run(preset=preset)
    outputs = {"real_logits": tf.zeros([4]), "fake_logits": tf.zeros([4])}
    if run.options.penalty != "none":
        gradients = tf.fill([4, 1, 1, 1], 0.5)
        outputs["penalty"] = penalties.weighted_penalty(gradients, run.options)
    values = evaluate(dict(losses.named_losses(outputs, run)))
    assert values["d_loss"] == pytest.approx(d_loss, abs=1e-5)
    assert values["g_loss"] == pytest.approx(g_loss, abs=1e-5)


# ------------------------------------------------------- what is refused, beside what is accepted


def is_refused(error, message, run):
    """Whether the run's options are refused; the message has to match."""
    try:
        checks.check_networks(run.options, run.data)
        checks.check_method(run.options, run.options.batch_size)
    except error as refusal:
        assert message in str(refusal)
        return True
    return False


PENALISED = [{"discriminator_norm": "batch", "penalty": p} for p in ("wgan-gp", "lp", "dragan")]
PENALISED += [{"discriminator_norm": "batch", "penalty": p} for p in ("r1", "r1r2")]


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("refused", PENALISED, ids=lambda values: values["penalty"])
@pytest.mark.parametrize("change", [{"discriminator_norm": "layer"}, {"penalty": "none"}])
def test_batch_norm_in_the_discriminator_is_refused_with_a_penalty_alone(network, refused, change):
    message = (
        "(discriminator_norm=batch) mixes the examples of a batch, and "
        f"penalty={refused['penalty']} needs"
    )
    assert is_refused(UsageError, message, make_run(network=network, **refused))
    assert not is_refused(UsageError, "", make_run(network=network, **dict(refused, **change)))


@pytest.mark.parametrize("conditional", ["concat", "acgan", "projection"])
@pytest.mark.parametrize("classes, count", [(0, "no labels"), (1, "one class")])
def test_a_conditional_network_needs_two_classes(conditional, classes, count):
    message = f"conditional={conditional} needs two classes or more, and the data has {count}"
    assert is_refused(DataError, message, make_run(classes=classes, conditional=conditional))
    assert not is_refused(DataError, "", make_run(classes=2, conditional=conditional))
    assert not is_refused(DataError, "", make_run(classes=classes, conditional="auto"))


@pytest.mark.parametrize("network", ["dcgan", "resnet"])
@pytest.mark.parametrize(
    "shape, neighbour, message",
    [
        ((13,), (8, 13, 1), "has shape [13]"),
        ((7, 9, 1), (8, 9, 1), "has 7 x 9"),
        ((9, 7, 3), (9, 8, 3), "has 9 x 7"),
    ],
)
def test_a_convolutional_network_needs_images_of_eight_pixels(network, shape, neighbour, message):
    assert is_refused(UsageError, message, make_run(shape, network=network))
    assert not is_refused(UsageError, "", make_run(neighbour, network=network))
    assert not is_refused(UsageError, "", make_run(shape, network="mlp"))


def test_labels_in_the_batch_norm_need_labels():
    flags = {"generator_norm": "batch", "generator_conditional": "batch-norm"}
    message = "needs labels of two classes or more"
    assert is_refused(DataError, message, make_run(conditional="auto", **flags))
    assert not is_refused(DataError, "", make_run(conditional="auto", classes=2, **flags))
    assert not is_refused(DataError, "", make_run(conditional="none", **flags))  # it is noted


def test_no_batch_norm_is_refused_where_the_network_has_none():
    flags = {"discriminator_norm": "batch", "penalty": "r1", "shape": (16, 16, 1)}
    message = "mixes the examples of a batch"
    assert is_refused(UsageError, message, make_run(**flags, network="resnet"))
    assert not is_refused(UsageError, "", make_run(**flags, network="r3gan", spectral_norm=False))


@pytest.mark.parametrize("accumulate, n_critic", [(2, 5), (2, 2)])
def test_accumulating_over_several_discriminator_updates_is_refused(accumulate, n_critic):
    message = f"accumulate is {accumulate} and n_critic is {n_critic}"
    assert is_refused(UsageError, message, make_run(accumulate=accumulate, n_critic=n_critic))
    assert not is_refused(UsageError, "", make_run(accumulate=accumulate, n_critic=1))
    assert not is_refused(UsageError, "", make_run(accumulate=1, n_critic=n_critic))


def idle(**flags):
    """The options set by these flags that have no effect, each with the reason."""
    texts = {name: str(value) for name, value in flags.items()}
    notes = resolve([("gan", GanOptions)], flags=texts).notes
    return {n.split(" ")[0]: n.split("no effect: ")[1] for n in notes if "no effect" in n}


@pytest.mark.parametrize(
    "flags, reason, neighbour",
    [
        ({"penalty_weight": 3}, "penalty is none", {"penalty": "r1"}),
        ({"class_weight": 3}, "conditional is auto", {"conditional": "acgan"}),
        (
            {"generator_conditional": "batch-norm"},
            "conditional is none",
            {"conditional": "projection"},
        ),
        ({"attention": 8}, "network is mlp", {"network": "dcgan"}),
        ({"features_plugin": "x"}, "features is pixels", {"features": "auto"}),
        ({"norm_samples": 9}, "no network has batch norm", {"discriminator_norm": "batch"}),
        ({"sample_count": 9}, "sample_steps is 0", {"sample_steps": 5}),
        (
            {"learning_rate": 0.1},
            "generator_rate and discriminator_rate are set",
            {"discriminator_rate": None},
        ),
        (
            {"optimizer": "sgd"},
            "generator_optimizer and discriminator_optimizer are set",
            {"generator_optimizer": None},
        ),
        (
            {"optimizer_args": "beta1=0.5"},
            "generator_optimizer and discriminator_optimizer_args are set",
            {"discriminator_optimizer_args": None},
        ),
        (
            {"schedule": "cosine"},
            "generator_schedule and discriminator_schedule are set",
            {"generator_schedule": None},
        ),
        (
            {"decay_steps": 5},
            "schedule is constant",
            {"generator_schedule": "cosine", "preset": "dcgan"},
        ),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_an_option_without_effect_is_noted(flags, reason, neighbour):
    (name,) = flags
    others = {
        "generator_conditional": {"conditional": "none"},
        "attention": {"network": "mlp"},
        "features_plugin": {"features": "pixels"},
        "norm_samples": {"generator_norm": "layer"},
        "sample_count": {"sample_steps": 0},
        "learning_rate": {"generator_rate": 1, "discriminator_rate": 1},
        "optimizer": {"generator_optimizer": "adam", "discriminator_optimizer": "adam"},
        "optimizer_args": {
            "generator_optimizer": "adam",
            "discriminator_optimizer_args": "beta1=0",
        },
        "schedule": {"generator_schedule": "step", "discriminator_schedule": "step"},
        "decay_steps": {"preset": "dcgan"},
    }.get(name, {})
    assert idle(**flags, **others) == {name: reason}
    used = {n: v for n, v in dict(others, **neighbour).items() if v is not None}
    assert idle(**flags, **used) == {}


def test_simultaneous_updates_have_one_of_the_discriminator():
    with pytest.raises(UsageError, match="set n_critic to 1"):
        options(update="simultaneous", n_critic=2)
    assert options(update="simultaneous", n_critic=1).n_critic == 1


@pytest.mark.parametrize("value, path", [("runs/a", "X/runs/a"), ("auto", "auto")])
def test_features_that_name_a_run_are_a_path(value, path):
    assert map_paths(GanOptions, "features", value, lambda text: "X/" + text) == path
