"""Test-time augmentation: which views there are, and what each shows."""

from __future__ import annotations

import pytest
from augmentation_fixtures import RAMP, evaluate, make_run

from toolkit import UsageError, augmentation, tf

View = augmentation.View
SHIFTS = [View(down=-1), View(right=-1), View(down=1), View(right=1)]


def views(height=8, width=8, **options):
    return augmentation.list_views(make_run(**options).options, height, width)


def test_the_views_follow_the_changes_of_the_training():
    assert views() == [View()]
    assert views(shift=2) == views(shift=1) == [View(), *SHIFTS]
    assert views(flip=0.5) == [View(), View(is_mirrored=True)]
    assert views(flip_vertical=0.5) == [View(), View(is_upside_down=True)]
    assert (
        len(views(shift=2, flip=0.5)) == 10 and len(views(shift=2, flip=1, flip_vertical=1)) == 20
    )
    assert views(32, 64, augment="photos")[1:5] == [
        View(down=-2),
        View(right=-4),
        View(down=2),
        View(right=4),
    ]


def test_a_side_of_one_pixel_is_not_shifted():
    assert views(1, 1, shift=2) == [View()]
    assert views(1, 8, shift=2) == [View(), View(right=-1), View(right=1)]


def test_a_view_is_mirrored_and_shifted_by_whole_pixels():
    images = tf.constant(RAMP)
    assert View().apply(images) is images
    mirrored, turned, down, both = evaluate(
        View(is_mirrored=True).apply(images),
        View(is_upside_down=True).apply(images),
        View(down=1).apply(images),
        View(is_mirrored=True, right=-2).apply(images),
    )
    assert (mirrored == RAMP[:, :, ::-1]).all() and (turned == RAMP[:, ::-1]).all()
    assert (down[:, :3] == RAMP[:, 1:]).all() and (down[:, 3] == RAMP[:, 3]).all()
    assert (both == RAMP[:, :, [4, 4, 4, 3, 2]]).all()


def test_a_function_gets_one_view_after_the_other():
    images = tf.constant(RAMP)
    results = augmentation.map_views(
        lambda view: {"first": view[:, 0, 0, 0]}, images, make_run("predict", flip=1)
    )
    plain, mirrored = evaluate(*[result["first"] for result in results])
    assert (plain == RAMP[:, 0, 0, 0]).all() and (mirrored == RAMP[:, 0, 4, 0]).all()
    inputs = results[1]["first"].op.graph.get_operations()
    assert any(op.control_inputs == [results[0]["first"].op] for op in inputs)


def test_examples_without_views_are_refused():
    with pytest.raises(UsageError, match=r"needs images \[H, W, C\], but .* shape \[7\]"):
        augmentation.map_views(tf.identity, tf.zeros([2, 7]), make_run("predict", shift=1))
    with pytest.raises(UsageError, match="has no views: the model was trained without shift"):
        augmentation.map_views(tf.identity, tf.constant(RAMP), make_run("predict", rotate=9))
