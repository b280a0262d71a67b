"""The core's options: what every run has, whatever its plugin."""

from __future__ import annotations

from typing import Dict, List, Optional

import pydantic
from typing_extensions import Literal

from .declaration import Options, option


class CoreOptions(Options):
    """What every run has, whatever its plugin."""

    data: str = option("mnist5k", "data source, see 'toolkit data list'", group="Data")
    image_size: Optional[int] = option(
        None, "resize images to this height and width", unit="pixels", group="Data", ge=1, le=4096
    )
    channels: Optional[Literal[1, 3]] = option(
        None, "convert images to grey (1) or colour (3)", group="Data"
    )
    validation_share: float = option(
        0.1,
        "share of the training examples held out where the data has no validation split",
        group="Data",
        ge=0,
        le=0.5,
    )
    input: Literal["auto", "resident", "stream"] = option(
        "auto", "keep the data in memory, stream it, or choose by its size", group="Data"
    )
    resident_limit: int = option(
        1024, "largest data that 'auto' keeps in memory", unit="MiB", group="Data", ge=0
    )
    shuffle_buffer: int = option(
        10000, "examples that a streamed epoch is shuffled in", unit="examples", group="Data", ge=1
    )
    batch_size: int = option(64, "examples per step", unit="examples", group="Data", ge=1)

    steps: Optional[int] = option(
        None,
        "stop after this step; --epochs no longer counts",
        unit="steps",
        group="Length",
        resume_may_change=True,
        ge=1,
    )
    epochs: float = option(
        10.0,
        "stop after this many passes over the data",
        group="Length",
        resume_may_change=True,
        gt=0,
    )
    max_secs: Optional[float] = option(
        None,
        "stop after this time; resume goes on",
        unit="seconds",
        group="Length",
        affects_result=False,
        gt=0,
    )

    optimizer: str = option("adam", "name of a tf.train optimizer", group="Optimisation")
    optimizer_args: Dict[str, float] = option(
        {}, "further arguments of the optimizer, as beta1=0.5,beta2=0.9", group="Optimisation"
    )
    learning_rate: float = option(
        0.001, "learning rate, before its schedule", group="Optimisation", gt=0
    )
    schedule: Literal["constant", "cosine", "step", "exponential"] = option(
        "constant", "how the learning rate falls", group="Optimisation"
    )
    warmup_steps: int = option(
        0, "steps over which the rate rises linearly", unit="steps", group="Optimisation", ge=0
    )
    decay_steps: Optional[int] = option(
        None,
        "length of a cosine, or steps between two decays; default: the run, or a tenth of it",
        unit="steps",
        group="Optimisation",
        ge=1,
    )
    decay_rate: float = option(
        0.5, "factor per decay (step, exponential)", group="Optimisation", gt=0, le=1
    )
    clip: Literal["value", "norm", "global-norm", "none"] = option(
        "value", "clip gradients by value, per variable norm or global norm", group="Optimisation"
    )
    clip_at: float = option(1.0, "the clipping limit", group="Optimisation", gt=0)
    accumulate: int = option(
        1, "steps whose mean gradient makes one update", unit="steps", group="Optimisation", ge=1
    )
    weight_decay: float = option(
        0.0,
        "decoupled decay of variables with two or more dimensions, per unit of learning rate",
        group="Optimisation",
        ge=0,
    )
    nan: Literal["stop", "skip"] = option(
        "stop", "at a non-finite loss or gradient: stop, or skip the step", group="Optimisation"
    )

    log_steps: int = option(
        100, "metrics every N steps", unit="steps", group="Reports", affects_result=False, ge=1
    )
    console_secs: float = option(
        2.0,
        "least time between two lines in a pipe",
        unit="seconds",
        group="Reports",
        affects_result=False,
        ge=0,
    )
    summary_steps: Optional[int] = option(
        None,
        "TensorBoard events every N steps; default 100",
        unit="steps",
        group="Reports",
        affects_result=False,
        ge=1,
    )
    summary_secs: Optional[float] = option(
        None,
        "TensorBoard events every N seconds",
        unit="seconds",
        group="Reports",
        affects_result=False,
        gt=0,
    )

    checkpoint_steps: Optional[int] = option(
        None,
        "checkpoint every N steps",
        unit="steps",
        group="Checkpoints",
        affects_result=False,
        ge=1,
    )
    checkpoint_secs: Optional[float] = option(
        None,
        "checkpoint every N seconds; default 60 without --checkpoint-steps",
        unit="seconds",
        group="Checkpoints",
        affects_result=False,
        gt=0,
    )
    keep: int = option(
        5,
        "newest checkpoints to keep",
        unit="checkpoints",
        group="Checkpoints",
        affects_result=False,
        ge=1,
    )
    keep_every_hours: Optional[float] = option(
        None,
        "also keep one checkpoint per N hours",
        unit="hours",
        group="Checkpoints",
        affects_result=False,
        gt=0,
    )

    evaluate: bool = option(
        True,
        "evaluate the validation split during training",
        group="Evaluation",
        resume_may_change=True,
    )
    evaluate_steps: Optional[int] = option(
        None,
        "evaluate every N steps; default --checkpoint-steps, else ten times a run",
        unit="steps",
        group="Evaluation",
        resume_may_change=True,
        ge=1,
    )
    eval_batch_size: int = option(
        500,
        "examples per evaluation step",
        unit="examples",
        group="Evaluation",
        resume_may_change=True,
        ge=1,
    )
    best: Optional[str] = option(
        None,
        "metric that names the best checkpoint; 'min:NAME' or 'max:NAME' says which way",
        group="Evaluation",
        resume_may_change=True,
    )
    early_stopping: int = option(
        0,
        "stop when --best has not improved in N evaluations; 0 is off",
        unit="evaluations",
        group="Evaluation",
        resume_may_change=True,
        ge=0,
    )

    seed: int = option(1, "seed of everything random", group="Machine", ge=0, lt=2**31)
    intra_op_threads: int = option(
        0,
        "threads within an op; 0: one for a small step, else as TensorFlow chooses",
        unit="threads",
        group="Machine",
        affects_result=False,
        ge=0,
        le=4096,
    )
    inter_op_threads: int = option(
        0,
        "ops at the same time; 0 lets TensorFlow choose",
        unit="threads",
        group="Machine",
        affects_result=False,
        ge=0,
        le=4096,
    )
    gpu_memory_growth: bool = option(
        True, "take GPU memory as it is needed", group="Machine", affects_result=False
    )
    gpu_memory_fraction: Optional[float] = option(
        None, "largest share of a GPU's memory", group="Machine", affects_result=False, gt=0, le=1
    )
    log_device_placement: bool = option(
        False, "log the device of every op (with -v)", group="Machine", affects_result=False
    )
    steps_per_call: Optional[int] = option(
        None,
        "most steps in one call of the session; auto: by the time of a step",
        unit="steps",
        group="Machine",
        affects_result=False,
        ge=1,
    )
    xla: Literal["auto", "on", "off"] = option(
        "auto",
        "compile the training step with XLA: where it is faster, always, never",
        group="Machine",
        affects_result=False,
    )
    profile_hooks: bool = option(
        False,
        "tell at the end what each session hook cost per step",
        group="Machine",
        affects_result=False,
    )
    profile_steps: List[int] = option(
        [],
        "steps to trace into profile/, as 100,101",
        unit="steps",
        group="Machine",
        affects_result=False,
    )

    @pydantic.field_validator("steps_per_call", mode="before")
    @classmethod
    def _by_time(cls, value):
        return None if value == "auto" else value

    @pydantic.field_validator("xla", mode="before")
    @classmethod
    def _as_it_was(cls, value):
        """Runs of earlier versions say yes or no."""
        return {True: "on", False: "off"}.get(value, value) if isinstance(value, bool) else value

    @pydantic.field_validator("best")
    @classmethod
    def _known_direction(cls, value):
        if value and ":" in value and value.split(":", 1)[0] not in ("min", "max"):
            raise ValueError("write NAME, min:NAME or max:NAME")
        return value

    @pydantic.model_validator(mode="after")
    def _early_stopping_needs_best(self):
        if self.early_stopping and not self.best:
            raise ValueError("early_stopping needs a metric to watch: set best")
        if (self.best or self.early_stopping) and not self.evaluate:
            raise ValueError("best needs evaluations: leave evaluate on, or best out")
        return self
