"""The GAN's options and presets: names, types, defaults, limits. Imports no TensorFlow."""

from __future__ import annotations

from typing import Any, ClassVar, Dict, Mapping, Optional

import pydantic
from typing_extensions import Literal

from toolkit import Options, option

# What each named recipe sets; a flag or a configuration file still overrules any of it.
PRESETS: Dict[str, Dict[str, Any]] = {
    # Ours: sn-hinge with ten times the rate, falling to zero. Of what was tried on MNIST it came
    # nearest to the data in the same time.
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
        "critic_norm": "batch",
    },
    # Arjovsky et al. 2017
    "wgan": {
        "loss": "wasserstein",
        "optimizer": "rmsprop",
        "optimizer_args": {},
        "learning_rate": 5e-5,
        "weight_clip": 0.01,
        "n_critic": 5,
        "critic_norm": "batch",
    },
    # Gulrajani et al. 2017
    "wgan-gp": {
        "loss": "wasserstein",
        "penalty": "wgan-gp",
        "learning_rate": 1e-4,
        "optimizer_args": {"beta1": 0.5, "beta2": 0.9},
        "n_critic": 5,
    },
    # Miyato et al. 2018
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
        "critic_norm": "batch",
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
    """Chosen so that the default preset draws readable digits in about three minutes."""

    core_defaults: ClassVar[Mapping[str, Any]] = {
        "steps": 3000,
        "batch_size": 64,
        "clip": "none",
        "best": "min:frechet_distance",
        "evaluate_steps": 500,
    }
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = PRESETS

    preset: Literal["quick", "dcgan", "wgan", "wgan-gp", "sn-hinge", "lsgan", "dragan", "r1r2"] = (
        option("quick", "named combination of loss, penalty and optimizer", group="Method")
    )
    loss: Literal[
        "non-saturating", "minimax", "least-squares", "wasserstein", "hinge", "relativistic"
    ] = option("non-saturating", "what discriminator and generator minimise", group="Method")
    penalty: Literal["none", "wgan-gp", "lp", "dragan", "r1", "r1r2"] = option(
        "none", "penalty on the gradient of the discriminator's logits", group="Method"
    )
    penalty_weight: Optional[float] = option(
        None, "weight of the penalty; default: 10, for r1 and r1r2 0.1", group="Method", ge=0
    )
    weight_clip: float = option(
        0.0,
        "keep each weight of the discriminator within this of zero; 0 is off",
        group="Method",
        ge=0,
    )
    update: Literal["alternating", "simultaneous"] = option(
        "alternating",
        "update the generator after the discriminator, or both at once",
        group="Method",
    )
    n_critic: int = option(
        1,
        "updates of the discriminator per step, each on fresh data",
        unit="updates",
        group="Method",
        ge=1,
        le=100,
    )
    generator_rate: Optional[float] = option(
        None, "the generator's learning rate; default: --learning-rate", group="Method", gt=0
    )
    critic_rate: Optional[float] = option(
        None, "the discriminator's learning rate; default: --learning-rate", group="Method", gt=0
    )
    ema: float = option(
        0.999,
        "decay of the average of the generator's weights that samples come from; 0 is off",
        group="Method",
        ge=0,
        lt=1,
    )

    network: Literal["mlp", "dcgan", "resnet"] = option(
        "dcgan", "perceptron, strided convolutions, or residual blocks", group="Network"
    )
    width: int = option(
        0,
        "filters at full size (units / 8 of the mlp); 0: 32, of the resnet 16",
        unit="filters",
        group="Network",
        ge=0,
        le=1024,
    )
    latent_size: int = option(
        64, "numbers that an image is made from", unit="numbers", group="Network", ge=1, le=4096
    )
    latent: Literal["normal", "uniform"] = option(
        "normal", "N(0, 1), or uniform in [-1, 1]", group="Network"
    )
    conditional: Literal["auto", "none", "concat", "acgan", "projection"] = option(
        "auto",
        "how the class enters discriminator and generator; auto: by projection where there are classes",
        group="Network",
    )
    class_weight: float = option(
        1.0, "weight of acgan's class loss (lambda_c)", group="Network", ge=0
    )
    spectral_norm: bool = option(
        False, "divide the discriminator's kernels by their norm", group="Network"
    )
    generator_norm: Literal["none", "batch", "layer"] = option(
        "batch", "normalisation in the generator", group="Network"
    )
    critic_norm: Literal["none", "batch", "layer"] = option(
        "none", "normalisation in the discriminator", group="Network"
    )
    standing: int = option(
        1000,
        "samples that batch norm's statistics are recomputed on",
        unit="samples",
        group="Network",
        ge=2,
    )

    sample_steps: int = option(
        500,
        "a grid of samples and a look at the health every N steps; 0 is off",
        unit="steps",
        group="Reports",
        resume_may_change=True,
        ge=0,
    )
    sample_count: int = option(
        64,
        "images of a grid; a conditional model has a row per class",
        unit="images",
        group="Samples",
        ge=1,
        le=1024,
    )

    features: str = option(
        "auto",
        "what scores see by: a classifier's RUN; auto trains one, pixels does without",
        group="Evaluation",
        resume_may_change=True,
    )
    features_plugin: str = option(
        "classifier",
        "the plugin that auto trains for its features",
        group="Evaluation",
        resume_may_change=True,
    )
    quick_samples: int = option(
        2000,
        "samples of the score at each checkpoint",
        unit="samples",
        group="Evaluation",
        resume_may_change=True,
        ge=100,
    )
    score_samples: int = option(
        10000,
        "samples of 'toolkit evaluate'",
        unit="samples",
        group="Evaluation",
        resume_may_change=True,
        ge=100,
    )
    score_seeds: int = option(
        5,
        "sets of samples that the distance's interval comes from",
        unit="sets",
        group="Evaluation",
        resume_may_change=True,
        ge=1,
    )

    @property
    def batches_per_step(self) -> int:
        """Each update of the discriminator has a batch of its own."""
        return self.n_critic

    @pydantic.model_validator(mode="after")
    def _consistent(self):
        if self.update == "simultaneous" and self.n_critic != 1:
            raise ValueError(
                "simultaneous updates have one of the discriminator per step, but n_critic is "
                f"{self.n_critic}:"
                " set n_critic to 1 or update to alternating"
            )
        return self
