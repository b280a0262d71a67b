"""Select the columns of a prediction to show: names of classes, and the most probable of them."""

from __future__ import annotations

from typing import Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from ..errors import UsageError


def columns(
    predictions: Dict[str, np.ndarray], class_names: Sequence[str], with_features: bool
) -> Dict[str, np.ndarray]:
    """The columns of a prediction, arrays [N, ...], to show by name. The names of the classes are
    the column "class" beside "label". Raises UsageError if there are no features to show.
    """
    by_name = {n: v for n, v in predictions.items() if with_features or n != "features"}
    if with_features and "features" not in predictions:
        raise UsageError(
            "The plugin predicts no 'features'.",
            hint=f"It predicts {', '.join(sorted(predictions))}.",
        )
    label = by_name.get("label")
    if label is not None and class_names and label.ndim == 1:
        names = [class_names[int(i)] for i in label]
        if names != [str(i) for i in label]:
            by_name["class"] = np.array(names)
    return by_name


def best_classes(
    predictions: Mapping[str, np.ndarray], class_names: Sequence[str], count: int = 3
) -> Optional[List[List[Tuple[str, float]]]]:
    """The most probable classes of each example, with their probabilities, best first.

    The arrays are integer "label" [N] and "probabilities" [N, K], the names K, by default the
    numbers of the classes. None if the predictions have no probabilities of classes.
    """
    label, shares = predictions.get("label"), predictions.get("probabilities")
    if label is None or shares is None or label.ndim != 1 or shares.ndim != 2:
        return None
    names = class_names or [str(number) for number in range(shares.shape[1])]
    order = np.argsort(-shares, axis=1, kind="stable")[:, :count]
    return [
        [(names[k], float(row[k])) for k in best if k < len(names)]
        for row, best in zip(shares, order)
    ]
