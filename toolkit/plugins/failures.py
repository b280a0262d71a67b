"""An exception of a plugin in one line, with its place in the plugin's code, and the way out."""

from __future__ import annotations

import os
import re
import traceback
from typing import Any, Iterable, List, Mapping, NamedTuple, Sequence

from ..errors import suggest

TRACEBACK_HINT = "Run again with -v for the traceback."
_CORE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep  # toolkit/
_LIBRARIES = ("site-packages", "dist-packages")

# A pattern of `Type: message`, and what the author of a plugin should do about it. In TensorFlow's
# own advice, eager execution is the way out, which a graph does not have.
_HINTS = (
    ("SystemExit: ", "A plugin does not end the process: raise a toolkit.ToolkitError."),
    (
        "must be from the same graph|not from the same graph|is not an element of this graph",
        "Create variables in 'build', and tensors in the hooks: each graph has its own.",
    ),
    (
        "[Ee]ager execution|symbolic|as a Python.*bool|has no attribute 'numpy'"
        "|objects are only iterable|takes no keyword arguments.*Tensor"
        "|unsupported operand.*Tensor|setting an array element with a sequence",
        "A tensor has no value while the graph is built: use TensorFlow's functions, such as "
        "tf.where, tf.cond and tf.map_fn.",
    ),
    (
        "is finalized and cannot be modified",
        "Make every op in 'begin' or in the plugin's hook 'session_hooks'.",
    ),
    (
        "closed Session|Session has been closed",
        "A session hook leaves the session open: the loop closes it.",
    ),
    (
        "You must feed a value for placeholder",
        "The run feeds no placeholder of a plugin: take 'features' and 'labels'; for other inputs "
        "of a prediction, name them in the hook 'inputs'.",
    ),
    (
        "No items in collection savers",
        "Leave it out: the toolkit saves checkpoints, as often as --checkpoint-steps says.",
    ),
    (
        "PydanticSchemaGenerationError|requires a type annotation|non-annotated attribute",
        "Declare an option as 'name: TYPE = toolkit.option(default, help)', where TYPE is bool, "
        "int, float, str, a Literal, or an Optional, List or Dict of these.",
    ),
    (
        "'dict' object has no attribute 'dtype'",
        "Give run.minimize one scalar: of several losses their sum, sum(losses.values()).",
    ),
    (  # the module of toolkit.tf is another: tensorflow._api.v2.compat.v1
        r"module 'tensorflow(\._api\.v2(?!\.compat)[\w.]*)?' has no attribute",
        "Write 'from toolkit import tf', which has the names of TensorFlow 1 in every version.",
    ),
    (
        "[Ii]nstance is frozen|is immutable and does not support item assignment",
        "Options are read-only: a plugin sets its own defaults of the core's options in the "
        "attribute 'core_defaults' of its options class.",
    ),
    (
        "does not match type|Tensor conversion requested dtype",
        "Convert one of them with tf.cast; labels that are classes are int32.",
    ),
    (
        "The graph is still being built|[Dd]efault session",
        "Compute it with numpy, or in a tf.Graph() of its own; to see a value, return it from a "
        "session hook's 'fetches'.",
    ),
)
_STRUCTURES = {"outputs": "the outputs of 'call' are", "losses": "the losses are"}
_NOISE = re.compile(
    r"\s*\(graphs are .*?>\)|(?<=') \([^()]*\.py\)|<?\bat 0x[0-9a-f]+"
    r"|\s*You can attempt the following resolutions.*|[.,]? Use Eager execution.*"
    r"|\. Set `arbitrary_types_allowed.*|\.(?=\s*$)"
)


class Failure(NamedTuple):
    """An exception for a message."""

    text: str  # type, message and place in one line, without a full stop
    hint: str  # the way out, one sentence


def describe_failure(error: BaseException, file: str = "", place: str = "") -> Failure:
    """Describe an exception that a plugin raised, whose file is known.

    Its place is the last line of the plugin's code in the traceback; without one `place`, as
    `file:line`, or else the last line outside of the toolkit. A SyntaxError already names it.
    """
    text = _NOISE.sub("", f"{type(error).__name__}: {str(error).strip()}".split("\n")[0])
    text = text.rstrip(". :")
    if isinstance(error, SystemExit):
        text = f"it ended the process ({error})"
    if not isinstance(error, SyntaxError):
        frames = own_frames(error, file)
        if not frames and not place:
            all_frames = traceback.extract_tb(error.__traceback__)
            frames = [frame for frame in all_frames if is_outside_file(frame.filename)]
        if frames:
            place = f"{os.path.abspath(frames[-1].filename)}:{frames[-1].lineno}"
        text += f" ({place})" if place else ""
    whole = f"{type(error).__name__}: {error}"
    hints = (hint for pattern, hint in _HINTS if re.search(pattern, whole))
    return Failure(text, next(hints, TRACEBACK_HINT))


def is_outside_file(path: str) -> bool:
    """Whether the path is that of a Python file outside of the toolkit's core."""
    return not path.startswith("<") and not os.path.abspath(path).startswith(_CORE)


def own_frames(error: BaseException, file: str) -> List[traceback.FrameSummary]:
    """The frames of an exception that are in the code of a plugin's file, the innermost last."""
    frames = traceback.extract_tb(error.__traceback__)
    return [frame for frame in frames if is_own_file(frame.filename, file)]


def is_own_file(path: str, file: str) -> bool:
    """Whether the path of a Python file, maybe relative, belongs to the code of a plugin's file:
    `__init__.py` stands for its package, another file for its folder with the neighbours that it
    may import, or for itself where it is installed.
    """
    if path.startswith("<"):  # code without a file: numpy's '<__array_function__ internals>'
        return False
    path, folder = os.path.abspath(path), os.path.dirname(file)
    if not file or path == file:
        return bool(file)
    is_alone = os.path.basename(folder) in _LIBRARIES and os.path.basename(file) != "__init__.py"
    if is_alone or not path.startswith(os.path.join(folder, "")) or path.startswith(_CORE):
        return False
    parts = os.path.relpath(path, folder).split(os.sep)
    return not any(part in _LIBRARIES for part in parts)  # an environment in the plugin's folder


def explain_with_arguments(
    error: BaseException, lines: Sequence[str], arguments: Mapping[str, Any]
) -> str:
    """The way out, one sentence, where the arguments of a hook by name explain what it raised, in
    these lines of the plugin's code; else "".
    """
    run, text = arguments.get("run"), str(error)
    cls = type(getattr(run, "options", None))
    match = re.search(r"'(\w+)' object has no attribute '(\w+)'", text)
    if isinstance(error, AttributeError) and match and match.group(1) == cls.__name__:
        near = _nearest(match.group(2), getattr(cls, "model_fields", ()))
        return f"{near}A plugin declares its options in a class that its hook 'options' returns."
    for name, key in re.findall(r"\b(\w+)\[[\"'](\w+)[\"']\]", lines[-1] if lines else ""):
        value = arguments.get(name)
        if isinstance(value, dict) and isinstance(error, KeyError) and key not in value:
            names = ", ".join(f"'{known}'" for known in value) or "none"
            what = _STRUCTURES.get(name, f"the {name} are")
            return f"{_nearest(key, map(str, value))}Here {what} {names}."
        if name in ("features", "labels") and value is not None and not isinstance(value, dict):
            return f"The {name} of this data are one tensor: write '{name}' without a name."
    is_predicted = getattr(run, "mode", "") == "predict" and re.search(r"\bNone\b|NoneType", text)
    if is_predicted and arguments.get("labels", 0) is None:
        hint = (
            "'labels' is None in mode \"predict\": use them in 'loss' alone, or where run.mode is "
        )
        return hint + "another."
    return ""


def _nearest(name: str, names: Iterable[str]) -> str:
    """`Did you mean 'x'? `, or "" where no name is like it."""
    near = suggest(name, names)
    return near + " " if near.startswith("Did you mean") else ""
