"""`toolkit gan calibrate`: measure the ruler of a data set, without a generator.

Legend: n training images, m test images, F features.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional

import toolkit
from toolkit import DataError

from ..scores import reports, ruler, sensitivity
from ..scores.distances import frechet_floor
from ..scores.extractor import Features
from ..scores.principal import open_score_features
from ..scores.sample_sets import (
    MIN_IMAGES,
    classes_of,
    even_positions,
    featurize_split,
    make_reference,
    real_images,
)
from ..scores.scorer import ratio


def calibrate(options: Dict[str, Any]) -> Dict[str, Any]:
    """Measure the ruler of the data that the options name; return JSON values."""
    plugin_data = toolkit.open_data("gan", options)
    run_options: Any = plugin_data.options  # of the core and of this plugin
    train, test = (plugin_data.split(name) for name in ("train", "test"))
    check_split(train, "train")
    check_split(test, "test")
    splits = plugin_data.split
    features = open_score_features(run_options, plugin_data.data, splits)
    try:
        result = measure(train, test, features, run_options.score_samples)
    finally:
        features.close()
    return dict({"data": run_options.data}, **result)


def check_split(split: Any, name: str) -> None:
    """Check that a split has enough images for a ruler. Raises DataError."""
    count = 0 if split is None else len(split)
    if count < MIN_IMAGES:
        raise DataError(
            f"The split '{name}' has {reports.image_count(count)}, and a ruler needs {MIN_IMAGES} "
            "or more.",
            hint="Hold out more of the data with --test-share, or use data with more examples.",
        )
    if len(split.shape) != 3:
        raise DataError(
            f"The examples are {list(split.shape)}, and a ruler needs images.",
            hint="Use data of images [H, W, C].",
        )


def measure(train: Any, test: Any, features: Features, limit: int) -> Dict[str, Any]:
    """Measure the marks of damaged training images against test images.

    Args:
        train: the `Split` whose images are damaged.
        test: the `Split` of the reference.
        features: of the images.
        limit: at most so many images of each split are used.
    """
    positions = even_positions(len(train), limit)
    samples = featurize_split(train, positions, features)
    reals = make_reference(test, features, limit)
    reference = reals.moments
    images, labels = real_images(train, positions), samples.labels
    if labels is None:  # without a classifier, the data's own classes serve
        labels = classes_of(train, positions)
    feature_sets = ruler.damage_features(images, labels, features, samples.features)
    marks = ruler.measure_marks(feature_sets, labels, reference)
    judgements = sensitivity.judge(feature_sets, reals, len(positions))
    floor = frechet_floor(reference, len(positions), reference.num_examples)
    return {
        "n": len(positions),
        "m": reference.num_examples,
        "features": {"name": features.name, "size": features.size, "sha256": features.sha256},
        "floor": floor,
        "ruler": [dict(m, floors=ratio(m["distance"], floor)) for m in ruler.to_json(marks)],
        "measures": {name: each.as_json() for name, each in judgements.items()},
    }


def report_lines(result: Dict[str, Any]) -> List[str]:
    """A heading, a line per mark (its distance, also in floors), and what each measure gives."""
    few_images = reports.few_images_line(dict(result, source="training images"))
    heading = [
        f"{result['data']}: {result['n']} training images against {result['m']} test images",
        reports.features_line(result["features"]),
        "FD: Frechet distance from the test images",
        f"{reports.FLOOR}; here {reports.short(result['floor'])}",
        *([few_images] if few_images else []),
        "",
        f"{'FD':>10} {'x floor':>10}  damage",
    ]
    marks = [
        f"{reports.short(mark['distance']):>10} {format_floors(mark['floors']):>10}  {mark['name']}"
        for mark in result["ruler"]
    ]
    measures = [
        f"{sensitivity.title(name)}{reports.format_judgement(result, name)}"
        for name in sensitivity.SEVERE
        if not result["measures"][name].get("refusal")
    ]
    return [*heading, *marks, "", *measures, *reports.refused_lines(result)]


def format_floors(floors: Optional[float]) -> str:
    """A multiple of the floor, or "-" where the floor is 0."""
    return "-" if floors is None else reports.short(floors, 2)
