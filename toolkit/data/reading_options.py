"""How a source reads images, and the columns of tables and records."""

from __future__ import annotations

from typing import Any, Callable, Dict, NamedTuple, Optional, Sequence, Tuple, Union

from ..errors import UsageError
from .files.file_index import FileIndex
from .held_out import DEFAULT_SHARES, Shares
from .spec import DataSpec


class ImageOptions(NamedTuple):
    """How image files, or encoded images of records, are read.

    Attributes:
        image_size: the size in pixels that each image gets, 64 or "WIDTHxHEIGHT"; None for that of
            the files.
        channels: 1 or 3, to which images are converted; None for 1 if all are grey, else 3.
        fit: "pad", "crop" or "stretch", for images of another shape.
        background: the name of a colour, or #rrggbb, below transparent images and around padded
            ones.
        extends_border: whether to pad with the mean of each image's own border instead.
        shapes: the shape (H, W, C) that the images of a component get, by its name; others get
            that of `image_size` and `channels`.
        skip_damaged: whether to leave out files that cannot be read.
    """

    image_size: Union[None, int, str] = None
    channels: Optional[int] = None
    fit: str = "pad"
    background: str = "white"
    extends_border: bool = False
    shapes: Tuple[Tuple[str, Tuple[int, int, int]], ...] = ()
    skip_damaged: bool = False

    def of(self, component: str) -> ImageOptions:
        """The options of the images of a component."""
        shape = dict(self.shapes).get(component)
        if shape is None:
            return self
        return self._replace(image_size=f"{shape[1]}x{shape[0]}", channels=shape[2])


DEFAULT_IMAGES = ImageOptions()


class ColumnOptions(NamedTuple):
    """Which columns of a table, or keys of records, are features, labels and splits.

    Attributes:
        label_column: of the labels; several for a vector of values; ("none",) for no labels; () for
            the one with a usual name.
        label_kind: "class", "value" or "auto".
        image_column: of the paths of images, or of encoded ones; None to find it.
        feature_columns: all that are features; () for all others.
        ignore_columns: that are left out.
        split_column: whose values are names of splits, if the table has it; "none" for none.
        missing: "refuse" empty fields, "drop" their rows, or "fill" them.
        categories: "index" for a class number for each text, "one-hot" for columns of 0 and 1.
    """

    label_column: Tuple[str, ...] = ()
    label_kind: str = "auto"
    image_column: Optional[str] = None
    feature_columns: Tuple[str, ...] = ()
    ignore_columns: Tuple[str, ...] = ()
    split_column: str = "split"
    missing: str = "refuse"
    categories: str = "index"


DEFAULT_COLUMNS = ColumnOptions()


class Settings(NamedTuple):
    """What the function of a source gets; each uses what concerns it.

    Attributes:
        path: the part of the `--data` value after the prefix, resolved; the whole value of a source
            without a path.
        images: the form of images.
        columns: of tables and records.
        shares: of the examples, held out if the source has no test or validation split.
        file_index: of the files at the path; None for a new one.
        model: the spec of the data that a model was trained on, as stored, whose columns, keys and
            classes of label images hold; None to find them.
    """

    path: str
    images: ImageOptions = DEFAULT_IMAGES
    columns: ColumnOptions = DEFAULT_COLUMNS
    shares: Shares = DEFAULT_SHARES
    file_index: Optional[FileIndex] = None
    model: Optional[DataSpec] = None

    @property
    def files(self) -> FileIndex:
        """What is known of the files."""
        return self.file_index or FileIndex(self.path)


def refuse_idle(
    options: Any,
    used: Sequence[str],
    place: str,
    describe_others: Callable[[str], str] = lambda name: "",
) -> None:
    """Raise a UsageError if an option is set that has no effect.

    Args:
        options: `ImageOptions` or `ColumnOptions`.
        used: the names of those that have an effect.
        place: on what the others have none.
        describe_others: continues the hint for an option.
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


def image_options(options: Any) -> ImageOptions:
    """How the options of a run (`CoreOptions`) read image files."""
    names = ("image_size", "channels", "fit", "background", "skip_damaged")
    return ImageOptions(**{name: getattr(options, name) for name in names})


def column_options(options: Any) -> ColumnOptions:
    """Which columns of a table, or keys of records, are features, labels and splits."""
    values = [getattr(options, name) for name in ColumnOptions._fields]
    return ColumnOptions._make(tuple(v) if isinstance(v, list) else v for v in values)


def reading_settings(options: Any) -> Dict[str, Any]:
    """The arguments of `open_data` that the options of a run set."""
    shares = (options.validation_share, options.test_share)
    return {
        "images": image_options(options),
        "columns": column_options(options),
        "shares": Shares(*shares, options.folds, options.fold, options.split_seed),
        "rehash": options.rehash,
    }
