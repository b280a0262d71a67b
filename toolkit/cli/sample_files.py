"""The files of `toolkit sample`: what a path names, and writing samples part by part.

Parts are consecutive arrays of samples, so folders of a million images need little memory.
Legend: n samples, H W C of an image.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from typing import Any, Dict, Iterable, Iterator, List, Optional, Tuple

import numpy as np

from ..display.grid import save_grid
from ..errors import UsageError
from ..files import atomic_write
from ..inference.sampling import IMAGES, LABEL, Arrays, SamplePlan, describe, has_images

FOLDER, NPZ, GRID = "folder", "npz", "grid"
MAX_IN_GRID = 10000


def kind_of(out: Optional[str], count: Optional[int] = None) -> str:
    """The kind of output that a path names: FOLDER, NPZ or GRID, the default. Raises UsageError if
    the ending names no kind, or a grid is too small for this number of samples.
    """
    ending = ".png" if out is None else os.path.splitext(out)[1].lower()
    if out is None or ending in (".npz", ".png"):
        if ending == ".png" and (count or 0) > MAX_IN_GRID:
            raise UsageError(
                f"{count} images are too many for a grid, which takes {MAX_IN_GRID}.",
                hint="Write them to a folder or to a .npz file with --out.",
            )
        return NPZ if ending == ".npz" else GRID
    if ending and not os.path.isdir(out):
        raise UsageError(
            f"{out}: samples are not written as {ending}.",
            hint="Name a folder for PNGs, a .npz file, or a .png file for a grid. A folder with a "
            "dot in its name has to exist.",
        )
    return FOLDER


def check_kind(parts: Iterator[Arrays], kind: str) -> Tuple[Iterator[Arrays], str]:
    """Check that samples can be written as a kind of output; return the same parts, and what the
    samples are: "images" or "samples". Raises UsageError for an output of images if they are none.
    """
    first = next(parts)
    if kind != NPZ and not has_images(first):
        what = str(list(first[IMAGES].shape[1:])) if IMAGES in first else describe(first)
        raise UsageError(
            f"The model generates {what}, which is no image.",
            hint="Write the numbers with --out FILE.npz.",
        )
    return itertools.chain([first], parts), IMAGES if IMAGES in first else "samples"


def write_folder(out: str, parts: Iterable[Arrays]) -> None:
    """Write the images as 000000.png, 000001.png and so on; after an error, none is left.

    A folder that this call made is then removed, too.
    """
    from PIL import Image

    is_new = not os.path.isdir(out)
    os.makedirs(out, exist_ok=True)
    paths: List[str] = []
    try:
        for image in (image for part in parts for image in part[IMAGES]):
            paths.append(os.path.join(out, f"{len(paths):06d}.png"))
            pixels = image[..., 0] if image.shape[-1] == 1 else image
            Image.fromarray(pixels).save(paths[-1])
    except BaseException:
        for path in paths:
            with contextlib.suppress(OSError):
                os.remove(path)
        if is_new:
            with contextlib.suppress(OSError):
                os.rmdir(out)
        raise


def write(kind: str, out: str, parts: Iterable[Arrays], plan: SamplePlan) -> None:
    """Write the samples of a plan as that kind of output."""
    if kind == FOLDER:
        return write_folder(out, parts)
    every = list(parts)
    arrays: Dict[str, Any] = {n: np.concatenate([part[n] for part in every]) for n in every[0]}
    if kind == NPZ:
        with atomic_write(out) as file:
            np.savez_compressed(file, **arrays)
        return None
    names = plan.captions
    labels = [names[k] for k in arrays[LABEL]] if names and LABEL in arrays else None
    return save_grid(out, arrays[IMAGES], plan.columns, labels)
