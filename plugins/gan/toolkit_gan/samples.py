"""`toolkit sample`: draw latent numbers, and generate their images part by part.

Legend: n images, Z latent numbers.
"""

from __future__ import annotations

from typing import Dict, Iterator

import numpy as np

from toolkit import SampleRequest, UsageError

from . import latents
from .architecture import has_classes, label_kind


def draw(request: SampleRequest, run) -> Iterator[Dict[str, np.ndarray]]:
    """Yield images and the inputs from which they follow: "z", and "label" and "cluster" if any.

    Raises:
        UsageError: the request names a class, and the model knows none.
    """
    if request.labels is not None and not has_classes(run.options, run.data):
        has_clusters = label_kind(run.options, run.data) == "cluster"
        reason = (
            "its labels are clusters of images" if has_clusters else "it was trained without labels"
        )
        raise UsageError(
            f"The model knows no classes: {reason}.",
            hint="Omit --class, or train with --conditional projection on labelled data.",
        )
    return _generate(request, draw_inputs(request, run))


def draw_inputs(request: SampleRequest, run) -> latents.Inputs:
    """The inputs of the generator for all images of a request; image i is the same for any n.

    The numbers are those of earlier versions, and therefore not drawn by `request.normal`.
    """
    draw_all = latents.random_inputs
    if request.options.interpolate:
        draw_all = latents.interpolation_inputs
    settings = {"truncation": request.options.truncation}
    inputs = draw_all(run.options, run.data, request.count, request.seed, **settings)
    return inputs if request.labels is None else dict(inputs, label=request.labels)


def _generate(request: SampleRequest, inputs: latents.Inputs) -> Iterator[Dict[str, np.ndarray]]:
    for part in request.parts():
        rows = {name: array[part.first :][: part.count] for name, array in inputs.items()}
        yield dict(images=part.predict(rows)["image"], **rows)
