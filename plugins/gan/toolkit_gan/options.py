"""The GAN's options and presets: names, types, defaults and limits. Imports no TensorFlow."""

from __future__ import annotations

from typing import Any, ClassVar, Dict, Mapping, Optional

import pydantic
from typing_extensions import Literal

from toolkit import Options, option

# The options that each preset sets. Flags and configuration files take precedence.
PRESETS: Dict[str, Dict[str, Any]] = {
    # Our own: sn-hinge with ten times the learning rate, falling to zero. Of the methods tried on
    # MNIST, it reached the lowest Frechet distance in the same time.
    "quick": {
        "loss": "hinge",
        "spectral_norm": True,
        "learning_rate": 2e-3,
        "schedule": "cosine",
        "optimizer_args": {"beta1": 0.0, "beta2": 0.9},
    },
    # Radford et al. 2016
    "dcgan": {
        "loss": "non-saturating",
        "learning_rate": 2e-4,
        "optimizer_args": {"beta1": 0.5, "beta2": 0.999},
        "discriminator_norm": "batch",
    },
    # Arjovsky et al. 2017. As in its authors' code, the clipping includes the scales of batch norm.
    "wgan": {
        "loss": "wasserstein",
        "optimizer": "rmsprop",
        "optimizer_args": {},
        "learning_rate": 5e-5,
        "weight_clip": 0.01,
        "n_critic": 5,
        "discriminator_norm": "batch",
    },
    # Gulrajani et al. 2017
    "wgan-gp": {
        "loss": "wasserstein",
        "penalty": "wgan-gp",
        "learning_rate": 1e-4,
        "optimizer_args": {"beta1": 0.5, "beta2": 0.9},
        "n_critic": 5,
    },
    # Loss and optimizer of Miyato et al. 2018, who make five updates of the discriminator per step;
    # this makes one.
    "sn-hinge": {
        "loss": "hinge",
        "spectral_norm": True,
        "learning_rate": 2e-4,
        "optimizer_args": {"beta1": 0.0, "beta2": 0.9},
    },
    # Mao et al. 2017
    "lsgan": {
        "loss": "least-squares",
        "learning_rate": 2e-4,
        "optimizer_args": {"beta1": 0.5, "beta2": 0.999},
        "discriminator_norm": "batch",
    },
    # Kodali et al. 2017
    "dragan": {
        "loss": "non-saturating",
        "penalty": "dragan",
        "learning_rate": 1e-4,
        "optimizer_args": {"beta1": 0.5, "beta2": 0.999},
    },
    # Huang et al. 2024: a relativistic loss with R1 and R2
    "r1r2": {
        "loss": "relativistic",
        "penalty": "r1r2",
        "learning_rate": 2e-4,
        "optimizer_args": {"beta1": 0.0, "beta2": 0.99},
        "generator_norm": "none",
    },
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

    preset: Literal["quick", "dcgan", "wgan", "wgan-gp", "sn-hinge", "lsgan", "dragan", "r1r2"] = (
        option("quick", "named combination of loss, penalty and optimizer", group="Method")
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
        used_if={"penalty": ("wgan-gp", "lp", "dragan", "r1", "r1r2")},
        ge=0,
    )
    weight_clip: float = option(
        0.0,
        "clip each parameter of the discriminator to +-this; 0 is off",
        group="Method",
        ge=0,
    )
    update: Literal["alternating", "simultaneous"] = option(
        "alternating",
        "update discriminator and generator in turn, or both at once",
        group="Method",
    )
    n_critic: int = option(
        1,
        "updates of the discriminator (critic) per step, each on its own batch",
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
        aliases=("critic_rate",),
        gt=0,
    )
    ema: float = option(
        0.999,
        "decay of the moving average of the generator's weights, used for samples; 0 is off",
        group="Method",
        ge=0,
        lt=1,
    )

    network: Literal["mlp", "dcgan", "resnet"] = option(
        "dcgan", "perceptron, strided convolutions, or residual blocks", group="Network"
    )
    width: int = option(
        0,
        "filters at full size (mlp: units / 8); 0: 32, or 16 for the resnet",
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
    conditional: Literal["auto", "none", "concat", "acgan", "projection"] = option(
        "auto",
        "how both networks use the class; auto: projection if the data has classes",
        group="Network",
    )
    class_weight: float = option(
        1.0,
        "weight of acgan's class loss (lambda_c)",
        group="Network",
        used_if={"conditional": "acgan"},
        ge=0,
    )
    spectral_norm: bool = option(
        False, "divide the discriminator's kernels by their spectral norm", group="Network"
    )
    generator_norm: Literal["none", "batch", "layer"] = option(
        "batch", "normalisation in the generator", group="Network"
    )
    discriminator_norm: Literal["none", "batch", "layer"] = option(
        "none", "normalisation in the discriminator", group="Network", aliases=("critic_norm",)
    )
    norm_samples: int = option(
        1000,
        "samples that the statistics of batch norm are computed on",
        unit="samples",
        group="Network",
        aliases=("standing",),
        ge=2,
    )

    sample_steps: int = option(
        500,
        "write a grid of samples and check the training's health every N steps; 0 is off",
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

    features: str = option(
        "auto",
        "source of the scores' features: auto (a classifier, trained once), RUN, or pixels",
        group="Evaluation",
        path=True,
        words=("auto", "pixels"),
        resume_may_change=True,
    )
    features_plugin: str = option(
        "classifier",
        "plugin of the classifier that --features auto trains",
        group="Evaluation",
        path="reference",
        used_if={"features": "auto"},
        resume_may_change=True,
    )
    quick_samples: int = option(
        2000,
        "samples for the scores during training",
        unit="samples",
        group="Evaluation",
        resume_may_change=True,
        ge=100,
    )
    score_samples: int = option(
        10000,
        "samples for the scores of 'toolkit evaluate'",
        unit="samples",
        group="Evaluation",
        resume_may_change=True,
        ge=100,
    )
    score_seeds: int = option(
        5,
        "sets of samples for the confidence interval of the Frechet distance",
        unit="sets",
        group="Evaluation",
        resume_may_change=True,
        ge=1,
    )

    def idle_options(self) -> Dict[str, str]:
        reasons = super().idle_options()
        if self.generator_rate is not None and self.discriminator_rate is not None:
            reasons["learning_rate"] = "generator_rate and discriminator_rate are set"
        if "batch" not in (self.generator_norm, self.discriminator_norm):
            reasons["norm_samples"] = "no network has batch norm"
        if self.sample_steps == 0:
            reasons["sample_count"] = "sample_steps is 0"
        return reasons

    @property
    def batches_per_step(self) -> int:
        """One batch for each update of the discriminator."""
        return self.n_critic

    @pydantic.model_validator(mode="after")
    def _consistent(self):
        if self.update == "simultaneous" and self.n_critic != 1:
            raise ValueError(
                "simultaneous updates have one of the discriminator per step, but n_critic is "
                f"{self.n_critic}: set n_critic to 1 or update to alternating"
            )
        return self
