"""The command `toolkit gan`; what it does is imported when it runs."""

from __future__ import annotations

import sys

import click

from toolkit import cli_options

# Further flags of `calibrate` that choose and shape the data, with their values for help texts.
_DATA_FLAGS = {
    **{"fit": "pad|crop|stretch", "background": "COLOUR"},
    **{"validation_share": "SHARE", "test_share": "SHARE", "folds": "N", "fold": "N"},
    **{"split_seed": "N", "label_column": "NAME,...", "label_kind": "auto|class|value"},
    **{"image_column": "NAME", "feature_columns": "NAME,...", "ignore_columns": "NAME,..."},
    **{"split_column": "NAME", "missing": "refuse|drop|fill", "categories": "index|one-hot"},
}


def _data_flags(command):
    """Add the flags to a command; they are arguments of their names."""
    for name, metavar in reversed(list(_DATA_FLAGS.items())):
        flag = "--" + name.replace("_", "-")
        command = click.option(flag, metavar=metavar, help="As in run.")(command)
    return command


@click.group(cls=cli_options.HelpGroup)
def gan():
    """Tools for generative adversarial networks."""


@gan.command()
@click.option("--data", default="mnist5k", metavar="DATA", help="As in run; default: mnist5k.")
@click.option("--image-size", metavar="N|WIDTHxHEIGHT", help="As in run.")
@click.option("--channels", type=click.Choice(["1", "3"]), help="As in run.")
@_data_flags
@click.option(
    "--features",
    default="auto",
    metavar="RUN|auto|self|classifier|pixels",
    help="Source of the features, as in run: auto is a classifier if it is good, else self.",
)
@cli_options.trust_option
@cli_options.json_option
@cli_options.verbose_option
def calibrate(data, image_size, channels, features, as_json, **texts):
    """Measure the Frechet distance (FD) of real images with known damage.

    The FD compares the features of two sets of images; lower is more alike. Each line gives the FD
    of training images, damaged in one way, from the test images, and its multiple of the floor: the
    FD that two sets of real images reach by sampling noise. This ruler makes the FD of generated
    images readable.
    """
    from . import calibration

    is_square = image_size is not None and image_size.isdecimal()
    size = int(image_size) if is_square else image_size
    values = {"data": data, "features": features, "image_size": size, **texts}
    values["channels"] = None if channels is None else int(channels)
    flags = {name: value for name, value in values.items() if value is not None}
    result = calibration.calibrate(flags)
    if as_json:
        return cli_options.print_json(result)
    sys.stdout.write("".join(line + "\n" for line in calibration.report_lines(result)))
    return None
