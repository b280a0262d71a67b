"""Draw samples from a trained model, through the hook `sample` of its plugin.

Legend: n samples in a part, ... the shape of one value, H height, W width, C channels.
"""

from __future__ import annotations

import dataclasses
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Dict,
    Iterator,
    NamedTuple,
    Optional,
    Sequence,
    Union,
)

import numpy as np

from ..errors import ToolkitError, UsageError, join_names
from ..graph.randomness import seed_of
from ..options import SampleOptions
from ..plugins import Plugins

if TYPE_CHECKING:
    from .evaluator import Evaluator

Arrays = Dict[str, np.ndarray]
PART_SIZE = 500  # samples
BLOCK_SIZE = 100  # samples whose numbers are drawn together; divides PART_SIZE
DEFAULT_COUNT = 64
IMAGES, LABEL = "images", "label"
MAX_LISTED_CLASSES = 20  # in an error
NO_CLASSES = ("The model knows no classes.", "Omit the class.")  # message and hint


@dataclasses.dataclass(frozen=True)  # a NamedTuple has a method `count`
class SampleRequest:
    """What the hook `sample` is to draw: the samples `first` to `first + count - 1` of a seed.

    Attributes:
        count: n, the number of samples.
        seed: of all draws, an integer in [0, 2**32).
        labels: int32 [n], the class of each sample, or None if the model is to choose.
        options: the values of `sample_options`, or those of `toolkit.SampleOptions`.
        first: the number of samples before these.
        run_model: what `predict` calls, with inputs and the position of the first of them.
    """

    count: int
    seed: int = 0
    labels: Optional[np.ndarray] = None
    options: Any = SampleOptions()
    first: int = 0
    run_model: Optional[Callable[[Arrays, int], Arrays]] = None

    def parts(self, size: int = PART_SIZE) -> Iterator[SampleRequest]:
        """Yield the request in parts, so that a million samples need little memory.

        Args:
            size: the number of samples in each part but the last.
        """
        for start in range(0, self.count, size):
            stop = min(start + size, self.count)
            labels = None if self.labels is None else self.labels[start:stop]
            first = self.first + start
            yield dataclasses.replace(self, count=stop - start, labels=labels, first=first)

    def predict(self, inputs: Arrays) -> Arrays:
        """Run the model in mode "predict".

        Random numbers that `call` draws by `run.normal` and `run.uniform` follow from the seed and
        from the place of each sample.

        Args:
            inputs: arrays [n, ...] as `Trained.predict` takes them, a row for each sample; or, in
                place of examples, values of tensors that `call` returned, by their names.

        Returns:
            Each tensor of the hook `predict` by name, as an array [n, ...].

        Raises:
            DataError: the inputs do not fit the model.
        """
        assert self.run_model is not None  # a `Sampler` sets it
        position = self.seed * 2**20 + self.first  # different for each seed
        return self.run_model(inputs, position)

    def normal(self, name: str, shape: Sequence[int]) -> np.ndarray:
        """float32 [n, ...] from N(0, 1): a function of the seed, `name` and the sample's place.

        Args:
            name: of this use.
            shape: of the numbers of one sample.
        """
        return self._draw(name, shape, np.random.RandomState.standard_normal)

    def uniform(self, name: str, shape: Sequence[int]) -> np.ndarray:
        """float32 [n, ...] in [0, 1): a function of the seed, `name` and the sample's place.

        Args:
            name: of this use.
            shape: of the numbers of one sample.
        """
        largest = np.nextafter(np.float32(1), np.float32(0))  # rounding may give 1
        return np.minimum(self._draw(name, shape, np.random.RandomState.random_sample), largest)

    def _draw(self, name: str, shape: Sequence[int], draw: Callable[..., Any]) -> np.ndarray:
        """Draw blocks of samples whose places are fixed, and return the rows of these samples."""
        first_block, stop = self.first // BLOCK_SIZE, self.first + self.count
        blocks = [np.zeros([0, *shape], np.float32)]
        for block in range(first_block, -(-stop // BLOCK_SIZE)):
            random = np.random.RandomState([self.seed, seed_of(0, name), block])
            blocks.append(draw(random, (BLOCK_SIZE, *shape)).astype(np.float32))
        start = self.first - first_block * BLOCK_SIZE
        return np.concatenate(blocks)[start : start + self.count]


class SamplePlan(NamedTuple):
    """What to draw, and how to lay it out."""

    request: SampleRequest
    columns: Optional[int] = None  # samples in a row of a grid; None for a square
    captions: Sequence[str] = ()  # the name of each class, to write below the samples
    label: Optional[int] = None  # the class that all samples are to have, or None


class Sampler:
    """Draws samples from a run's model, with an evaluator in mode "predict"."""

    def __init__(self, plugins: Plugins, evaluator: Evaluator):
        self._plugins, self._evaluator = plugins, evaluator

    @property
    def has_classes(self) -> bool:
        """Whether the model is fed the class of each sample, as the input "label"."""
        return LABEL in self._evaluator.graph.input_specs

    def plan(
        self,
        count: Optional[int],
        seed: int,
        label: Union[int, str, None],
        options: SampleOptions,
        in_rows: bool = False,
    ) -> SamplePlan:
        """Decide what to draw: so many samples, None for as many as fill a grid, of the class of a
        number or name, None for a mixture; `in_rows` of one class each, unless there are a count, a
        class or columns. Raises UsageError if there is no such class or seed, or nothing to draw.
        """
        data = self._evaluator.run.data
        if count is not None and count < 1:
            raise UsageError(f"The number of samples is {count}, not at least 1.")
        if not 0 <= seed < 2**32:
            raise UsageError(f"The seed is {seed}, not from 0 to {2**32 - 1}.")
        request = SampleRequest(count or DEFAULT_COUNT, seed, options=options)
        if label is not None:
            number = class_number(str(label), data)
            labels = np.full(request.count, number, np.int32)
            request = dataclasses.replace(request, labels=labels)
            return SamplePlan(request, options.columns, label=number)
        if options.columns is not None or not self.has_classes:
            return SamplePlan(request, options.columns)
        if in_rows and count is None and 1 <= data.num_classes <= DEFAULT_COUNT:
            columns = DEFAULT_COUNT // data.num_classes
            labels = np.repeat(np.arange(data.num_classes, dtype=np.int32), columns)
            return SamplePlan(
                dataclasses.replace(request, count=len(labels), labels=labels), columns
            )
        names = data.class_names or range(data.num_classes)
        return SamplePlan(request, captions=[str(name) for name in names])

    def draw(self, request: SampleRequest) -> Iterator[Arrays]:
        """Yield the samples in parts: arrays [n, ...] by name, images as uint8. Raises ToolkitError
        if the hook failed, or yielded something else; UsageError if the model knows no classes.
        """
        request = dataclasses.replace(request, run_model=self._predict)
        parts = self._plugins.call_hook("sample", request=request, run=self._evaluator.run)
        if request.labels is not None and not self.has_classes:
            raise UsageError(*NO_CLASSES)
        if isinstance(parts, dict):
            parts = [parts]
        if not hasattr(parts, "__iter__"):
            raise self._fault(f"returned {type(parts).__name__}, expected an iterable of dicts")
        parts, total, first_form = iter(parts), 0, None
        while True:
            part = self._plugins.call_plugin_code("hook 'sample'", next, parts, None)
            if part is None:
                break
            if not isinstance(part, dict) or not part:
                found = type(part).__name__
                raise self._fault(f"yielded {found}, expected a dict of arrays by name")
            arrays = {name: np.asarray(values) for name, values in part.items()}
            if len({array.shape[:1] for array in arrays.values()} | {()}) != 2:
                shapes = ", ".join(f"{name} {list(x.shape)}" for name, x in arrays.items())
                raise self._fault(f"yielded {shapes}, expected as many rows of each")
            if has_images(arrays):
                arrays[IMAGES] = to_bytes(arrays[IMAGES])
            form = describe(arrays)
            first_form = first_form or form
            if form != first_form:
                raise self._fault(f"yielded {first_form}, then {form}")
            total += len(next(iter(arrays.values())))
            yield arrays
        if total != request.count:
            raise self._fault(f"yielded {total} samples, expected {request.count}")

    def _predict(self, inputs: Arrays, position: int) -> Arrays:
        graph = self._evaluator.graph
        if set(inputs) <= set(graph.outputs) and not set(inputs) & set(graph.placeholders):
            return self._evaluator.predict_from_outputs(inputs, position)
        return self._evaluator.predict(inputs, position=position)

    def _fault(self, text: str) -> ToolkitError:
        return ToolkitError(
            f"Hook 'sample' of plugin '{self._plugins.model.name}' {text}.",
            hint="It yields dicts of arrays [n, ...] by name, until there are request.count rows.",
        )


def check_draws_samples(plugins: Plugins) -> None:
    """Check that a plugin of the run has the hook `sample`. Raises UsageError."""
    if not plugins.has_hook("sample"):
        raise UsageError(
            f"Plugin '{plugins.model.name}' generates no samples: it has no hook 'sample'.",
            hint="Name the run of a model that generates; the hook yields arrays of samples, see "
            "toolkit.hookspecs.sample. 'toolkit predict' applies other models.",
        )


def class_number(text: str, data: Any) -> int:
    """The number of the class of a `DataSpec` that a user's text names, or is. Raises UsageError if
    there is none.
    """
    if text in data.class_names:
        number: int = data.class_names.index(text)
        return number
    if text.isdecimal() and int(text) < data.num_classes:
        return int(text)
    if not data.num_classes:
        raise UsageError(*NO_CLASSES)
    hint = f"Classes: 0 to {data.num_classes - 1}"
    names = list(map(str, data.class_names))
    if names != [str(k) for k in range(len(names))]:
        hint += f", or by name: {join_names(names, MAX_LISTED_CLASSES)}"
    raise UsageError(f"There is no class '{text}'.", hint=f"{hint}.")


def describe(arrays: Arrays) -> str:
    """The name, dtype and shape of one sample: "images uint8 [28, 28, 1]"."""
    names = sorted(arrays, key=str)  # a model may yield them in another order
    return ", ".join(f"{n} {arrays[n].dtype.name} {list(arrays[n].shape[1:])}" for n in names)


def has_images(arrays: Arrays) -> bool:
    """Whether samples can be written as PNGs."""
    images = arrays.get(IMAGES, np.zeros(0))
    is_pixels = images.dtype == np.uint8 or images.dtype.kind == "f"
    return is_pixels and images.ndim == 4 and images.shape[3] in (1, 3, 4)


def to_bytes(images: np.ndarray) -> np.ndarray:
    """uint8, rounded, from floats in [0, 1]; NaN becomes black. uint8 is returned unchanged."""
    if images.dtype == np.uint8:
        return images
    return np.clip(np.rint(np.nan_to_num(images) * 255), 0, 255).astype(np.uint8)
