"""The options and presets of the GAN, and the combinations that are refused."""

import pytest
from gan_fixtures import make_run
from toolkit_gan import checks
from toolkit_gan import model as models
from toolkit_gan.options import PRESETS, GanOptions
from toolkit_gan.presets import FEW_IMAGES

from toolkit import DataError, DataSpec, UsageError
from toolkit.options import resolve


@pytest.mark.parametrize(
    "classes, num_images, name, reason",
    [
        (10, FEW_IMAGES, "quick", "the 3,000 images have labels of 10 classes"),
        (10, FEW_IMAGES - 1, "small-data", "the 2,999 images are fewer than 3,000"),
        (0, 60000, "unlabelled", "the 60,000 images have no labels"),
        (1, 60000, "unlabelled", "the 60,000 images have one class"),  # which tells nothing
        (0, 90, "small-data", "the 90 images are fewer than 3,000; it sets clusters as labels"),
        (2, 89, "tiny-data", "the 89 images are fewer than 90"),
        (0, 1, "tiny-data", "there is one image"),
    ],
)
def test_the_data_choose_a_preset(classes, num_images, name, reason):
    data = make_run(classes=classes).data
    assert GanOptions.choose_preset(data, num_images) == (name, reason)


@pytest.mark.parametrize("num_images", [700, 5000])
def test_classes_that_are_too_small_are_named_with_the_ways_out(num_images):
    data = make_run(classes=num_images // 10).data
    reason = GanOptions.choose_preset(data, num_images)[1]
    assert f"their {data.num_classes} classes are too small to be learned" in reason
    assert reason.endswith("one folder for all images, or --conditional none, leaves them out")


@pytest.mark.parametrize("shape", [(12,), (7, 9, 1)])
def test_no_network_clusters_what_is_smaller_than_its_filters(shape):
    name, reason = GanOptions.choose_preset(DataSpec(shape, "float32"), 60000)
    assert (name, reason) == ("quick", "the 60,000 images have no labels, and no 8 x 8 pixels")
    check(**{**PRESETS["quick"], "shape": shape, "conditional": "auto", "network": "mlp"})


def check(**values):
    """Check the options of a run as a training does."""
    run = make_run(**values)
    checks.check_networks(run.options, run.data)
    checks.check_method(run.options, run.options.batch_size, total_steps=run.total_steps)


NORM_LABELS = {"conditional": "projection", "generator_conditional": "batch-norm", "classes": 3}
CLUSTERS = {"conditional": "clusters", "clusters": 4}
MIXING = {"discriminator_norm": "batch", "penalty": "r1"}
R3GAN = {"network": "r3gan", "spectral_norm": False}
VECTORS = {"shape": (5,), "network": "mlp", "diff_augment": "cutout"}
AT_ONCE = {"update": "simultaneous", "discriminator_steps": 2}
SUMS = {"accumulate": 2, "discriminator_steps": 5}
RARE_PENALTY = {"penalty": "r1", "penalty_steps": 16, "total_steps": 15}
LATE_LECAM = {"lecam": 0.3, "lecam_start": 5, "total_steps": 5}


@pytest.mark.parametrize(
    "message, refused, change",
    [
        # Batch norm in the discriminator, where there is some, with a penalty.
        (
            "discriminator_norm=batch. mixes the examples of a batch, and penalty=r1 needs",
            MIXING,
            {"discriminator_norm": "layer"},
        ),
        ("mixes the examples of a batch", dict(MIXING, network="resnet"), {"penalty": "none"}),
        ("mixes the examples of a batch", dict(MIXING, shape=(16, 16, 1)), R3GAN),
        # Images and networks.
        ("Network 'dcgan' .*has shape .13.", {"shape": (13,)}, {"network": "mlp"}),
        ("has 7 x 9", {"shape": (7, 9, 1), "network": "resnet"}, {"shape": (8, 9, 1)}),
        ("has 9 x 7", {"shape": (9, 7, 3)}, {"shape": (9, 8, 3)}),
        ("diff_augment=cutout changes images", VECTORS, {"diff_augment": "auto"}),
        (
            "smallest feature map of 28 x 20 pixels has 7 x 5.\nSet attention=5 or more",
            {"shape": (28, 20, 1), "attention": 4},
            {"attention": 5},
        ),
        # Labels in the generator's norm.
        ("norm is none", dict(NORM_LABELS, generator_norm="none"), {"conditional": "none"}),
        ("r3gan has none", dict(NORM_LABELS, preset="r1r2", **R3GAN), {"conditional": "none"}),
        ("spectral_norm divides", {"network": "r3gan", "spectral_norm": True}, R3GAN),
        # Updates and groups.
        ("set discriminator_steps to 1", AT_ONCE, {"discriminator_steps": 1}),
        ("accumulate is 2 and discriminator_steps is 5", SUMS, {"discriminator_steps": 1}),
        *[
            (
                f"minibatch_stddev is {size} and batch_size is {batch_size}",
                {"minibatch_stddev": size, "batch_size": batch_size},
                {"minibatch_stddev": other},
            )
            for size, batch_size, other in [(1, 4, 4), (4, 6, 3), (4, 7, 0)]
        ],
        ("penalty_steps is 16 and the training has 15 steps", RARE_PENALTY, {"total_steps": 16}),
        ("lecam_start is 5 and the training has 5 steps", LATE_LECAM, {"total_steps": 6}),
        # Clusters.
        ("Clusters is 1: set 2 or more", dict(CLUSTERS, clusters=1), {"clusters": 2}),
        ("clusters is 4, and each of the 5 classes", dict(CLUSTERS, classes=5), {"classes": 4}),
        (
            "cluster_features=self needs images of 8 x 8",
            dict(CLUSTERS, cluster_features="self", network="mlp", shape=(6, 8, 1)),
            {"shape": (8, 8, 1)},
        ),
        # Names of changes.
        *[
            ("diff_augment", {"diff_augment": value}, {"diff_augment": "flip,cutout"})
            for value in ("none,cutout", "auto,none", "color")
        ],
    ],
)
def test_a_combination_is_refused_until_one_of_its_options_changes(message, refused, change):
    with pytest.raises(UsageError, match=message):
        check(**refused)
    check(**dict(refused, **change))


@pytest.mark.parametrize("conditional", ["concat", "acgan", "projection"])
@pytest.mark.parametrize("classes, count", [(0, "no labels"), (1, "one class")])
def test_a_conditional_network_needs_two_classes(conditional, classes, count):
    message = f"conditional={conditional} needs two classes or more, and the data has {count}"
    with pytest.raises(DataError, match=message):
        check(classes=classes, conditional=conditional)
    check(classes=2, conditional=conditional)
    check(classes=classes, conditional="auto")


def test_labels_in_the_batch_norm_need_labels():
    flags = {"generator_norm": "batch", "generator_conditional": "batch-norm"}
    with pytest.raises(DataError, match="needs labels of two classes or more"):
        check(conditional="auto", **flags)
    check(conditional="auto", classes=2, **flags)
    check(conditional="none", **flags)  # it is noted


def test_an_evaluation_is_not_refused_for_the_length_of_its_training():
    models.build(make_run(mode="eval", total_steps=3, penalty="r1", penalty_steps=16))


def idle(words):
    """The options set by these words that have no effect, each with the reason."""
    flags = dict(word.split("=", 1) for word in words.split())
    notes = resolve([("gan", GanOptions)], flags=flags).notes
    return {n.split(" ")[0]: n.split("no effect: ")[1] for n in notes if "no effect" in n}


RATES = "generator_rate and discriminator_rate are set"
ARGUMENTS = "generator_optimizer and discriminator_optimizer_args are set"
NO_NORM = "the generator has no batch norm"
OWN = "network=r3gan"
COSINE = "preset=dcgan generator_schedule=cosine"


@pytest.mark.parametrize(
    "flag, others, reason, used_with",
    [
        ("penalty_weight=3", "", "penalty is none", "penalty=r1"),
        ("ema=0.99", "ema_images=1000", "ema_images is set", ""),
        ("norm_samples=9", "generator_norm=layer", NO_NORM, "generator_norm=batch"),
        ("norm_samples=9", OWN, NO_NORM, "network=resnet"),
        ("learning_rate=0.1", "generator_rate=1 discriminator_rate=1", RATES, "generator_rate=1"),
        (
            "optimizer_args=beta1=0.5",
            "generator_optimizer=adam discriminator_optimizer_args=beta1=0",
            ARGUMENTS,
            "generator_optimizer=adam",
        ),
        ("decay_steps=5", "preset=dcgan", "schedule is constant", COSINE),
        ("generator_norm=layer", OWN, "network r3gan has no normalisation", "network=resnet"),
    ],
)
def test_an_option_without_effect_is_noted(flag, others, reason, used_with):
    assert idle(f"{flag} {others}") == {flag.split("=")[0]: reason}
    assert idle(f"{flag} {used_with}") == {}
