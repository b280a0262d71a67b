"""`CoreOptions`: the options that every run has, whatever its plugin."""

from __future__ import annotations

import contextlib
import functools
import re
from typing import Any, Dict, Iterator, List, Optional, Union

import pydantic
from typing_extensions import Annotated, Literal

from .. import data_value
from ..errors import UsageError
from .declaration import Options, option
from .groups import OptimizerArguments, check_pattern, parse_group

MAX_IMAGE_SIDE = 4096  # pixels

# A function for each heading of `--help`, which declares an option with what is usual below it.
_data = functools.partial(option, group="Data")
_length = functools.partial(option, group="Length", resume_may_change=True)
_start = functools.partial(option, group="Start")
_optimisation = functools.partial(option, group="Optimisation")
_evaluation = functools.partial(option, group="Evaluation", resume_may_change=True)
_checkpoints = functools.partial(option, group="Checkpoints", affects_result=False)
_reports = functools.partial(option, group="Reports", affects_result=False)
_machine = functools.partial(option, group="Machine", affects_result=False)


class CoreOptions(Options):
    """The options that every run has, whatever its plugin."""

    data: str = _data(
        "mnist5k",
        "data source, or the path of a file or folder; see 'toolkit data list'",
        path=data_value.PREFIXES,
    )
    image_size: Optional[Union[int, str]] = _data(
        None,
        "size of images, 64 or WIDTHxHEIGHT, see --fit; files of one size may omit it",
        unit="pixels",
    )
    fit: Literal["pad", "crop", "stretch"] = _data(
        "pad",
        "how an image of another shape gets its size: scaled whole and padded, cut, or distorted",
    )
    background: str = _data(
        "white", "colour below transparent images and around padded ones, a name or #rrggbb"
    )
    channels: Optional[Literal[1, 3]] = _data(None, "convert images to grey (1) or colour (3)")
    skip_damaged: bool = _data(
        False, "leave out image files that cannot be read, and count and name them"
    )
    normalize: bool = _data(
        False, "subtract the mean of the training examples, and divide by their standard deviation"
    )
    label_column: List[str] = _data(
        [],
        "column or key of the labels, several for a vector, or none; default: label, class, "
        "target or y",
    )
    label_kind: Literal["auto", "class", "value"] = _data(
        "auto", "whether labels are classes or values; auto: texts and few integers are classes"
    )
    image_column: Optional[str] = _data(
        None, "column of the paths of images, or key of encoded images"
    )
    feature_columns: List[str] = _data([], "columns to use as features; default: all others")
    ignore_columns: List[str] = _data([], "columns to leave out")
    split_column: str = _data(
        "split", "column that says train, validation or test, if there is one"
    )
    missing: Literal["refuse", "drop", "fill"] = _data(
        "refuse",
        "what becomes of empty fields: refuse the table, drop the row, or fill in the mean",
    )
    categories: Literal["index", "one-hot"] = _data(
        "index", "texts of few values: a class number each, or columns of 0 and 1"
    )
    validation_share: float = _data(
        0.1,
        "share of the training examples held out if the data has no validation split",
        ge=0,
        le=0.5,
    )
    test_share: float = _data(
        0.1, "share of the examples held out if the data has no test split", ge=0, le=0.5
    )
    folds: int = _data(
        0, "divide the examples into so many parts; one of them is the test split", ge=0
    )
    fold: int = _data(0, "which part of --folds is the test split, from 0", ge=0)
    split_seed: int = _data(0, "other numbers hold out other examples", ge=0)
    reader: Literal["auto", "resident", "mapped", "stream"] = _data(
        "auto",
        "keep the data in memory, decode it once into the cache, stream it, or decide by its size",
    )
    resident_limit: int = _data(
        1024,
        "largest data set that --reader auto keeps in memory",
        unit="MiB",
        used_if={"reader": "auto"},
        ge=0,
    )
    shuffle_buffer: int = _data(
        10000,
        "how many examples of a streamed epoch are shuffled at a time",
        unit="examples",
        used_if={"reader": ("auto", "mapped", "stream")},
        ge=1,
    )
    batch_size: int = _data(64, "examples per step", unit="examples", ge=1)

    steps: Optional[int] = _length(
        None, "stop after this step, in place of --epochs", unit="steps", ge=1
    )
    epochs: float = _length(10.0, "stop after this many passes over the training data", gt=0)
    max_secs: Optional[float] = _length(
        None,
        "stop after this time; 'toolkit resume' continues the run",
        unit="seconds",
        affects_result=False,
        gt=0,
    )

    init_from: Optional[str] = _start(
        None,
        "start from the weights of RUN, RUN@STEP, a checkpoint or a SavedModel",
        path="weights",
    )
    map: List[str] = _start(
        [], "take variable (or scope/) OLD of --init-from as NEW: OLD=NEW, repeated or with commas"
    )

    optimizer: str = _optimisation("adam", "name of a tf.train optimizer, or adamw")
    optimizer_args: OptimizerArguments = _optimisation(
        {},
        "further arguments of the optimizer, for example beta1=0.5,beta2=0.9 or use_nesterov=true",
    )
    learning_rate: float = _optimisation(0.001, "learning rate, before its schedule", gt=0)
    schedule: Literal["constant", "cosine", "step", "exponential"] = _optimisation(
        "constant", "how the learning rate falls during the run"
    )
    warmup_steps: int = _optimisation(
        0, "steps over which the learning rate rises linearly", unit="steps", ge=0
    )
    decay_steps: Optional[int] = _optimisation(
        None,
        "length of the cosine, or steps between decays; default: the run, or a tenth of it",
        unit="steps",
        used_if={"schedule": ("cosine", "step", "exponential")},
        ge=1,
    )
    decay_rate: float = _optimisation(
        0.5,
        "factor of each decay (step, exponential)",
        used_if={"schedule": ("step", "exponential")},
        gt=0,
        le=1,
    )
    clip: Literal["value", "norm", "global-norm", "none"] = _optimisation(
        "value", "clip gradients by value, by the norm per variable, or by the global norm"
    )
    clip_limit: float = _optimisation(
        1.0,
        "largest value or norm of a clipped gradient",
        used_if={"clip": ("value", "norm", "global-norm")},
        gt=0,
    )
    accumulate: int = _optimisation(
        1, "steps whose gradients are averaged for one update", unit="steps", ge=1
    )
    weight_decay: Optional[float] = _optimisation(
        None,
        "decoupled decay of variables with two or more dimensions, per unit of learning rate; "
        "default: 0, for adamw 0.01",
        ge=0,
    )
    decay_exclude: List[str] = _optimisation(
        [], "patterns of further variables that do not decay: */embedding"
    )
    group: List[str] = _optimisation(
        [],
        "rate or decay of the variables that a pattern fits: 'conv*:learning_rate=1e-4,"
        "weight_decay=0', once for each group; the first that fits a variable holds",
    )
    freeze: List[str] = _optimisation(
        [], "patterns of variables that stay as they are, batch norm's averages included: conv1/*"
    )
    on_nonfinite: Literal["stop", "skip"] = _optimisation(
        "stop", "if the loss or a gradient is not finite: stop, or skip the step"
    )

    log_steps: Optional[int] = _reports(
        None,
        "record mean metrics every N steps; default: each epoch, but 10 to 50 times in the run",
        unit="steps",
        ge=1,
    )
    console_secs: float = _reports(
        2.0,
        "minimum time between progress lines if the output is not a terminal",
        unit="seconds",
        ge=0,
    )
    summary_steps: Optional[int] = _reports(
        None,
        "write a plugin's tf.summary ops every N steps; default: --log-steps",
        unit="steps",
        ge=1,
    )
    summary_secs: Optional[float] = _reports(
        None, "write a plugin's tf.summary ops every N seconds", unit="seconds", gt=0
    )

    page: bool = _reports(True, "write report.html at the end, a page that shows how the run went")
    keep_sources: bool = _reports(True, "keep copies of the plugins' sources in the run")

    checkpoint_steps: Optional[int] = _checkpoints(
        None, "save a checkpoint every N steps", unit="steps", ge=1
    )
    checkpoint_secs: Optional[float] = _checkpoints(
        None,
        "save a checkpoint every N seconds; default 60 without --checkpoint-steps",
        unit="seconds",
        gt=0,
    )
    keep_checkpoints: int = _checkpoints(
        5, "number of recent checkpoints to keep", unit="checkpoints", ge=1
    )
    keep_every_hours: Optional[float] = _checkpoints(
        None, "also keep one checkpoint every N hours", unit="hours", gt=0
    )

    evaluate: bool = _evaluation(True, "evaluate the validation split during training")
    evaluate_steps: Optional[int] = _evaluation(
        None,
        "evaluate every N steps; default: --checkpoint-steps, else ten times in the run, less "
        "often with many validation examples",
        unit="steps",
        used_if={"evaluate": True},
        ge=1,
    )
    eval_batch_size: int = _evaluation(
        500, "examples per batch of an evaluation", unit="examples", ge=1
    )
    best_metric: Optional[str] = _evaluation(
        None, "metric that selects the best checkpoint; min:NAME or max:NAME sets what is better"
    )
    early_stopping: int = _evaluation(
        0,
        "stop if --best-metric has not improved in N evaluations; 0: never",
        unit="evaluations",
        used_if={"evaluate": True},
        ge=0,
    )

    seed: int = _machine(1, "seed of all random numbers", ge=0, lt=2**31, affects_result=True)
    devices: int = _machine(
        1,
        "devices that share each batch: GPUs, or else virtual ones of the processor",
        unit="devices",
        ge=1,
        le=256,
    )
    intra_op_threads: int = _machine(
        0,
        "threads within an op; 0: one for a small step, else TensorFlow's choice",
        unit="threads",
        ge=0,
        le=4096,
    )
    inter_op_threads: int = _machine(
        0, "ops that run at the same time; 0: TensorFlow's choice", unit="threads", ge=0, le=4096
    )
    gpu_memory_growth: bool = _machine(True, "allocate GPU memory as it is needed")
    gpu_memory_fraction: Optional[float] = _machine(
        None, "largest share of a GPU's memory to allocate", gt=0, le=1
    )
    log_device_placement: bool = _machine(False, "log the device of every op (with -v)")
    steps_per_call: Optional[int] = _machine(
        None,
        "most training steps in one call of the session; auto: as many as take 20 ms",
        unit="steps",
        ge=1,
    )
    xla: Literal["auto", "on", "off"] = _machine(
        "auto", "compile steps with XLA; auto: by a timing, in a run of a minute and 20,000 steps"
    )
    rehash: bool = _machine(
        False, "hash all data files again, also those whose size, time and inode are known"
    )
    profile_hooks: bool = _machine(
        False, "report at the end how long each session hook took per step"
    )
    profile_steps: List[Annotated[int, pydantic.Field(ge=0)]] = _machine(
        [], "steps to trace into the folder profile, for example 100,101", unit="steps"
    )

    def idle_options(self) -> Dict[str, str]:
        reasons = super().idle_options()
        return reasons if self.init_from else dict(reasons, map="init_from is none")

    @pydantic.field_validator("group", mode="before")
    @classmethod
    def _read_groups(cls, value: Any) -> Any:
        """Put groups together again that a text of several divides at each comma: a group begins
        with its pattern and a colon, a setting that follows has no colon.
        """
        is_list = isinstance(value, (list, tuple))
        if not is_list or not all(isinstance(part, str) for part in value):
            return value
        groups: List[str] = []
        for part in value:
            if groups and ":" not in part:
                groups[-1] += "," + part
            else:
                groups.append(part)
        with _value_errors():
            for text in groups:
                parse_group(text)
        return groups

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
