"""The command `toolkit image-scores`: the ruler of a data set, without a generator.

Legend: n training images, m test images, F features.
"""

from __future__ import annotations

import sys
from typing import Any, Dict

import click

from toolkit import cli_options

SET_HELP = "Any other option of the data, as in run: --set test_share=0.2."


@click.command("image-scores")
@click.option("--data", default="mnist5k", metavar="DATA", help="As in run; default: mnist5k.")
@click.option("--image-size", metavar="N|WIDTHxHEIGHT", help="As in run.")
@click.option("--channels", type=click.Choice(["1", "3"]), help="As in run.")
@click.option(
    "--features",
    metavar="RUN|auto|self|classifier|pixels",
    help="Source of the features, as in run: auto is a classifier if it is good, else self.",
)
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help=SET_HELP)
@cli_options.trust_option
@cli_options.json_option
@cli_options.verbose_option
def image_scores(settings, as_json, **flags):
    """Measure how damage changes the Frechet distance (FD).

    The FD compares the features of two sets of images; lower is more alike. Each line gives the FD
    of training images, damaged in one way, from the test images, and its multiple of the floor: the
    FD that two sets of real images reach by sampling noise. This ruler makes the FD of generated
    images readable. Below are the values of each measure, or why it says nothing here.
    """
    from . import report

    values = {name: value for name, value in flags.items() if value is not None}
    for text in settings:
        name, equals, value = text.partition("=")
        if not equals:
            raise click.BadParameter(f"'{text}' is not of the form NAME=VALUE.")
        values[name.strip().replace("-", "_")] = value
    result = calibrate(values)
    if as_json:
        return cli_options.print_json(result)
    sys.stdout.write("".join(line + "\n" for line in report.calibration_lines(result)))
    return None


def calibrate(options: Dict[str, Any]) -> Dict[str, Any]:
    """Measure the ruler of the data that the options name; return JSON values.

    Args:
        options: values or texts by name, of the data and of the scores.

    Raises:
        DataError: a split has too few examples, or they are no images.
    """
    import toolkit

    from .distances import frechet_floor
    from .features import open_features
    from .scorer import measure_damage
    from .sets import MIN_IMAGES, even_positions, featurize_split, make_reference

    opened = toolkit.open_data("agreement", options, extensions=["image-scores"])
    run_options: Any = opened.options
    splits = {name: opened.split(name) for name in ("train", "test")}
    for name, split in splits.items():
        count = 0 if split is None else len(split)
        if split is None or count < MIN_IMAGES or len(split.shape) != 3:
            shape = "" if split is None else f" {list(split.shape)}"
            raise toolkit.DataError(
                f"A ruler needs {MIN_IMAGES} images [H, W, C] or more in the split '{name}', which "
                f"has {count} examples{shape}.",
                hint="Use other data, or hold out more of it with --set test_share=0.2.",
            )
    train: Any = splits["train"]
    test: Any = splits["test"]
    features = open_features(run_options, opened.data, train)
    try:
        positions = even_positions(len(train), run_options.score_samples)
        samples = featurize_split(train, positions, features)
        reals = make_reference(test, features, run_options.score_samples)
        result = measure_damage(train, positions, samples, reals, features, len(positions))
    finally:
        features.close()
    floor = frechet_floor(reals.moments, len(positions), reals.moments.num_examples)
    for mark in result["ruler"]:
        mark["floors"] = mark["distance"] / floor if floor else None
    return {
        "data": run_options.data,
        "n": len(positions),
        "m": reals.moments.num_examples,
        "features": {"name": features.name, "size": features.size, "sha256": features.sha256},
        "floor": floor,
        **result,
    }
