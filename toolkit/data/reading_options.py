"""How a source reads images, and the columns of tables and records."""

from __future__ import annotations

from typing import Any, Callable, Dict, NamedTuple, Optional, Sequence, Tuple, Union

from ..errors import UsageError
from .files.file_index import FileIndex
from .held_out import DEFAULT_SHARES, Shares
from .spec import DataSpec


class ImageOptions(NamedTuple):
    """How image files, or encoded images of records, are read."""

    image_size: Union[None, int, str] = None  # pixels, 64 or "WIDTHxHEIGHT"; None: as in the files
    channels: Optional[int] = None  # 1 or 3; None for 1 if all images are grey, else 3
    fit: str = "pad"  # or "crop" or "stretch", for images of another shape
    background: str = "white"  # below transparent images and around padded ones; or #rrggbb
    extends_border: bool = False  # pads with the mean of each image's own border instead
    # The shape (H, W, C) of the images of a component, by its name, in place of size and channels.
    shapes: Tuple[Tuple[str, Tuple[int, int, int]], ...] = ()
    skip_damaged: bool = False  # leaves out files that cannot be read

    def of(self, component: str) -> ImageOptions:
        """The options of the images of a component."""
        shape = dict(self.shapes).get(component)
        if shape is None:
            return self
        return self._replace(image_size=f"{shape[1]}x{shape[0]}", channels=shape[2])


DEFAULT_IMAGES = ImageOptions()


class ColumnOptions(NamedTuple):
    """Which columns of a table, or keys of records, are features, labels and splits."""

    # Several for a vector of values; ("none",) for no labels; () for the one with a usual name.
    label_column: Tuple[str, ...] = ()
    label_kind: str = "auto"  # or "class" or "value"
    image_column: Optional[str] = None  # of paths of images, or of encoded ones; None to find it
    feature_columns: Tuple[str, ...] = ()  # all that are features; () for all others
    ignore_columns: Tuple[str, ...] = ()  # that are left out
    split_column: str = "split"  # of the names of splits, if the table has it; "none" for none
    missing: str = "refuse"  # empty fields; or "drop" their rows, or "fill" them
    categories: str = "index"  # a class number for each text; "one-hot" for columns of 0 and 1


class Settings(NamedTuple):
    """What the function of a source gets; each uses what concerns it."""

    path: str  # what follows the prefix, resolved; the whole value of a source without a path
    images: ImageOptions = DEFAULT_IMAGES
    columns: ColumnOptions = ColumnOptions()
    shares: Shares = DEFAULT_SHARES  # held out if the source has no test or validation split
    # The data that a model was trained on, as stored: its columns, keys and classes of label images
    # hold. None to find them.
    model: Optional[DataSpec] = None

    @property
    def files(self) -> FileIndex:
        """What is known of the files at the path."""
        return FileIndex(self.path)


def refuse_idle(
    options: Any,
    used: Sequence[str],
    place: str,
    describe_others: Callable[[str], str] = lambda name: "",
) -> None:
    """Raise a UsageError if one of `ImageOptions` or `ColumnOptions` is set that is not among those
    that are used, and so has no effect on the place; the hint is continued by the last argument.
    """
    for name, value in options._asdict().items():
        if name in used or value == options._field_defaults[name]:
            continue
        flag = "--" + name.replace("_", "-")
        text = ",".join(value) if isinstance(value, tuple) else value
        given = flag if value is True else f"{flag} {text}"
        raise UsageError(
            f"{given} has no effect on {place}.", hint=f"Omit {flag}{describe_others(name)}."
        )


def refuse_idle_images(path: str, images: ImageOptions) -> None:
    """Raise a UsageError if an option of images is set for data that turns out to have none."""
    refuse_idle(images, ("extends_border", "shapes"), f"{path}, which has no images")


def reading_settings(options: Any) -> Dict[str, Any]:
    """The arguments of `open_data` that the options of a run (`CoreOptions`) set."""
    images = ("image_size", "channels", "fit", "background", "skip_damaged")
    columns = [getattr(options, name) for name in ColumnOptions._fields]
    shares = (options.validation_share, options.test_share)
    return {
        "images": ImageOptions(**{name: getattr(options, name) for name in images}),
        "columns": ColumnOptions._make(tuple(v) if isinstance(v, list) else v for v in columns),
        "shares": Shares(*shares, options.folds, options.fold, options.split_seed),
        "rehash": options.rehash,
    }
