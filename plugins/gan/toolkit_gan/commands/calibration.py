"""What `toolkit gan calibrate` does: measure the ruler of a data set that no model was trained on.

Legend: n training images, m test images, F features.
"""

from __future__ import annotations

from typing import Any, Dict, List

import toolkit
from toolkit import DataError

from ..scores import reports, ruler, sides
from ..scores.distances import frechet_floor, moments
from ..scores.extractor import Features, open_features
from ..scores.scoring import share

FEWEST = 10  # images of a side


def calibrate(given: Dict[str, Any]) -> Dict[str, Any]:
    """The ruler of the data that the options `given` name, as JSON takes it."""
    opened = toolkit.open_data("gan", given)
    train, test = (checked(opened.split(name), name) for name in ("train", "test"))
    features = open_features(opened.options, opened.data, train)
    try:
        told = measured(train, test, features, opened.options.score_samples)
    finally:
        features.close()
    return dict({"data": opened.options.data}, **told)


def checked(split: Any, name: str) -> Any:
    """The split. Raises DataError where no ruler can be made of it."""
    count = 0 if split is None else len(split)
    if count < FEWEST:
        raise DataError(
            f"The split '{name}' has {reports.images(count)}, and a ruler needs {FEWEST} or more.",
            hint="Take data with more examples.",
        )
    if len(split.shape) != 3:
        raise DataError(
            f"The examples are {list(split.shape)}, and a ruler needs images.",
            hint="Take data of images [H, W, C].",
        )
    return split


def measured(train: Any, test: Any, features: Features, most: int) -> Dict[str, Any]:
    """The marks of damaged training images against test images, at most `most` of each."""
    positions = sides.spread(len(train), most)
    known = sides.seen(train, positions, features)
    reference = moments(sides.seen(test, sides.spread(len(test), most), features).features)
    images, labels = sides.real_images(train, positions), known.labels
    if labels is None:  # the features know no classes, the data may
        labels = train.take(positions)[1]
    marks = ruler.measure_ruler(images, labels, reference, features, known.features)
    floor = frechet_floor(reference, len(positions), reference.count)
    return {
        "n": len(positions),
        "m": reference.count,
        "features": {"name": features.name, "size": features.size, "sha256": features.sha256},
        "floor": floor,
        "ruler": [dict(m, floors=share(m["distance"], floor)) for m in ruler.to_json(marks)],
    }


def lines(told: Dict[str, Any]) -> List[str]:
    """A heading, and a line per mark: its distance, and that in floors."""
    heading = [
        "{data}: {n} training images against {m} test images".format(**told),
        reports.features_line(told["features"]),
        f"floor {reports.short(told['floor'])}: what chance makes of real images",
        "",
        f"{'FD':>10} {'x floor':>10}  damage",
    ]
    if reports.few_line(told):
        heading[3:3] = [reports.few_line(told)]
    return heading + [
        f"{reports.short(mark['distance']):>10} {reports.short(mark['floors'], 2):>10}  "
        f"{mark['name']}"
        for mark in told["ruler"]
    ]
