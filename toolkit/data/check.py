"""Checks of a data set: counts, ranges, duplicates, damage, and a contact sheet."""

from __future__ import annotations

import collections
import os
from typing import Any, Dict, List, Optional, Sequence, Set, Tuple

import numpy as np

from ..data_value import complete
from ..errors import DataError, UsageError
from .examples import LENGTH, Dataset, Split, iterate_slices
from .files.cache import translate_read_errors
from .held_out import content_keys
from .images.folder import list_image_files
from .images.image_files import corrupt_images, name_files
from .sources import open_data, resolve_path
from .spec import DataSpec
from .structure import FEATURES, LABELS, describe_key


def check_source(value: str, **settings: Any) -> Tuple[Dict[str, Any], Optional[Dataset]]:
    """Open and check the data that a `--data` value names, with the arguments of `open_data`;
    return the report of `check_data` and the data set.

    If image files are damaged, "ok" is False in the report, "corrupt" lists them all, and the data
    set is None. Raises DataError if the data cannot be used for another reason.
    """
    value = complete(value)
    with translate_read_errors(value):
        try:
            dataset = open_data(value, **settings)
            return check_data(dataset, value), dataset
        except DataError:
            folder = resolve_path(value)
            if not (value.startswith(("images:", "pairs:")) and os.path.isdir(folder)):
                raise
            if "images" in settings and settings["images"].skip_damaged:
                raise  # the reason is not what is left out
            faults = corrupt_images(list_image_files(folder))
            if not faults:
                raise
            names = name_files(folder, list(faults))
            corrupt = [{"file": name, "reason": faults[path]} for name, path in zip(names, faults)]
            return {"data": value, "ok": False, "corrupt": corrupt}, None


def check_data(dataset: Dataset, value: str) -> Dict[str, Any]:
    """Check every example of a data set, of a `--data` value. The report, of JSON values, has
    "shape" and "dtype" of the only features, "components" by flat key if they are named, each
    split, duplicates across splits, SHA-256 of files. Of a split with classes, "contradicting"
    counts the examples that also occur, equal in all but that, with another class.
    """
    splits: Dict[str, Any] = {}
    hashes: Dict[str, Set[int]] = {}
    for name, split in dataset.splits.items():
        splits[name], hashes[name] = _check_split(split, dataset.spec, f"{value} ({name})")
    report: Dict[str, Any] = {"data": value, "ok": True, "corrupt": []}
    spec = dataset.spec
    if not spec.feature_names:
        report.update(shape=list(spec.shape), dtype=spec.dtype)
    if spec.components:
        report["components"] = {key: component.describe() for key, component in spec.components}
    return {
        **report,
        "classes": list(spec.class_names),
        "splits": splits,
        "in_train_and_test": len(hashes["train"] & hashes.get("test", set())),
        "in_train_and_validation": len(hashes["train"] & hashes.get("validation", set())),
        "notes": dataset.notes,
        "sha256": dataset.sha256,
    }


def check_is_images(dataset: Dataset, hint: str) -> None:
    """Raise a UsageError if the examples are no images that a sheet can show."""
    if len(dataset.spec.shape) != 3 or dataset.spec.shape[-1] not in (1, 3, 4):
        raise UsageError(
            f"The data '{dataset.name}' has examples of shape {list(dataset.spec.shape)}, "
            "which are not images.",
            hint=hint,
        )


def _check_split(split: Split, spec: DataSpec, source: str) -> Tuple[Dict[str, Any], Set[int]]:
    """The report of a split, and the hashes of its examples."""
    keys = [key for key in split.columns if split.components[key].kind != "text"]
    if split.class_labels is not None:
        keys.remove(LABELS)
    ranges = _measure_ranges(split, keys, source)
    keys_of_content = content_keys(split).tolist()
    report: Dict[str, Any] = {
        "examples": len(split),
        "bytes": split.nbytes,
        "duplicates": len(split) - len(set(keys_of_content)),
        "labelled": split.has_labels,
    }
    if FEATURES in keys:
        shape, dtype = split.components[FEATURES][:2]
        report.update(shape=list(shape), dtype=dtype, **ranges.pop(FEATURES, {}))
    if ranges:
        report["ranges"] = ranges
    if split.class_labels is not None:
        labels = split.class_labels
        counts = np.bincount(labels, minlength=spec.num_classes)
        report["class_counts"] = dict(zip(spec.class_names, counts.tolist()))
        classes = collections.Counter(key for key, _ in set(zip(keys_of_content, labels.tolist())))
        report["contradicting"] = sum(classes[key] > 1 for key in keys_of_content)
    return report, set(keys_of_content)


def _measure_ranges(split: Split, keys: Sequence[str], source: str) -> Dict[str, Dict[str, Any]]:
    """The values "min", "max" and "mean" of components by flat key, over chunks of examples.

    Raises a DataError if a value is not finite.
    """
    chunks: Dict[str, List[Any]] = collections.defaultdict(list)
    for part in iterate_slices(split):
        flat = split.read(part, keys)
        for key, array in flat.items():
            if split.components[key].is_sequence:  # padding is no value
                lengths = flat[key + LENGTH]
                array = array[np.arange(array.shape[1]) < lengths[:, np.newaxis]]
            if not array.size:
                continue
            with np.errstate(invalid="ignore"):  # the sum of infinities of both signs is invalid
                total = float(array.sum(dtype=np.float64))
            if not np.isfinite(total):
                raise DataError(
                    f"{source}: {describe_key(key)}: expected finite numbers, found NaN or "
                    f"infinity in examples {part.start} to {part.start + len(array) - 1}.",
                    hint="Repair or remove them.",
                )
            chunks[key].append((array.min(), array.max(), total, array.size))
    ranges = {}
    for key, parts in chunks.items():
        lowest, highest, totals, sizes = zip(*parts)
        ranges[key] = {
            "min": min(lowest).item(),
            "max": max(highest).item(),
            "mean": round(sum(totals) / max(1, sum(sizes)), 6),
        }
    return ranges
