"""`CoreOptions`: the options that every run has, whatever its plugin."""

from __future__ import annotations

import contextlib
import re
from typing import Any, Dict, Iterator, List, Optional, Union

import pydantic
from typing_extensions import Literal

from .. import data_value
from ..errors import UsageError
from .arguments import OptimizerArguments
from .declaration import Options, option
from .groups import Group, check_pattern, format_group, join_groups, parse_group

MAX_IMAGE_SIDE = 4096  # pixels


class CoreOptions(Options):
    """The options that every run has, whatever its plugin."""

    data: str = option(
        "mnist5k",
        "data source, or the path of a file or folder; see 'toolkit data list'",
        group="Data",
        path=data_value.PREFIXES,
    )
    image_size: Optional[Union[int, str]] = option(
        None,
        "size of images, 64 or WIDTHxHEIGHT, see --fit; files of one size may omit it",
        unit="pixels",
        group="Data",
    )
    fit: Literal["pad", "crop", "stretch"] = option(
        "pad",
        "how an image of another shape gets its size: scaled whole and padded, cut, or distorted",
        group="Data",
    )
    background: str = option(
        "white",
        "colour below transparent images and around padded ones, a name or #rrggbb",
        group="Data",
    )
    channels: Optional[Literal[1, 3]] = option(
        None, "convert images to grey (1) or colour (3)", group="Data"
    )
    skip_damaged: bool = option(
        False, "leave out image files that cannot be read, and count and name them", group="Data"
    )
    normalize: bool = option(
        False,
        "subtract the mean of the training examples, and divide by their standard deviation",
        group="Data",
    )
    label_column: List[str] = option(
        [],
        "column or key of the labels, several for a vector, or none; default: label, class, "
        "target or y",
        group="Data",
    )
    label_kind: Literal["auto", "class", "value"] = option(
        "auto",
        "whether labels are classes or values; auto: texts and few integers are classes",
        group="Data",
    )
    image_column: Optional[str] = option(
        None, "column of the paths of images, or key of encoded images", group="Data"
    )
    feature_columns: List[str] = option(
        [], "columns to use as features; default: all others", group="Data"
    )
    ignore_columns: List[str] = option([], "columns to leave out", group="Data")
    split_column: str = option(
        "split", "column that says train, validation or test, if there is one", group="Data"
    )
    missing: Literal["refuse", "drop", "fill"] = option(
        "refuse",
        "what becomes of empty fields: refuse the table, drop the row, or fill in the mean",
        group="Data",
    )
    categories: Literal["index", "one-hot"] = option(
        "index", "texts of few values: a class number each, or columns of 0 and 1", group="Data"
    )
    validation_share: float = option(
        0.1,
        "share of the training examples held out if the data has no validation split",
        group="Data",
        ge=0,
        le=0.5,
    )
    test_share: float = option(
        0.1,
        "share of the examples held out if the data has no test split",
        group="Data",
        ge=0,
        le=0.5,
    )
    folds: int = option(
        0,
        "divide the examples into so many parts; one of them is the test split",
        group="Data",
        ge=0,
    )
    fold: int = option(0, "which part of --folds is the test split, from 0", group="Data", ge=0)
    split_seed: int = option(0, "other numbers hold out other examples", group="Data", ge=0)
    reader: Literal["auto", "resident", "mapped", "stream"] = option(
        "auto",
        "keep the data in memory, decode it once into the cache, stream it, or decide by its size",
        group="Data",
    )
    resident_limit: int = option(
        1024,
        "largest data set that --reader auto keeps in memory",
        unit="MiB",
        group="Data",
        used_if={"reader": "auto"},
        ge=0,
    )
    shuffle_buffer: int = option(
        10000,
        "how many examples of a streamed epoch are shuffled at a time",
        unit="examples",
        group="Data",
        used_if={"reader": ("auto", "mapped", "stream")},
        ge=1,
    )
    batch_size: int = option(64, "examples per step", unit="examples", group="Data", ge=1)

    steps: Optional[int] = option(
        None,
        "stop after this step; takes precedence over --epochs",
        unit="steps",
        group="Length",
        resume_may_change=True,
        ge=1,
    )
    epochs: float = option(
        10.0,
        "stop after this many passes over the training data",
        group="Length",
        resume_may_change=True,
        gt=0,
    )
    max_secs: Optional[float] = option(
        None,
        "stop after this time; 'toolkit resume' continues the run",
        unit="seconds",
        group="Length",
        affects_result=False,
        gt=0,
    )

    init_from: Optional[str] = option(
        None,
        "start from the weights of RUN, RUN@STEP, a checkpoint or a SavedModel",
        group="Start",
        path="weights",
    )
    map: List[str] = option(
        [],
        "take variable (or scope/) OLD of --init-from as NEW: OLD=NEW, repeated or with commas",
        group="Start",
    )

    optimizer: str = option("adam", "name of a tf.train optimizer, or adamw", group="Optimisation")
    optimizer_args: OptimizerArguments = option(
        {},
        "further arguments of the optimizer, for example beta1=0.5,beta2=0.9 or use_nesterov=true",
        group="Optimisation",
    )
    learning_rate: float = option(
        0.001, "learning rate, before its schedule", group="Optimisation", gt=0
    )
    schedule: Literal["constant", "cosine", "step", "exponential"] = option(
        "constant", "how the learning rate falls during the run", group="Optimisation"
    )
    warmup_steps: int = option(
        0,
        "steps over which the learning rate rises linearly",
        unit="steps",
        group="Optimisation",
        ge=0,
    )
    decay_steps: Optional[int] = option(
        None,
        "length of the cosine, or steps between decays; default: the run, or a tenth of it",
        unit="steps",
        group="Optimisation",
        used_if={"schedule": ("cosine", "step", "exponential")},
        ge=1,
    )
    decay_rate: float = option(
        0.5,
        "factor of each decay (step, exponential)",
        group="Optimisation",
        used_if={"schedule": ("step", "exponential")},
        gt=0,
        le=1,
    )
    clip: Literal["value", "norm", "global-norm", "none"] = option(
        "value",
        "clip gradients by value, by the norm per variable, or by the global norm",
        group="Optimisation",
    )
    clip_limit: float = option(
        1.0,
        "largest value or norm of a clipped gradient",
        group="Optimisation",
        used_if={"clip": ("value", "norm", "global-norm")},
        gt=0,
    )
    accumulate: int = option(
        1,
        "steps whose gradients are averaged for one update",
        unit="steps",
        group="Optimisation",
        ge=1,
    )
    weight_decay: Optional[float] = option(
        None,
        "decoupled decay of variables with two or more dimensions, per unit of learning rate; "
        "default: 0, for adamw 0.01",
        group="Optimisation",
        ge=0,
    )
    decay_exclude: List[str] = option(
        [], "patterns of further variables that do not decay: */embedding", group="Optimisation"
    )
    group: List[str] = option(
        [],
        "rate or decay of the variables that a pattern fits: 'conv*:learning_rate=1e-4,"
        "weight_decay=0', once for each group; the first that fits a variable holds",
        group="Optimisation",
    )
    freeze: List[str] = option(
        [],
        "patterns of variables that stay as they are, batch norm's averages included: conv1/*",
        group="Optimisation",
    )
    on_nonfinite: Literal["stop", "skip"] = option(
        "stop",
        "if the loss or a gradient is not finite: stop, or skip the step",
        group="Optimisation",
    )

    log_steps: Optional[int] = option(
        None,
        "record mean metrics every N steps; default: each epoch, but 10 to 50 times in the run",
        unit="steps",
        group="Reports",
        affects_result=False,
        ge=1,
    )
    console_secs: float = option(
        2.0,
        "minimum time between progress lines if the output is not a terminal",
        unit="seconds",
        group="Reports",
        affects_result=False,
        ge=0,
    )
    summary_steps: Optional[int] = option(
        None,
        "write a plugin's tf.summary ops every N steps; default: --log-steps",
        unit="steps",
        group="Reports",
        affects_result=False,
        ge=1,
    )
    summary_secs: Optional[float] = option(
        None,
        "write a plugin's tf.summary ops every N seconds",
        unit="seconds",
        group="Reports",
        affects_result=False,
        gt=0,
    )

    page: bool = option(
        True,
        "write report.html at the end, a page that shows how the run went",
        group="Reports",
        affects_result=False,
    )
    keep_sources: bool = option(
        True,
        "keep copies of the plugins' sources in the run",
        group="Reports",
        affects_result=False,
    )

    checkpoint_steps: Optional[int] = option(
        None,
        "save a checkpoint every N steps",
        unit="steps",
        group="Checkpoints",
        affects_result=False,
        ge=1,
    )
    checkpoint_secs: Optional[float] = option(
        None,
        "save a checkpoint every N seconds; default 60 without --checkpoint-steps",
        unit="seconds",
        group="Checkpoints",
        affects_result=False,
        gt=0,
    )
    keep_checkpoints: int = option(
        5,
        "number of recent checkpoints to keep",
        unit="checkpoints",
        group="Checkpoints",
        affects_result=False,
        ge=1,
    )
    keep_every_hours: Optional[float] = option(
        None,
        "also keep one checkpoint every N hours",
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
        "evaluate every N steps; default: --checkpoint-steps, else ten times in the run, less "
        "often with many validation examples",
        unit="steps",
        group="Evaluation",
        resume_may_change=True,
        used_if={"evaluate": True},
        ge=1,
    )
    eval_batch_size: int = option(
        500,
        "examples per batch of an evaluation",
        unit="examples",
        group="Evaluation",
        resume_may_change=True,
        ge=1,
    )
    best_metric: Optional[str] = option(
        None,
        "metric that selects the best checkpoint; min:NAME or max:NAME sets what is better",
        group="Evaluation",
        resume_may_change=True,
    )
    early_stopping: int = option(
        0,
        "stop if --best-metric has not improved in N evaluations; 0: never",
        unit="evaluations",
        group="Evaluation",
        resume_may_change=True,
        used_if={"evaluate": True},
        ge=0,
    )

    seed: int = option(1, "seed of all random numbers", group="Machine", ge=0, lt=2**31)
    devices: int = option(
        1,
        "devices that share each batch: GPUs, or else virtual ones of the processor",
        unit="devices",
        group="Machine",
        affects_result=False,
        ge=1,
        le=256,
    )
    intra_op_threads: int = option(
        0,
        "threads within an op; 0: one for a small step, else TensorFlow's choice",
        unit="threads",
        group="Machine",
        affects_result=False,
        ge=0,
        le=4096,
    )
    inter_op_threads: int = option(
        0,
        "ops that run at the same time; 0: TensorFlow's choice",
        unit="threads",
        group="Machine",
        affects_result=False,
        ge=0,
        le=4096,
    )
    gpu_memory_growth: bool = option(
        True, "allocate GPU memory as it is needed", group="Machine", affects_result=False
    )
    gpu_memory_fraction: Optional[float] = option(
        None,
        "largest share of a GPU's memory to allocate",
        group="Machine",
        affects_result=False,
        gt=0,
        le=1,
    )
    log_device_placement: bool = option(
        False, "log the device of every op (with -v)", group="Machine", affects_result=False
    )
    steps_per_call: Optional[int] = option(
        None,
        "most training steps in one call of the session; auto: as many as take 20 ms",
        unit="steps",
        group="Machine",
        affects_result=False,
        ge=1,
    )
    xla: Literal["auto", "on", "off"] = option(
        "auto",
        "compile the training step with XLA; auto times both in a run of over a minute",
        group="Machine",
        affects_result=False,
    )
    rehash: bool = option(
        False,
        "hash all data files again, also those whose size, time and inode are known",
        group="Machine",
        affects_result=False,
    )
    profile_hooks: bool = option(
        False,
        "report at the end how long each session hook took per step",
        group="Machine",
        affects_result=False,
    )
    profile_steps: List[int] = option(
        [],
        "steps to trace into the folder profile, for example 100,101",
        unit="steps",
        group="Machine",
        affects_result=False,
    )

    def idle_options(self) -> Dict[str, str]:
        reasons = super().idle_options()
        return reasons if self.init_from else dict(reasons, map="init_from is none")

    @pydantic.field_validator("group", mode="before")
    @classmethod
    def _join_groups(cls, value: Any) -> Any:
        """Put groups together again that a text of several divides at each comma; write objects
        as texts.
        """
        value = [value] if isinstance(value, Group) else value
        if isinstance(value, (list, tuple)):
            value = [format_group(part) if isinstance(part, Group) else part for part in value]
        return join_groups(value) if _are_texts(value) else value

    @pydantic.field_validator("group")
    @classmethod
    def _check_groups(cls, value: Any) -> Any:
        with _value_errors():
            for text in value:
                parse_group(text)
        return value

    @pydantic.field_validator("freeze", "decay_exclude")
    @classmethod
    def _check_patterns(cls, value: Any) -> Any:
        with _value_errors():
            for pattern in value:
                check_pattern(pattern)
        return value

    @pydantic.field_validator("image_size", mode="before")
    @classmethod
    def _read_image_size(cls, value: Any) -> Any:
        """Read a size as one number, the side of a square, or as WIDTHxHEIGHT."""
        if value is None:
            return None
        text = "" if isinstance(value, bool) else str(value).strip().lower()
        match = re.match(r"(\d{1,5})(?:x(\d{1,5}))?$", text, re.ASCII)
        sides = [int(side) for side in match.groups() if side] if match else [0]
        if not all(1 <= side <= MAX_IMAGE_SIDE for side in sides):
            raise ValueError(f"should be 1 to {MAX_IMAGE_SIDE}, or WIDTHxHEIGHT such as 64x48")
        return sides[0] if len(set(sides)) == 1 else "x".join(map(str, sides))

    @pydantic.field_validator("steps_per_call", mode="before")
    @classmethod
    def _read_auto(cls, value: Any) -> Any:
        return None if value == "auto" else value

    @pydantic.field_validator("profile_steps")
    @classmethod
    def _check_steps(cls, value: Any) -> Any:
        if min(value, default=0) < 0:
            raise ValueError("steps should be 0 or more")
        return value

    @pydantic.field_validator("best_metric")
    @classmethod
    def _check_direction(cls, value: Optional[str]) -> Optional[str]:
        if value and ":" in value and value.split(":", 1)[0] not in ("min", "max"):
            raise ValueError("write NAME, min:NAME or max:NAME")
        return value

    @pydantic.model_validator(mode="after")
    def _check_evaluation(self) -> CoreOptions:
        if self.early_stopping and not self.best_metric:
            raise ValueError("early stopping needs a metric: set best_metric")
        return self


def _are_texts(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(part, str) for part in value)


@contextlib.contextmanager
def _value_errors() -> Iterator[None]:
    """Turn a UsageError into the ValueError that pydantic expects."""
    try:
        yield
    except UsageError as error:
        hint = error.hint and f" ({error.hint.rstrip('.')})"
        text = error.message.rstrip(".") + hint
        # pydantic cannot store what is no text in UTF-8, such as a byte of a flag in Latin-1.
        raise ValueError(text.encode("utf-8", "backslashreplace").decode()) from None
