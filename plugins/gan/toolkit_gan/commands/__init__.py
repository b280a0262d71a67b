"""The commands `toolkit sample` and `toolkit gan`; what they do is imported when they run."""

from __future__ import annotations

import os
import sys

import click

from toolkit import cli_options


@click.command()
@click.argument("run_folder", metavar="RUN")
@click.option(
    "-n",
    "--count",
    type=click.IntRange(1, 1000000),  # six digits name so many files
    metavar="N",
    help="Number of images; default: 64, with classes in rows of one class each.",
)
@click.option(
    "--seed",
    type=click.IntRange(0, 2**32 - 1),
    default=0,
    metavar="S",
    help="Seed of the latent numbers; the same seed gives the same images. Default: 0.",
)
@click.option(
    "-o",
    "--out",
    "--output",  # as `toolkit predict` calls it
    "out",
    metavar="DIR|FILE",
    help="A new or empty folder for PNGs, a .npz file for arrays, or a .png file for a grid of all;"
    " a file is overwritten. Default: RUN/samples/seed-S-step-K.png.",
)
@click.option("--class", "class_", metavar="K", help="Only this class, by its name or number.")
@click.option(
    "--truncation",
    type=click.FloatRange(0, min_open=True),
    metavar="T",
    help="Limit latent numbers to +-T: cleaner, less varied images.",
)
@click.option("--interpolate", is_flag=True, help="Interpolate between random points.")
@cli_options.checkpoint_option
@cli_options.trust_option
@cli_options.json_option
@cli_options.verbose_option
def sample(run_folder, count, seed, out, class_, truncation, interpolate, checkpoint, as_json):
    """Generate images with a trained generator."""
    from toolkit import open_trained

    from . import sample_files

    kind = sample_files.kind_of(out, count)
    path = None if out is None else cli_options.resolve_output(out, kind == "folder")
    with open_trained(run_folder, checkpoint, cli_options.warn) as trained:
        sample_files.check_model(trained, kind)
        label = None if class_ is None else sample_files.class_number(class_, trained)
        request = sample_files.SampleRequest(count, seed, label, truncation, interpolate)
        name = sample_files.file_name(request, trained.step)
        out = out or os.path.join(run_folder, "samples", name)
        with cli_options.writing_output(out):
            if path is None:  # a link to another folder is refused
                path = os.path.join(trained.run_folder.make_subfolder("samples"), name)
            summary = dict(sample_files.write(kind, path, request, trained), out=out)
    if as_json:
        return cli_options.print_json(dict({"run": run_folder}, **summary))
    with cli_options.optional_output():
        sys.stdout.write("{out}  {count} images of step {step}, seed {seed}\n".format(**summary))
    return None


@click.group(cls=cli_options.HelpGroup)
def gan():
    """Tools for generative adversarial networks."""


@gan.command()
@click.option("--data", default="mnist5k", metavar="DATA", help="As in run; default: mnist5k.")
@click.option("--image-size", metavar="N|WIDTHxHEIGHT", help="As in run.")
@click.option("--channels", type=click.Choice(["1", "3"]), help="As in run.")
@click.option(
    "--features",
    default="auto",
    metavar="RUN|auto|pixels",
    help="Source of the features: a classifier's run; auto trains one once, pixels needs none.",
)
@cli_options.trust_option
@cli_options.json_option
@cli_options.verbose_option
def calibrate(data, image_size, channels, features, as_json):
    """Measure the Frechet distance (FD) of real images with known damage.

    The FD compares the features of two sets of images; lower is more alike. Each line gives the FD
    of training images, damaged in one way, from the test images, and its multiple of the floor: the
    FD that two sets of real images reach by sampling noise. This ruler makes the FD of generated
    images readable.
    """
    from . import calibration

    is_square = image_size is not None and image_size.isdecimal()
    size = int(image_size) if is_square else image_size
    values = {"data": data, "features": features, "image_size": size}
    values["channels"] = None if channels is None else int(channels)
    flags = {name: value for name, value in values.items() if value is not None}
    result = calibration.calibrate(flags)
    if as_json:
        return cli_options.print_json(result)
    sys.stdout.write("".join(line + "\n" for line in calibration.report_lines(result)))
    return None
