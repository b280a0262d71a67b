"""The GAN's options and presets: names, types, defaults and limits. Imports no TensorFlow."""

from __future__ import annotations

from typing import Any, ClassVar, Dict, List, Mapping, Optional, Sequence, Tuple

import pydantic
from typing_extensions import Literal

from toolkit import DataSpec, OptimizerArguments, Options, SampleOptions, option

from . import presets as recipes
from .presets import PRESETS

IMAGES_PER_PATH = 8  # of an interpolation, from one random point to the next

NETWORKS = ("generator", "discriminator")
PENALTIES = ("wgan-gp", "lp", "dragan", "r1", "r1r2")  # the values of `penalty` but none
# Option of the core -> the schedules that use it.
DECAYS = {
    "decay_steps": {"cosine", "step", "exponential"},
    "decay_rate": {"step", "exponential"},
}
# Option of the core -> the settings of a network that replace it.
OWN_SETTINGS = {
    "learning_rate": ("rate",),
    "optimizer": ("optimizer",),
    "optimizer_args": ("optimizer", "optimizer_args"),
    "schedule": ("schedule",),
}


class GanOptions(Options):
    """Defaults with which the preset `quick` draws readable digits in about three minutes."""

    core_defaults: ClassVar[Mapping[str, Any]] = {
        "steps": 3000,
        "batch_size": 64,
        "clip": "none",
        "best_metric": "min:frechet_distance",
        "evaluate_steps": 500,
    }
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = PRESETS

    preset: Literal[
        "auto",
        "quick",
        "unlabelled",
        "small-data",
        "tiny-data",
        "dcgan",
        "wgan",
        "wgan-gp",
        "sn-hinge",
        "lsgan",
        "dragan",
        "r1r2",
    ] = option(
        "auto",
        "the method; auto: quick with labels, unlabelled without, small-data or tiny-data for few "
        "images; the others after papers",
        group="Method",
    )
    loss: Literal[
        "non-saturating", "minimax", "least-squares", "wasserstein", "hinge", "relativistic"
    ] = option("non-saturating", "the losses of discriminator and generator", group="Method")
    penalty: Literal["none", "wgan-gp", "lp", "dragan", "r1", "r1r2"] = option(
        "none", "penalty on the discriminator's gradient at images", group="Method"
    )
    penalty_weight: Optional[float] = option(
        None,
        "weight of the penalty; default: 10, for r1 and r1r2 0.1",
        group="Method",
        used_if={"penalty": PENALTIES},
        ge=0,
    )
    penalty_steps: int = option(
        1,
        "compute the penalty on every N-th step alone, with N times its weight",
        unit="steps",
        group="Method",
        used_if={"penalty": PENALTIES},
        ge=1,
        le=1000,
    )
    penalty_decay: float = option(
        1.0,
        "share of the penalty's weight that is left at the end of the run; it falls in a cosine",
        group="Method",
        used_if={"penalty": PENALTIES},
        ge=0,
        le=1,
    )
    weight_clip: float = option(
        0.0,
        "clip each parameter of the discriminator to +-this; 0 is off",
        group="Method",
        ge=0,
    )
    lecam: float = option(
        0.0,
        "weight of LeCam's penalty on the distance of the logits, for few images; 0 is off; the "
        "paper's is 0.3",
        group="Method",
        ge=0,
    )
    lecam_start: int = option(
        0, "first step with LeCam's penalty", unit="steps", group="Method", ge=0
    )
    diff_augment: List[Literal["none", "auto", "translation", "cutout", "colour", "flip"]] = option(
        ["none"],
        "change what the discriminator sees, for few images; auto: translation, cutout, and colour "
        "of colour images; flip: it mirrors letters, too",
        group="Method",
    )
    update: Literal["alternating", "simultaneous"] = option(
        "alternating",
        "update discriminator and generator in turn, or both at once",
        group="Method",
    )
    discriminator_steps: int = option(
        1,
        "updates of the discriminator per step, each on its own batch",
        unit="updates",
        group="Method",
        ge=1,
        le=100,
    )
    generator_rate: Optional[float] = option(
        None, "the generator's learning rate; default: --learning-rate", group="Method", gt=0
    )
    discriminator_rate: Optional[float] = option(
        None,
        "the discriminator's learning rate; default: --learning-rate",
        group="Method",
        gt=0,
    )
    generator_optimizer: Optional[str] = option(
        None, "the generator's optimizer; default: --optimizer", group="Method"
    )
    generator_optimizer_args: OptimizerArguments = option(
        {},
        "arguments of the generator's optimizer; default: --optimizer-args, or none with "
        "--generator-optimizer",
        group="Method",
    )
    generator_schedule: Optional[Literal["constant", "cosine", "step", "exponential"]] = option(
        None, "how the generator's learning rate falls; default: --schedule", group="Method"
    )
    discriminator_optimizer: Optional[str] = option(
        None, "the discriminator's optimizer; default: --optimizer", group="Method"
    )
    discriminator_optimizer_args: OptimizerArguments = option(
        {},
        "arguments of the discriminator's optimizer; default: --optimizer-args, or none with "
        "--discriminator-optimizer",
        group="Method",
    )
    discriminator_schedule: Optional[Literal["constant", "cosine", "step", "exponential"]] = option(
        None, "how the discriminator's learning rate falls; default: --schedule", group="Method"
    )
    ema: float = option(
        0.999,
        "decay of the moving average of the generator's weights, used for samples; 0 is off",
        group="Method",
        ge=0,
        lt=1,
    )
    ema_images: Optional[int] = option(
        None,
        "half-life of that average in images, in place of --ema; at first 5 % of the images so far",
        unit="images",
        group="Method",
        ge=1,
    )

    network: Literal["mlp", "dcgan", "resnet", "r3gan"] = option(
        "dcgan",
        "perceptron, strided convolutions, residual blocks, or blocks without norm (preset r1r2)",
        group="Network",
    )
    width: int = option(
        0,
        "filters at full size (mlp: units / 8); 0: 32, resnet 16, r3gan 8",
        unit="filters",
        group="Network",
        ge=0,
        le=1024,
    )
    latent_size: int = option(
        64, "latent numbers per image", unit="numbers", group="Network", ge=1, le=4096
    )
    latent: Literal["normal", "uniform"] = option(
        "normal", "distribution of latent numbers: N(0, 1), or uniform in [-1, 1]", group="Network"
    )
    conditional: Literal["auto", "none", "concat", "acgan", "projection", "clusters"] = option(
        "auto",
        "how both networks use the class; auto: projection if the data has classes; clusters: "
        "projection on clusters of the training images, which need no labels",
        group="Network",
    )
    clusters: int = option(
        0,
        "clusters of the training images; 0: by the number of images and steps, 2 to 100, and one "
        "or more for each class",
        unit="clusters",
        group="Network",
        used_if={"conditional": "clusters"},
        ge=0,
        le=1000,
    )
    cluster_features: Literal["pixels", "self"] = option(
        "pixels",
        "what the clusters are computed from: pixels, or a network that learns without labels "
        "(trained once, cached)",
        group="Network",
        used_if={"conditional": "clusters"},
    )
    generator_conditional: Literal["concat", "batch-norm"] = option(
        "concat",
        "how the generator uses the class: beside the latent numbers, or in each batch norm",
        group="Network",
        used_if={"conditional": ("auto", "concat", "acgan", "projection", "clusters")},
    )
    class_weight: float = option(
        1.0,
        "weight of acgan's class loss (lambda_c)",
        group="Network",
        used_if={"conditional": "acgan"},
        ge=0,
    )
    attention: int = option(
        0,
        "self-attention in the largest feature map whose shorter side has at most so many pixels; "
        "0 is off",
        unit="pixels",
        group="Network",
        used_if={"network": ("dcgan", "resnet")},
        ge=0,
        le=1024,
    )
    spectral_norm: bool = option(
        False, "divide the discriminator's kernels by their spectral norm", group="Network"
    )
    generator_norm: Literal["none", "batch", "layer"] = option(
        "batch", "normalisation in the generator", group="Network"
    )
    discriminator_norm: Literal["none", "batch", "layer"] = option(
        "none", "normalisation in the discriminator", group="Network"
    )
    minibatch_stddev: int = option(
        0,
        "images in a group whose standard deviation the discriminator sees, against samples that "
        "are all alike; 0 is off; usual is 4",
        unit="images",
        group="Network",
        ge=0,
        le=1024,
    )
    norm_samples: int = option(
        1000,
        "samples that the statistics of the generator's batch norm are computed on",
        unit="samples",
        group="Network",
        ge=2,
    )

    sample_steps: Optional[int] = option(
        None,
        "write a grid of samples and check the training's health every N steps; 0 is off; default: "
        "500, and a grid in each tenth of a shorter run",
        unit="steps",
        group="Reports",
        resume_may_change=True,
        ge=0,
    )
    sample_count: int = option(
        64,
        "images in a grid of samples; with classes, in rows of one class each",
        unit="images",
        group="Samples",
        ge=1,
        le=1024,
    )

    @classmethod
    def choose_preset(cls, data: DataSpec, num_examples: int) -> Tuple[str, str]:
        return recipes.choose(data, num_examples)

    def idle_options(self) -> Dict[str, str]:
        reasons = super().idle_options()
        for name, settings in OWN_SETTINGS.items():
            own = [self._own_setting(network, settings) for network in NETWORKS]
            if all(own):
                reasons[name] = f"{' and '.join(own)} are set"
        for name, schedules in DECAYS.items():
            if {self.generator_schedule, self.discriminator_schedule} & schedules:
                reasons.pop(name, None)
        if self.generator_norm != "batch" or self.network == "r3gan":
            reasons["norm_samples"] = "the generator has no batch norm"
        if self.lecam == 0:
            reasons["lecam_start"] = "lecam is 0"
        if self.ema_images is not None:
            reasons["ema"] = "ema_images is set"
        if self.network == "r3gan":
            norms = {name: getattr(self, name) for name in ("generator_norm", "discriminator_norm")}
            for name in (name for name, kind in norms.items() if kind != "none"):
                reasons[name] = "network r3gan has no normalisation"
        if self.sample_steps == 0:
            reasons["sample_count"] = "sample_steps is 0"
        return reasons

    def _own_setting(self, network: str, settings: Sequence[str]) -> str:
        """The option that sets one of the settings for a network alone; "" if none does."""
        names = [f"{network}_{setting}" for setting in settings]
        return next((name for name in names if getattr(self, name) not in (None, {})), "")

    @property
    def has_average(self) -> bool:
        """Whether samples come from an average of the generator's weights."""
        return self.ema > 0 or self.ema_images is not None

    @property
    def batches_per_step(self) -> int:
        """One batch for each update of the discriminator."""
        return self.discriminator_steps

    @pydantic.model_validator(mode="after")
    def _consistent(self):
        if self.clusters == 1:
            raise ValueError("clusters is 1: set 2 or more, 0 for a number that fits the data")
        if self.update == "simultaneous" and self.discriminator_steps != 1:
            raise ValueError(
                "simultaneous updates have one of the discriminator per step, but "
                f"discriminator_steps is {self.discriminator_steps}: set discriminator_steps to 1 "
                "or update to alternating"
            )
        return self

    @pydantic.field_validator("diff_augment")
    @classmethod
    def _none_stands_alone(cls, names):
        if "none" in names and len(set(names)) > 1:
            raise ValueError("'none' stands alone, without other names")
        return names


class GanSampleOptions(SampleOptions):
    """The settings of `toolkit sample`."""

    truncation: Optional[float] = option(
        None, "limit latent numbers to +-X: cleaner, less varied images", gt=0
    )
    interpolate: bool = option(False, "interpolate between random points")

    @property
    def columns(self) -> Optional[int]:
        """The images of a path; None without paths."""
        return IMAGES_PER_PATH if self.interpolate else None

    def file_words(self) -> List[str]:
        """As in earlier versions, a file of interpolations has "paths" in its name."""
        words = [] if self.truncation is None else [f"truncation-{self.truncation:g}"]
        return words + ["paths"] * self.interpolate
