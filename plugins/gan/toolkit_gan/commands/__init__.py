"""`toolkit sample` and `toolkit gan`: their flags. What they do is imported when it is done."""

from __future__ import annotations

import json
import os
import sys

import click

_json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object on stdout."
)


def _verbose(ctx, param, value):
    if value:  # before TensorFlow is imported
        os.environ["TOOLKIT_VERBOSE"] = "1"


_verbose_option = click.option(
    "-v",
    "--verbose",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_verbose,
    help="Show TensorFlow's log, and tracebacks.",
)


def _print_json(values) -> None:
    sys.stdout.write(json.dumps(values, indent=2) + "\n")


def _warn(text: str) -> None:
    sys.stderr.write("warning: " + text + "\n")


@click.command()
@click.argument("run_folder", metavar="RUN")
@click.option(
    "-n",
    "--count",
    type=click.IntRange(1, 1000000),  # six digits name so many files
    metavar="N",
    help="How many images; default: 64, of a conditional model in rows of one class each.",
)
@click.option(
    "--seed",
    type=click.IntRange(0, 2**32 - 1),
    default=0,
    metavar="S",
    help="The same seed draws the same images; default: 0.",
)
@click.option(
    "-o",
    "--out",
    "--output",  # as `toolkit predict` calls it
    "out",
    metavar="DIR|FILE",
    help="A new or empty folder of PNGs, a .npz of arrays, or a .png with all in a grid; a file"
    " is overwritten. Default: RUN/samples/seed-S-step-K.png.",
)
@click.option("--class", "class_", metavar="K", help="One class alone, by its name or number.")
@click.option(
    "--truncation",
    type=click.FloatRange(0, min_open=True),
    metavar="T",
    help="Keep latent numbers within +-T: cleaner images, less varied.",
)
@click.option("--interpolate", is_flag=True, help="Go from one random point to the next.")
@click.option(
    "--checkpoint",
    metavar="best|last|STEP",
    help="Which checkpoint; default: best where there is one, else last.",
)
@_json_option
@_verbose_option
def sample(run_folder, count, seed, out, class_, truncation, interpolate, checkpoint, as_json):
    """Draw images from a trained generator."""
    from toolkit import open_trained

    from . import drawing

    kind = drawing.kind_of(out, count)
    with open_trained(run_folder, checkpoint, _warn) as trained:
        drawing.check_draws(trained, kind)
        label = None if class_ is None else drawing.class_number(class_, trained)
        wish = drawing.Wish(count, seed, label, truncation, interpolate)
        out = out or os.path.join(run_folder, "samples", drawing.file_name(wish, trained.step))
        told = drawing.write(kind, out, wish, trained)
    if as_json:
        return _print_json(dict({"run": run_folder}, **told))
    sys.stdout.write("{out}  {count} images of step {step}, seed {seed}\n".format(**told))
    return None


@click.group()
def gan():
    """Tools around generative adversarial networks."""


@gan.command()
@click.option("--data", default="mnist5k", metavar="DATA", help="As in run; default: mnist5k.")
@click.option("--image-size", type=click.IntRange(1, 4096), metavar="N", help="As in run.")
@click.option("--channels", type=click.Choice(["1", "3"]), help="As in run.")
@click.option(
    "--features",
    default="auto",
    metavar="RUN|auto|pixels",
    help="What scores see by: a classifier's run; auto trains one, pixels does without.",
)
@_json_option
@_verbose_option
def calibrate(data, image_size, channels, features, as_json):
    """Measure the ruler of a data set: how far known damage takes its real images.

    Each line is the Frechet distance of as many training images as 'evaluate' draws samples,
    damaged in one way, from the test images.
    """
    from . import calibration

    given = {"data": data, "features": features, "image_size": image_size}
    given["channels"] = None if channels is None else int(channels)
    told = calibration.calibrate({n: value for n, value in given.items() if value is not None})
    if as_json:
        return _print_json(told)
    sys.stdout.write("".join(line + "\n" for line in calibration.lines(told)))
    return None
