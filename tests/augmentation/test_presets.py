"""The presets: what each sets, how single strengths beat them, and the table in the documents."""

from __future__ import annotations

import os

import pytest
from file_fixtures import REPOSITORY
from typing_extensions import Literal

from toolkit import AugmentationOptions, option
from toolkit.data.spec import DataSpec
from toolkit.options import OFF, resolve
from toolkit.options.declaration import chooses_preset
from toolkit.options.declaration_faults import find_declaration_fault


def options(layers=(), **flags):
    return resolve([("test", AugmentationOptions)], layers, flags=flags)


def table():
    """Option -> the values of each preset, as docs/augmentation.md has them."""
    with open(os.path.join(REPOSITORY, "docs", "augmentation.md"), encoding="utf-8") as file:
        rows = [line.strip("| \n").split(" | ") for line in file if line.startswith("| `")]
    return {row[0].strip("`"): row[1:6] for row in rows}


def test_the_table_in_the_documents_has_the_values_of_the_presets():
    presets = AugmentationOptions.presets
    assert list(presets) == ["none", "digits", "photos", "pictures", "icons"]
    expected = {name: [_text(preset[name]) for preset in presets.values()] for name in OFF}
    assert table() == expected


def _text(value):
    return value if isinstance(value, str) else f"{value:g}"


def test_until_the_data_choose_nothing_changes_images():
    defaults = AugmentationOptions()
    assert defaults.augment == "auto"
    for name, value in OFF.items():
        assert getattr(defaults, name) == value, name
    assert options().options.model_dump(include=set(OFF)) == defaults.model_dump(include=set(OFF))


@pytest.mark.parametrize("preset", sorted(AugmentationOptions.presets))
def test_a_preset_sets_every_strength_and_a_flag_takes_precedence(preset):
    resolved = options(augment=preset, rotate="3")
    expected = dict(AugmentationOptions.presets[preset], rotate=3.0)
    assert {name: getattr(resolved.options, name) for name in OFF} == expected
    assert resolved.origins["flip"] == f"preset {preset}"
    assert resolved.notes == []


def test_a_preset_replaces_strengths_of_weaker_places_and_a_note_says_which():
    resolved = options([("a.toml", {"rotate": 30})], augment="photos")
    assert resolved.options.rotate == 0
    assert resolved.notes == [
        "rotate is 0.0 by preset photos (flag --augment), no longer 30 (a.toml)"
    ]


def test_options_without_effect_are_noted():
    resolved = options(augment="none", fill="reflect", rand_magnitude="7")
    assert sorted(resolved.notes) == [
        "fill (flag --fill) has no effect: nothing moves images beyond their border",
        "rand_magnitude (flag --rand-magnitude) has no effect: rand_augment is 0",
    ]


@pytest.mark.parametrize(
    "shape, dtype, preset",
    [
        ((28, 28, 1), "uint8", "digits"),
        ((40, 12, 1), "float32", "digits"),
        ((41, 12, 1), "uint8", "pictures"),
        ((28, 28, 3), "uint8", "pictures"),
        ((28, 28, 4), "uint8", "pictures"),
        ((784,), "float32", "none"),
        ((), "string", "none"),
    ],
)
def test_the_data_choose_the_preset(shape, dtype, preset):
    name, reason = AugmentationOptions.choose_preset(DataSpec(shape, dtype), 100)
    assert name == preset and reason.startswith("the ")


class Own(AugmentationOptions):
    augment: Literal["none", "digits"] = option("digits", "what the images show")


def test_a_class_with_other_names_of_presets_does_not_ask_the_data():
    assert not chooses_preset(Own) and find_declaration_fault(Own) is None
    assert resolve([("test", Own)]).options.elastic == 0.7
