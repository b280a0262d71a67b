"""`Run.function`: a function that creates variables as it goes, as a part of a model."""

from __future__ import annotations

import inspect
from typing import Any, Callable, Dict, List, Mapping, Sequence

from ..data.structure import FEATURES, LABELS
from ..errors import ToolkitError
from .network import Network, example_placeholders
from .step_builder import StepBuilder

_TRAINING = ("training", "is_training", "train", "is_train", "phase_train")
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class Function(Network):
    """A function applied with the same variables each time; see `Run.function`.

    Args:
        run: of the graph.
        builder: of the run.
        fn: the function.
        args: its positional arguments after those that `inputs` are for.
        kwargs: its arguments by name.
        inputs: what it is applied to in `build`: a tuple for several arguments, else one; None for
            placeholders of the run's features.
    """

    def __init__(
        self,
        run: Any,
        builder: StepBuilder,
        fn: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        inputs: Any = None,
    ):
        _check_function(fn)
        super().__init__(run, builder, _name_of(fn))
        self._fn = fn
        self._signature = _signature(fn)
        examples = example_placeholders(run, FEATURES) if inputs is None else inputs
        first = self._first_arguments(examples, inputs is None)
        names = self._positional_names()[len(first) :]
        if len(args) > len(names):
            raise ToolkitError(f"'{self.name}' takes fewer arguments than run.function has for it.")
        self._defaults = {**self._bind((), kwargs), **dict(zip(names, args))}
        self._build(lambda: self._call(self._complete({**self._defaults, **first})), examples)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the function returns for these arguments, with the same variables each time.

        Arguments that are left out are those of `Run.function`.
        """
        return self._apply(lambda: self._call({**self._defaults, **self._bind(args, kwargs)}))

    def _first_arguments(self, examples: Any, is_dict_by_name: bool) -> Dict[str, Any]:
        """Name -> value of the arguments that the function is applied to in `build`."""
        names = self._positional_names()
        if is_dict_by_name and isinstance(examples, dict) and set(examples) <= set(names):
            return dict(examples)
        values = examples if isinstance(examples, tuple) else (examples,)
        return self._bind(values, {})

    def _positional_names(self) -> List[str]:
        parameters = self._signature.parameters.values()
        return [parameter.name for parameter in parameters if parameter.kind in _POSITIONAL]

    def _bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Dict[str, Any]:
        """Name of a parameter -> argument."""
        try:
            return dict(self._signature.bind_partial(*args, **kwargs).arguments)
        except TypeError as error:
            raise ToolkitError(f"'{self.name}' {error}.") from None

    def _complete(self, arguments: Dict[str, Any]) -> Dict[str, Any]:
        """The arguments, with those that follow from the run.

        Raises:
            ToolkitError: names what is missing.
        """
        missing = []
        for parameter in self._signature.parameters.values():
            is_optional = parameter.default is not parameter.empty
            if parameter.name in arguments or is_optional or parameter.kind not in _POSITIONAL:
                continue
            if parameter.name in _TRAINING:
                arguments[parameter.name] = self._run.mode == "train"
            elif parameter.name == LABELS:
                labels = None if self._run.mode == "predict" else LABELS
                arguments[LABELS] = labels and example_placeholders(self._run, LABELS)
            elif parameter.name == "run":
                arguments["run"] = self._run
            else:
                missing.append(parameter.name)
        if missing:
            raise ToolkitError(
                f"run.function does not know the arguments {', '.join(missing)} of '{self.name}'.",
                hint=f"Name each where the function is built: run.function({self.name}, "
                f"{missing[0]}=...).",
            )
        return arguments

    def _call(self, arguments: Mapping[str, Any]) -> Any:
        bound = self._signature.bind_partial()
        bound.arguments.update(arguments)
        return self._fn(*bound.args, **bound.kwargs)


def _check_function(fn: Any) -> None:
    if hasattr(type(fn), "add_weight"):
        raise ToolkitError(
            f"run.function takes a function, and '{getattr(fn, 'name', fn)}' is a Keras model.",
            hint="Use run.keras(model).",
        )
    if not callable(fn):
        raise ToolkitError(
            f"run.function takes a function, not {fn!r}.",
            hint="Leave out the parentheses: run.function(network).",
        )


def _signature(fn: Callable[..., Any]) -> inspect.Signature:
    """Of a function; one of any arguments where Python knows none."""
    try:
        return inspect.signature(fn)
    except (TypeError, ValueError):
        return inspect.signature(lambda *args, **kwargs: None)


def _name_of(fn: Any) -> str:
    """The name of a function, also of a `functools.partial`; else that of an object's class."""
    fn = getattr(fn, "func", fn)
    name = getattr(fn, "__name__", type(fn).__name__)
    return name.strip("_") if name.isidentifier() else "function"
