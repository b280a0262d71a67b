"""Read TFRecord files to predict on, in the way of the data that a model was trained on."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence

from ..data.examples import Split, describe
from ..data.held_out import NOTHING
from ..data.prepare import Convert, ExampleHooks, prepare
from ..data.reading_options import ImageOptions
from ..data.records.record_files import is_record_file
from ..data.records.schema import model_keys
from ..data.sources import open_data
from ..data.spec import DataSpec
from ..data.structure import FEATURES, LABELS, pack_role
from ..errors import DataError
from .predict import Examples, example_names
from .table_examples import join_parts, read_features


def are_records(paths: Sequence[str]) -> bool:
    """Whether files have TFRecords. Raises a DataError if only some of them do."""
    records = [path for path in paths if is_record_file(path)]
    if records and len(records) < len(paths):
        raise DataError(
            f"{records[0]} is a TFRecord file, and other files are none.", hint="Give one kind."
        )
    return bool(records)


def read_record_examples(
    paths: Sequence[str],
    spec: DataSpec,
    images: ImageOptions,
    convert: Optional[Convert] = None,
) -> Examples:
    """Read the records of files; labels are not read.

    Args:
        paths: of the files.
        spec: of the data that the model was trained on, as stored, with its keys.
        images: the form of images.
        convert: the hook of that name as a function of one example, or None.

    Raises:
        DataError: a record is damaged, or its features are others than those of the model.
    """
    keys = model_keys(spec)
    records = None if keys is None else dict(keys, labels=())
    flats: List[Dict[str, Any]] = []
    names: List[str] = []
    for path in paths:
        dataset = open_data(f"tfrecord:{path}", images=images, shares=NOTHING, records=records)
        features = pack_role(dataset.splits["train"].columns, FEATURES)
        split = Split(features)
        _check_features(path, split, spec)
        flats.append(read_features(split))
        names += example_names(path, len(split))
    joined = {key: join_parts([flat[key] for flat in flats]) for key in flats[0]}
    features = pack_role(joined, FEATURES)
    if convert is not None:
        features = prepare(Split(features), ExampleHooks(convert=convert)).features
    return Examples(features, names)


def _check_features(path: str, split: Split, spec: DataSpec) -> None:
    """Refuse records whose features have other names, shapes or types than those of the model."""
    expected = {key: each[:2] for key, each in spec.flat.items() if not key.startswith(LABELS)}
    actual = {key: each[:2] for key, each in split.components.items() if key in expected}
    if actual != expected:
        raise DataError(
            f"{path}: the model was trained on {spec.describe_features()}, found "
            f"{describe(split).describe_features()}.",
            hint="Give records with the features of the training data.",
        )
