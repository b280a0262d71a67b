"""`toolkit sample`: draw latent numbers, generate images chunk by chunk, write them to files.

Chunks are consecutive arrays of images, so folders of a million images need little memory.
Legend: n images, Z latent numbers, H W C of an image, K classes.
"""

from __future__ import annotations

import contextlib
import os
from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, Optional, Tuple

import numpy as np

from toolkit import UsageError, atomic_write, save_grid

from .. import latents
from ..architecture import conditioning
from ..scores.sample_sets import to_bytes

CHUNK = 500
DEFAULT_COUNT, MAX_IN_GRID = 64, 10000
OTHER_ENDINGS = (".jpg", ".jpeg", ".gif", ".bmp", ".webp", ".npy", ".zip", ".json", ".csv")
LATENT_OPTIONS = ("latent", "latent_size", "conditional")  # a generator's run has these
MAX_LISTED_CLASSES = 20  # in an error


class SampleRequest(NamedTuple):
    """The values of the flags."""

    num_images: Optional[int]  # None: as many as fill a grid
    seed: int
    label: Optional[int] = None  # one class for all images
    truncation: Optional[float] = None
    interpolate: bool = False


# ------------------------------------------------------------------------------------------- checks


def kind_of(out: Optional[str], count: Optional[int] = None) -> str:
    """The kind of output that a path names: "folder", "npz" or "grid".

    Args:
        out: the path, or None for the default, a grid.
        count: the number of images, or None.

    Raises:
        UsageError: the path cannot be written, or a grid is too small for the images.
    """
    ending = ".png" if out is None else os.path.splitext(out)[1].lower()
    if ending in OTHER_ENDINGS:
        raise UsageError(
            f"{out}: samples are not written as {ending}.",
            hint="Name a folder for PNGs, a .npz file, or a .png file for a grid.",
        )
    if out is not None and ending not in (".npz", ".png"):
        _check_folder(out)
        return "folder"
    if ending == ".png" and (count or 0) > MAX_IN_GRID:
        raise UsageError(
            f"{count} images are too many for a grid, which takes {MAX_IN_GRID}.",
            hint="Write them to a folder or to a .npz file with --out.",
        )
    return "npz" if ending == ".npz" else "grid"


def _check_folder(out: str) -> None:
    if os.path.exists(out) and (not os.path.isdir(out) or os.listdir(out)):
        raise UsageError(
            f"{out} is {'not empty' if os.path.isdir(out) else 'a file'}.",
            hint="Name a new folder, or a .npz or .png file, which is overwritten.",
        )


def check_model(trained: Any, kind: str) -> None:
    """Check that the model generates what `kind` of output can show. Raises UsageError."""
    if not all(hasattr(trained.options, name) for name in LATENT_OPTIONS):
        raise UsageError(
            f"Plugin '{trained.plugin}' generates no samples.",
            hint="Name the run of a generator; 'toolkit predict' applies other models.",
        )
    if kind != "npz" and not _has_images(trained.data):
        raise UsageError(
            f"The model generates {list(trained.data.shape)}, which is no image.",
            hint="Write the numbers with --out FILE.npz.",
        )


def _has_images(data: Any) -> bool:
    """Whether an example can be written as a PNG."""
    return len(data.shape) == 3 and data.shape[2] in (1, 3, 4)


def class_number(text: str, trained: Any) -> int:
    """The number of the class that `text` names, or is. Raises UsageError."""
    data = trained.data
    if conditioning(trained.options, trained.data) == "none":
        raise UsageError(
            "The model knows no classes: it was trained without labels.",
            hint="Omit --class, or train with --conditional projection on labelled data.",
        )
    if text in data.class_names:
        return data.class_names.index(text)
    if text.isdigit() and int(text) < data.num_classes:
        return int(text)
    raise UsageError(f"There is no class '{text}'.", hint=_class_list(data))


def _class_list(data: Any) -> str:
    numbers = f"Classes: 0 to {data.num_classes - 1}"
    names = [str(name) for name in data.class_names[:MAX_LISTED_CLASSES]]
    if names == [str(k) for k in range(len(names))]:
        return numbers + "."
    more = ", ..." if len(data.class_names) > MAX_LISTED_CLASSES else ""
    return f"{numbers}, or by name: {', '.join(names)}{more}."


def file_name(request: SampleRequest, step: int) -> str:
    """A file name that is different for each request: seed-0-step-500-class-3.png."""
    parts = [f"seed-{request.seed}-step-{step}"]
    parts += [f"n-{request.num_images}"] * (request.num_images is not None)
    parts += [f"class-{request.label}"] * (request.label is not None)
    parts += [f"truncation-{request.truncation or 0:g}"] * (request.truncation is not None)
    parts += ["paths"] * request.interpolate
    return "-".join(parts) + ".png"


# ---------------------------------------------------------------------------------------- generate


def write(kind: str, out: str, request: SampleRequest, trained: Any) -> Dict[str, Any]:
    """Generate the samples and write them.

    Args:
        kind: of `kind_of`.
        out: the path to write.
        request: what to generate.
        trained: the model, of `toolkit.open_trained`.

    Returns:
        What `--json` prints: the request, the path, the number of images, and the model.
    """
    inputs, columns = draw_inputs(request, trained, in_rows=kind == "grid")
    chunks = generate_chunks(trained, inputs)
    if kind == "folder":
        write_folder(out, chunks)
    elif kind == "npz":
        write_npz(out, chunks, inputs)
    else:
        labels = captions(request, trained, inputs, columns)
        save_grid(out, np.concatenate(list(chunks)), columns, labels)
    return {
        "count": len(inputs["z"]),
        "seed": request.seed,
        "label": request.label,
        "truncation": request.truncation,
        "interpolate": request.interpolate,
        "out": out,
        "plugin": trained.plugin,
        "step": trained.step,
        "sha256": trained.sha256,
    }


def draw_inputs(
    request: SampleRequest, trained: Any, in_rows: bool = False
) -> Tuple[latents.Inputs, Optional[int]]:
    """Draw the inputs of the generator.

    Args:
        request: what to generate.
        trained: the model.
        in_rows: with classes, draw rows of one class each unless the request has a count or label.

    Returns:
        The inputs, and the columns of their grid or None.
    """
    options, data = trained.options, trained.data
    seed, label, truncation = request.seed, request.label, request.truncation
    count = request.num_images or DEFAULT_COUNT
    if request.interpolate:
        inputs = latents.interpolation_inputs(options, data, count, seed, label, truncation)
        return inputs, latents.IMAGES_PER_PATH  # a path per row
    has_rows = in_rows and request.num_images is None and label is None
    has_rows = has_rows and conditioning(options, data) != "none"
    if has_rows and data.num_classes <= DEFAULT_COUNT:
        columns = DEFAULT_COUNT // data.num_classes
        count = columns * data.num_classes
        inputs = latents.random_inputs(options, data, count, seed, label, truncation)
        rows = np.repeat(np.arange(data.num_classes, dtype=np.int32), columns)
        return dict(inputs, label=rows), columns
    return latents.random_inputs(options, data, count, seed, label, truncation), None


def generate_chunks(trained: Any, inputs: latents.Inputs) -> Iterator[np.ndarray]:
    """Yield the samples, [<= CHUNK, H, W, C]: uint8, or float32 if they are no images."""
    for start in range(0, len(inputs["z"]), CHUNK):
        chunk = {name: values[start : start + CHUNK] for name, values in inputs.items()}
        values = trained.predict(chunk)["image"]
        yield to_bytes(values) if _has_images(trained.data) else values


def captions(
    request: SampleRequest, trained: Any, inputs: latents.Inputs, columns: Optional[int]
) -> Optional[List[str]]:
    """The name of each image's class if the classes are mixed, otherwise None."""
    is_mixed = request.label is None and columns is None
    if not is_mixed or conditioning(trained.options, trained.data) == "none":
        return None
    names = trained.data.class_names or range(trained.data.num_classes)
    return [str(names[k]) for k in inputs["label"]]


# -------------------------------------------------------------------------------------------- write


def write_folder(out: str, chunks: Iterable[np.ndarray]) -> None:
    """Write the images as 000000.png, 000001.png and so on; after an error, none is left."""
    from PIL import Image

    os.makedirs(out, exist_ok=True)
    paths: List[str] = []
    try:
        for image in (image for chunk in chunks for image in chunk):
            paths.append(os.path.join(out, f"{len(paths):06d}.png"))
            pixels = image[..., 0] if image.shape[-1] == 1 else image
            Image.fromarray(pixels).save(paths[-1])
    except BaseException:
        for path in paths:
            with contextlib.suppress(OSError):
                os.remove(path)
        with contextlib.suppress(OSError):
            os.rmdir(out)
        raise


def write_npz(out: str, chunks: Iterable[np.ndarray], inputs: latents.Inputs) -> None:
    """Write the images and the inputs from which they were generated."""
    images = np.concatenate(list(chunks))
    with atomic_write(out) as file:
        arrays: Dict[str, Any] = dict(images=images, **inputs)
        np.savez_compressed(file, **arrays)
