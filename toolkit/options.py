"""Typed options: what the core has, what plugins add, and where each value came from.

Precedence, weakest first: the option's own default, the plugin's default for a core option,
configuration files in their order, `TOOLKIT_*` variables, flags.
"""

from __future__ import annotations

import json
import os
from typing import (
    Any,
    Callable,
    ClassVar,
    Dict,
    Iterable,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Tuple,
)

import pydantic
from typing_extensions import Literal, get_args, get_origin

from .errors import UsageError, nearest

ENVIRONMENT_PREFIX = "TOOLKIT_"
# Read elsewhere; not options of a run.
RESERVED_VARIABLES = ("CACHE", "MIRRORS", "PLUGIN", "RUN_DIR", "VERBOSE")


def option(default: Any, help: str, *, unit: str = "", group: str = "", **limits: Any) -> Any:
    """Declare one option of an `Options` class.

    default: the value when nothing else says one. help: one line, without a full stop. unit: what
    a number counts ("steps", "seconds"). group: the heading in `--help`. limits: pydantic's `ge`,
    `gt`, `le`, `lt`, `min_length`, `max_length`, `pattern`.
    """
    extra = {"unit": unit, "group": group}
    return pydantic.Field(default, description=help, json_schema_extra=extra, **limits)


class Options(pydantic.BaseModel):
    """The base of every options class.

    core_defaults: gives core options another default. presets: name -> values of options that go
    together; a class that has some declares an option `preset`, whose value names one of them.
    Anything that is given by name overrules a preset.
    """

    model_config = pydantic.ConfigDict(
        extra="forbid", frozen=True, validate_default=True, protected_namespaces=()
    )

    core_defaults: ClassVar[Mapping[str, Any]] = {}
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {}

    @property
    def batches_per_step(self) -> int:
        """How many batches a step takes: its features are [batch_size * batches_per_step, ...]."""
        return 1

    @pydantic.field_validator("*")
    @classmethod
    def _fits_in_64_bits(cls, value):
        for number in value if isinstance(value, list) else [value]:
            if isinstance(number, int) and not -(2**63) <= number < 2**63:
                raise ValueError("should be less than 2^63 in size")
        return value


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
        None, "stop after this step; --epochs no longer counts", unit="steps", group="Length", ge=1
    )
    epochs: float = option(10.0, "stop after this many passes over the data", group="Length", gt=0)
    max_secs: Optional[float] = option(
        None, "stop after this time; resume goes on", unit="seconds", group="Length", gt=0
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

    log_steps: int = option(100, "metrics every N steps", unit="steps", group="Reports", ge=1)
    console_secs: float = option(
        2.0, "least time between two lines in a pipe", unit="seconds", group="Reports", ge=0
    )
    summary_steps: Optional[int] = option(
        None, "TensorBoard events every N steps; default 100", unit="steps", group="Reports", ge=1
    )
    summary_secs: Optional[float] = option(
        None, "TensorBoard events every N seconds", unit="seconds", group="Reports", gt=0
    )

    checkpoint_steps: Optional[int] = option(
        None, "checkpoint every N steps", unit="steps", group="Checkpoints", ge=1
    )
    checkpoint_secs: Optional[float] = option(
        None,
        "checkpoint every N seconds; default 60 without --checkpoint-steps",
        unit="seconds",
        group="Checkpoints",
        gt=0,
    )
    keep: int = option(
        5, "newest checkpoints to keep", unit="checkpoints", group="Checkpoints", ge=1
    )
    keep_every_hours: Optional[float] = option(
        None, "also keep one checkpoint per N hours", unit="hours", group="Checkpoints", gt=0
    )

    evaluate: bool = option(
        True, "evaluate the validation split during training", group="Evaluation"
    )
    evaluate_steps: Optional[int] = option(
        None,
        "evaluate every N steps; default --checkpoint-steps, else ten times a run",
        unit="steps",
        group="Evaluation",
        ge=1,
    )
    eval_batch_size: int = option(
        500, "examples per evaluation step", unit="examples", group="Evaluation", ge=1
    )
    best: Optional[str] = option(
        None,
        "metric that names the best checkpoint; 'min:NAME' or 'max:NAME' says which way",
        group="Evaluation",
    )
    early_stopping: int = option(
        0,
        "stop when --best has not improved in N evaluations; 0 is off",
        unit="evaluations",
        group="Evaluation",
        ge=0,
    )

    seed: int = option(1, "seed of everything random", group="Machine", ge=0, lt=2**31)
    intra_op_threads: int = option(
        0,
        "threads within an op; 0: one for a small step, else as TensorFlow chooses",
        unit="threads",
        group="Machine",
        ge=0,
        le=4096,
    )
    inter_op_threads: int = option(
        0,
        "ops at the same time; 0 lets TensorFlow choose",
        unit="threads",
        group="Machine",
        ge=0,
        le=4096,
    )
    gpu_memory_growth: bool = option(True, "take GPU memory as it is needed", group="Machine")
    gpu_memory_fraction: Optional[float] = option(
        None, "largest share of a GPU's memory", group="Machine", gt=0, le=1
    )
    log_device_placement: bool = option(
        False, "log the device of every op (with -v)", group="Machine"
    )
    steps_per_call: Optional[int] = option(
        None,
        "most steps in one call of the session; auto: by the time of a step",
        unit="steps",
        group="Machine",
        ge=1,
    )
    xla: Literal["auto", "on", "off"] = option(
        "auto",
        "compile the training step with XLA: where it is faster, always, never",
        group="Machine",
    )
    profile_hooks: bool = option(
        False, "tell at the end what each session hook cost per step", group="Machine"
    )
    profile_steps: List[int] = option(
        [], "steps to trace into profile/, as 100,101", unit="steps", group="Machine"
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


class Resolved(NamedTuple):
    """Options with the origin of each value, as `--print-config` shows them."""

    options: Options
    origins: Dict[str, str]


def merge(classes: Iterable[Tuple[str, type]]) -> type:
    """One options class from the core's and each (plugin name, class); names are unique."""
    owner = dict.fromkeys(CoreOptions.model_fields, "the core")
    bases: List[type] = [CoreOptions]
    for plugin, cls in classes:
        for name in cls.model_fields:
            if name in owner:
                raise UsageError(
                    f"Option '{name}' of plugin '{plugin}' is already an option of {owner[name]}.",
                    hint="Rename it, or set core_defaults to change a core option's default.",
                )
            owner[name] = f"plugin '{plugin}'"
        bases.append(cls)
    if len(bases) == 1:
        return CoreOptions
    merged = pydantic.create_model("RunOptions", __base__=tuple(reversed(bases)))
    merged.owners = owner
    return merged


def resolve(
    classes: Iterable[Tuple[str, type]],
    layers: Iterable[Tuple[str, Mapping[str, Any]]] = (),
    environment: Optional[Mapping[str, str]] = None,
    flags: Optional[Mapping[str, Any]] = None,
) -> Resolved:
    """Merge all values into one typed, frozen object.

    classes: (plugin name, options class). layers: (origin, values) of configuration files, in
    order. environment: the process's variables. flags: option name to text. Raises UsageError with
    the value and its origin.
    """
    classes = list(classes)
    merged = merge(classes)
    values: Dict[str, Any] = {}
    origins = dict.fromkeys(merged.model_fields, "default")

    def put(name: str, value: Any, origin: str) -> None:
        name = name.replace("-", "_")
        if name not in merged.model_fields:
            raise UsageError(
                f"There is no option {_shown(name)} ({origin}).",
                hint=nearest(name, merged.model_fields),
            )
        values[name] = from_text(merged.model_fields[name].annotation, value)
        origins[name] = origin

    def put_layer(layer: Mapping[str, Any], origin: Callable[[str], str]) -> None:
        # Epochs that are asked for in a stronger layer count, though a weaker one has steps.
        if "epochs" in layer and "steps" not in layer and "steps" in values:
            del values["steps"]
            origins["steps"] = "default"
        for name, value in layer.items():
            put(name, value, origin(name))

    variables = {name: ENVIRONMENT_PREFIX + name.upper() for name in merged.model_fields}
    given = {n: environment[v] for n, v in variables.items() if environment and v in environment}
    layers = list(layers)
    for plugin, cls in classes:
        put_layer(cls.core_defaults, lambda name, plugin=plugin: f"plugin {plugin}")
        named = [*(values for _, values in layers), given, flags or {}]
        preset = _preset(cls, named)
        put_layer(preset_of(cls, named), lambda name, preset=preset: "preset " + str(preset))
    for file, layer in layers:
        put_layer(layer, lambda name, file=file: file)
    put_layer(given, lambda name: variables[name])
    put_layer(flags or {}, lambda name: "flag --" + name.replace("_", "-"))
    if origins["best"].startswith("plugin ") and not _evaluates(merged, values, origins):
        values["best"], origins["best"] = None, "no evaluation"
    return Resolved(_validated(merged, values, origins), origins)


def _evaluates(merged: type, values: Mapping[str, Any], origins: Mapping[str, str]) -> bool:
    """Whether evaluation is on: a plugin's metric for the best checkpoint counts only then."""
    return _validated(merged, dict(values, best=None, early_stopping=0), origins).evaluate


def preset_of(cls: type, layers: Iterable[Mapping[str, Any]] = ()) -> Mapping[str, Any]:
    """The values of the preset that counts: see `_preset`; empty for a class without presets."""
    return cls.presets.get(_preset(cls, list(layers)), {})


def _preset(cls: type, layers: List[Mapping[str, Any]]) -> Any:
    """The preset that the strongest of the layers names, weakest first, or the class's default."""
    if not cls.presets:
        return None
    named = [layer["preset"] for layer in layers if "preset" in layer]
    chosen = (named or [cls.model_fields["preset"].default])[-1]
    return chosen if isinstance(chosen, str) else None  # what else it is, validation tells


def _validated(merged: type, values: Mapping[str, Any], origins: Mapping[str, str]) -> Options:
    try:
        return merged(**values)
    except pydantic.ValidationError as error:
        raise UsageError("\n".join(_sentence(e, origins) for e in error.errors())) from None


def _sentence(error: Mapping[str, Any], origins: Mapping[str, str]) -> str:
    message = error["msg"]
    if message.startswith("Value error, "):
        message = message[len("Value error, ") :]
    if not error["loc"]:
        return message[0].upper() + message[1:] + "."
    name = str(error["loc"][0])
    message = message.replace("Input should be", "should be")
    return f"Option '{name}' is {_shown(error.get('input'))} ({origins.get(name, '?')}): {message}."


def _shown(value: Any) -> str:
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # thousands of digits, a list in a list in a list...
        return f"a large {type(value).__name__}"
    return text if len(text) <= 100 else text[:97] + "..."


def from_text(annotation: Any, value: Any) -> Any:
    """Turn the text of a flag or variable into what pydantic takes; leave other values as they are.

    Lists read `1,2,3`, dicts `a=1,b=2`, an optional value `none`.
    """
    if not isinstance(value, str):
        return value
    origin, args = get_origin(annotation), get_args(annotation)
    if type(None) in args:
        if value.strip().lower() in ("none", ""):
            return None
        annotation = next(a for a in args if a is not type(None))
        origin, args = get_origin(annotation), get_args(annotation)
    if origin in (list, tuple) or annotation in (list, tuple):
        return [part.strip() for part in value.split(",") if part.strip()]
    if origin is dict or annotation is dict:
        return dict(_pair(part) for part in value.split(",") if part.strip())
    if origin is Literal:
        return next((a for a in args if str(a) == value), value)
    return value


def _pair(text: str) -> Tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise UsageError(f"'{text}' is not of the form name=value.")
    return name.strip(), value.strip()


def misspelt_variables(names: Iterable[str], environment: Mapping[str, str]) -> List[str]:
    """A sentence for each TOOLKIT_* variable that is no option but is close to one."""
    import difflib

    known = {ENVIRONMENT_PREFIX + name.upper() for name in names}
    known |= {ENVIRONMENT_PREFIX + name for name in RESERVED_VARIABLES}
    sentences = []
    for variable in sorted(environment):
        if variable.startswith(ENVIRONMENT_PREFIX) and variable not in known:
            close = difflib.get_close_matches(variable, known, n=1, cutoff=0.85)
            if close:
                sentences.append(f"{variable} is not used; did you mean {close[0]}?")
    return sentences


def read_config(path: str) -> Dict[str, Any]:
    """The flat mapping in a TOML or JSON file: `plugin`, `with` and option names.

    Raises UsageError where the file is missing, is neither, or is not one flat mapping.
    """
    try:
        with open(path, "rb") as file:
            raw = file.read()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}.") from None
    try:
        text = raw.decode("utf-8-sig")  # some editors begin a file with a byte order mark
        values = json.loads(text) if path.endswith(".json") else _toml().loads(text)
    except (ValueError, RecursionError) as error:
        kind = "JSON" if path.endswith(".json") else "TOML"
        raise UsageError(f"{path}: not valid {kind}: {error}.") from None
    if not isinstance(values, dict):
        raise UsageError(f"{path}: expected names with values, found a {type(values).__name__}.")
    return {name.replace("-", "_"): value for name, value in values.items()}


def _toml():
    try:
        import tomllib
    except ImportError:  # before Python 3.11
        import tomli as tomllib
    return tomllib


class Field(NamedTuple):
    """One option as `--help`, `plugins show` and the docs print it."""

    name: str
    type: str
    default: Any
    limits: str
    unit: str
    help: str
    group: str


def describe(cls: type) -> List[Field]:
    """The options that a class declares, in order."""
    return [_describe(name, field) for name, field in cls.model_fields.items()]


def _describe(name: str, field: Any) -> Field:
    extra = field.json_schema_extra or {}
    limits = []
    for part in field.metadata:
        for limit, sign in (("ge", ">="), ("gt", ">"), ("le", "<="), ("lt", "<")):
            bound = getattr(part, limit, None)
            if bound is not None:
                limits.append(f"{sign} {bound}")
    return Field(
        name=name,
        type=type_name(field.annotation),
        default=field.default,
        limits=" and ".join(limits),
        unit=extra.get("unit", ""),
        help=field.description or "",
        group=extra.get("group", ""),
    )


def type_name(annotation: Any) -> str:
    """What `--help` shows as the type: `int`, `a|b`, `int,...`."""
    origin, args = get_origin(annotation), get_args(annotation)
    if type(None) in args:
        return type_name(next(a for a in args if a is not type(None)))
    if origin is Literal:
        return "|".join(str(a) for a in args)
    if origin in (list, tuple):
        return type_name(args[0]) + ",..."
    if origin is dict:
        return f"name={type_name(args[1])},..."
    return getattr(annotation, "__name__", str(annotation))


def environment() -> Mapping[str, str]:
    """The process's variables; a function, so that a test can hand in others."""
    return os.environ
