"""What `toolkit sample` does: draw latent numbers, make images piece by piece, write them.

Legend: n images, Z latent numbers, H W C of an image, K classes. "Pieces" are arrays of images that
follow each other: so a million images need the memory of a few.
"""

from __future__ import annotations

import os
from typing import Any, Dict, Iterable, List, NamedTuple, Optional

import numpy as np

from toolkit import UsageError, atomic_write, save_grid

from .. import latents
from ..scores.sides import to_bytes
from ..sizes import condition

PIECE = 500
DEFAULT_COUNT, MOST_IN_GRID = 64, 10000
NOT_WRITTEN = (".jpg", ".jpeg", ".gif", ".bmp", ".webp", ".npy", ".zip", ".json", ".csv")
NEEDED = ("latent", "latent_size", "conditional")  # options that say what to draw
NAMED = 20  # up to so many classes an error lists


class Wish(NamedTuple):
    """What the flags say. count None: as many as make a good grid. label: one class for all."""

    count: Optional[int]
    seed: int
    label: Optional[int] = None
    truncation: Optional[float] = None
    interpolate: bool = False


# --------------------------------------------------------------------- what can be drawn, and where


def kind_of(out: Optional[str], count: Optional[int] = None) -> str:
    """ "folder", "npz" or "grid". Raises UsageError where that cannot be written."""
    ending = ".png" if out is None else os.path.splitext(out)[1].lower()
    if ending in NOT_WRITTEN:
        raise UsageError(
            f"{out}: samples are not written as {ending}.",
            hint="Name a folder for PNGs, a .npz file, or a .png file for a grid.",
        )
    if ending not in (".npz", ".png"):
        return _usable_folder(out)
    if ending == ".png" and (count or 0) > MOST_IN_GRID:
        raise UsageError(
            f"{count} images are too many for a grid, which takes {MOST_IN_GRID}.",
            hint="Write them to a folder or to a .npz file with --out.",
        )
    return "npz" if ending == ".npz" else "grid"


def _usable_folder(out: str) -> str:
    if os.path.exists(out) and (not os.path.isdir(out) or os.listdir(out)):
        raise UsageError(
            f"{out} is {'not empty' if os.path.isdir(out) else 'a file'}.",
            hint="Name a new folder, or a .npz or .png file, which is overwritten.",
        )
    return "folder"


def check_draws(trained: Any, kind: str) -> None:
    """Raises UsageError for a model that makes no images from latent numbers."""
    if not all(hasattr(trained.options, name) for name in NEEDED):
        raise UsageError(
            f"Plugin '{trained.plugin}' draws no samples.",
            hint="Name the run of a generator; 'toolkit predict' applies other models.",
        )
    if kind != "npz" and not _makes_images(trained.data):
        raise UsageError(
            f"The model makes {list(trained.data.shape)}, which is no image.",
            hint="Write the numbers with --out FILE.npz.",
        )


def _makes_images(data: Any) -> bool:
    return len(data.shape) == 3 and data.shape[2] in (1, 3, 4)


def class_number(text: str, trained: Any) -> int:
    """The class that a name or else a number means. Raises UsageError."""
    data = trained.data
    if condition(trained.options, trained.data) == "none":
        raise UsageError(
            "The model knows no classes: it was trained without a condition.",
            hint="Leave --class out, or train with --conditional projection on labelled data.",
        )
    if text in data.class_names:
        return data.class_names.index(text)
    if text.isdigit() and int(text) < data.num_classes:
        return int(text)
    raise UsageError(f"There is no class '{text}'.", hint=_known_classes(data))


def _known_classes(data: Any) -> str:
    known = f"Classes: 0 to {data.num_classes - 1}"
    named = [str(name) for name in data.class_names[:NAMED]]
    if named == [str(k) for k in range(len(named))]:
        return known + "."
    more = ", ..." if len(data.class_names) > NAMED else ""
    return f"{known}, or by name: {', '.join(named)}{more}."


def file_name(wish: Wish, step: int) -> str:
    """A name of its own for each wish: seed-0-step-500-class-3.png."""
    parts = [f"seed-{wish.seed}-step-{step}"]
    parts += [f"n-{wish.count}"] * (wish.count is not None)
    parts += [f"class-{wish.label}"] * (wish.label is not None)
    parts += [f"truncation-{wish.truncation or 0:g}"] * (wish.truncation is not None)
    parts += ["paths"] * wish.interpolate
    return "-".join(parts) + ".png"


# ------------------------------------------------------------------------------------ draw and make


def write(kind: str, out: str, wish: Wish, trained: Any) -> Dict[str, Any]:
    """Draw, make and write the samples; return what there is to tell of them."""
    inputs, columns = draw(wish, trained, in_rows=kind == "grid")
    pieces = made(trained, inputs)
    if kind == "folder":
        write_folder(out, pieces)
    elif kind == "npz":
        write_npz(out, pieces, inputs)
    else:
        write_grid(out, pieces, columns, captions(wish, trained, inputs, columns))
    told = dict(wish._asdict(), out=out, count=len(inputs["z"]))
    return dict(told, plugin=trained.plugin, step=trained.step, sha256=trained.sha256)


def draw(wish: Wish, trained: Any, in_rows: bool = False):
    """({"z": float32 [n, Z], and "label": int32 [n] where it matters}, columns of a grid or None).

    in_rows: where neither a number nor a class is wished, a conditional model gets rows of one
    class each.
    """
    options, data = trained.options, trained.data
    arguments = wish.label, wish.truncation
    if wish.interpolate:
        count = wish.count or DEFAULT_COUNT
        inputs = latents.interpolate(options, data, count, wish.seed, *arguments)
        return inputs, latents.PER_PATH  # a path per row
    rows = in_rows and wish.count is None and wish.label is None
    rows = rows and condition(options, data) != "none"
    if rows and data.num_classes <= DEFAULT_COUNT:
        columns = DEFAULT_COUNT // data.num_classes
        inputs = latents.draw(options, data, columns * data.num_classes, wish.seed, *arguments)
        label = np.repeat(np.arange(data.num_classes, dtype=np.int32), columns)
        return dict(inputs, label=label), columns
    count = wish.count or DEFAULT_COUNT
    return latents.draw(options, data, count, wish.seed, *arguments), None


def made(trained: Any, inputs: Dict[str, np.ndarray]) -> Iterable[np.ndarray]:
    """Pieces of the samples: uint8 [<= PIECE, H, W, C], or float32 where they are no images."""
    for start in range(0, len(inputs["z"]), PIECE):
        piece = {name: values[start : start + PIECE] for name, values in inputs.items()}
        values = trained.predict(piece)["image"]
        yield to_bytes(values) if _makes_images(trained.data) else values


def captions(wish: Wish, trained: Any, inputs, columns) -> Optional[List[str]]:
    """A class name per image, where a conditional model's classes are mixed."""
    mixed = wish.label is None and columns is None
    if not mixed or condition(trained.options, trained.data) == "none":
        return None
    names = trained.data.class_names or range(trained.data.num_classes)
    return [str(names[k]) for k in inputs["label"]]


# -------------------------------------------------------------------------------------------- write


def write_folder(out: str, pieces: Iterable[np.ndarray]) -> None:
    """000000.png, 000001.png, ..."""
    from PIL import Image

    os.makedirs(out, exist_ok=True)
    place = 0
    for piece in pieces:
        for image in piece:
            picture = Image.fromarray(image[..., 0] if image.shape[-1] == 1 else image)
            picture.save(os.path.join(out, f"{place:06d}.png"))
            place += 1


def write_npz(out: str, pieces: Iterable[np.ndarray], inputs: Dict[str, np.ndarray]) -> None:
    images = np.concatenate(list(pieces))
    with atomic_write(out) as file:
        np.savez_compressed(file, images=images, **inputs)


def write_grid(out: str, pieces: Iterable[np.ndarray], columns, labels) -> None:
    save_grid(out, np.concatenate(list(pieces)), columns, labels)
