"""What moves pixels: shift, random crop, flips, rotation, zoom, elastic bending.

Legend: N examples in a batch, H W height and width, C channels, h w knots of the elastic field.
Images are float32 [N, H, W, C]. Positions (row, column) are in pixels and give for each output
pixel the place in the input to read.

All moves of an image are joined to one map of positions, so that the image is read once: exactly,
if it moves by whole pixels, else bilinear between pixels. The same map moves an image's mask.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Optional, Tuple

import numpy as np

from ..compat import tf


class PixelMove(NamedTuple):
    """A move by whole pixels, flips included.

    Attributes:
        rows: int32 [N, H], the row to read for each output row.
        columns: int32 [N, W].
    """

    rows: Any
    columns: Any

    def read(self, images):
        """The moved images [N, H, W, C], of any dtype."""
        height, width, channels = images.shape.as_list()[1:]
        rows, columns = self.rows[:, :, None] * width, self.columns[:, None, :]
        places = _first_pixels(images)[:, None, None] + rows + columns  # [N, H, W]
        pixels = tf.reshape(images, [-1, channels])
        return same_shape(tf.gather_nd(pixels, places[..., None]), images)

    def read_nearest(self, masks):
        """The moved masks [N, H, W, C]: no class is mixed with another."""
        return self.read(masks)


class Warp(NamedTuple):
    """A move to any positions.

    Attributes:
        rows: float32 [N, H, W], the row to read for each output pixel; beyond the border of the
            image, the nearest pixel is read.
        columns: float32 [N, H, W].
    """

    rows: Any
    columns: Any

    def read(self, images):
        """The moved images, float32 [N, H, W, C], bilinear between pixels."""
        return sample(images, self.rows, self.columns)

    def read_nearest(self, masks):
        """The moved masks [N, H, W, C] of any dtype, by their nearest pixels."""
        height, width, channels = masks.shape.as_list()[1:]
        rows = tf.clip_by_value(tf.round(self.rows), 0.0, height - 1.0)
        columns = tf.clip_by_value(tf.round(self.columns), 0.0, width - 1.0)
        places = _places(masks, rows, columns)
        pixels = tf.reshape(masks, [-1, channels])
        return same_shape(tf.gather_nd(pixels, places[..., None]), masks)


class LinearMap(NamedTuple):
    """A linear map of positions about the centre of each image, with an offset; all float32 [N]."""

    # ((row from row, row from column), (column from row, column from column))
    matrix: Tuple[Tuple[Any, Any], Tuple[Any, Any]]
    offset: Tuple[Any, Any]  # in pixels: (row, column)

    def after(self, first: LinearMap) -> LinearMap:
        """The map that applies `first` to a position, and then this one."""
        (a, b), (c, d) = self.matrix
        (e, f), (g, h) = first.matrix
        row, column = first.offset
        matrix = ((a * e + b * g, a * f + b * h), (c * e + d * g, c * f + d * h))
        down, right = self.offset
        return LinearMap(matrix, (a * row + b * column + down, c * row + d * column + right))

    def apply(self, rows, columns, height: int, width: int):
        """Rows and columns [N, H, W] behind the map."""
        (a, b), (c, d) = _spread(self.matrix)
        down, right = _spread(self.offset)
        row, column = rows - (height - 1) / 2, columns - (width - 1) / 2
        rows = a * row + b * column + down + (height - 1) / 2
        return rows, c * row + d * column + right + (width - 1) / 2


def _spread(values):
    """float32 [N] in nested tuples -> [N, 1, 1]."""
    return tf.nest.map_structure(lambda value: value[:, None, None], values)


def draw_move(images, run, further: Optional[LinearMap] = None):
    """The random move of each image that the options name: a `PixelMove`, a `Warp`, or None.

    Of the images [N, H, W, C] only the shape counts. A further map of positions is applied after
    the others, as RandAugment draws it.
    """
    options = run.options
    if options.rotate or options.zoom or options.elastic or further is not None:
        return _draw_warp(images, run, further)
    if options.shift or options.crop or options.flip or options.flip_vertical:
        return _draw_pixel_move(images, run)
    return None


def _draw_pixel_move(images, run) -> PixelMove:
    height, width = images.shape.as_list()[1:3]
    offsets = draw_offsets(images, run)
    mirrors = _draw_mirrors(images, run)
    sides = []
    for axis, size in enumerate((height, width)):
        places = tf.range(size)[None, :]  # [1, H or W]
        if offsets is not None:
            places = fill_whole(places + offsets[:, axis : axis + 1], size, run.options.fill)
        if mirrors[axis] is not None:
            is_mirrored = tf.cast(mirrors[axis], tf.int32)[:, None]
            places = places + is_mirrored * (size - 1 - 2 * places)
        sides.append(places + tf.zeros([tf.shape(images)[0], 1], tf.int32))
    return PixelMove(*sides)


def _draw_warp(images, run, further: Optional[LinearMap]) -> Warp:
    options, count = run.options, tf.shape(images)[0]
    height, width = images.shape.as_list()[1:3]
    limit = np.radians(options.rotate)
    angles = run.uniform("augment/rotate", [count], minval=-limit, maxval=limit)
    zooms = 1.0 + run.uniform("augment/zoom", [count], minval=-options.zoom, maxval=options.zoom)
    offsets = draw_offsets(images, run)
    offsets = None if offsets is None else tf.cast(offsets, tf.float32)
    rows, columns = affine_positions(angles, zooms, height, width, offsets)
    if options.elastic:
        knots = list(elastic_grid(height, width)[:2])
        if run.mode == "train":
            noise = run.normal("augment/elastic", [2, count] + knots)
        else:  # by the positions of the examples, which have to come first
            noise = run.normal("augment/elastic", [count, 2] + knots)
            noise = tf.transpose(noise, [1, 0, 2, 3])
        noise = tf.reshape(options.elastic * noise, [-1] + knots)  # [2N, h, w]
        fields = tf.split(elastic_field(noise, height, width), 2)  # [N, H, W] each
        rows, columns = rows + fields[0], columns + fields[1]
    down, right = _draw_mirrors(images, run)
    rows = rows if down is None else tf.where(down, (height - 1.0) - rows, rows)
    columns = columns if right is None else tf.where(right, (width - 1.0) - columns, columns)
    if further is not None:
        rows, columns = further.apply(rows, columns, height, width)
    if options.fill == "reflect":
        rows, columns = reflect(rows, height), reflect(columns, width)
    return Warp(rows, columns)


# ----------------------------------------------------------------------------------- shift and crop


def draw_offsets(images, run):
    """The offsets (row, column) of shift and crop together, int32 [N, 2]; None if both are off."""
    shape, limit, offsets = [tf.shape(images)[0], 2], run.options.shift, None
    if limit:  # uniform in [-shift, shift]
        places = run.uniform("augment/shift", shape, minval=-limit, maxval=limit + 1.0)
        # Rounding can return the upper bound itself.
        offsets = tf.cast(tf.minimum(tf.floor(places), limit), tf.int32)
    if run.options.crop:  # a place in the padded image, uniform in [-padding, padding]
        sides = images.shape.as_list()[1:3]
        paddings = tf.constant([crop_padding(size, run.options.crop) for size in sides])
        choices = tf.cast(2 * paddings + 1, tf.float32)  # [2]
        places = tf.floor(run.uniform("augment/crop", shape) * choices)
        crops = tf.cast(tf.minimum(places, choices - 1.0), tf.int32) - paddings
        offsets = crops if offsets is None else offsets + crops
    return offsets


def crop_padding(size: int, share: float) -> int:
    """Pixels of padding at both ends of a side of `size` pixels."""
    return int(round(size * share))


def fill_whole(places, size: int, fill: str = "edge"):
    """Whole places (int32) along a side, those beyond its ends replaced by places on it."""
    if fill == "reflect" and size > 1:
        places = tf.math.floormod(places, 2 * (size - 1))
        places = tf.minimum(places, 2 * (size - 1) - places)
    return tf.clip_by_value(places, 0, size - 1)


def reflect(positions, size: int):
    """Positions (float32) along a side, those beyond its ends mirrored at the last pixel."""
    if size == 1:
        return tf.zeros_like(positions)
    period = 2.0 * (size - 1)
    positions = positions - period * tf.floor(positions / period)
    return tf.minimum(positions, period - positions)


# -------------------------------------------------------------------------------------------- flips


def _draw_mirrors(images, run):
    """Which images are mirrored along rows, and along columns: bool [N] each, or None."""
    options, shape = run.options, [tf.shape(images)[0]]
    down = right = None
    if options.flip_vertical:
        down = run.uniform("augment/flip_vertical", shape) < options.flip_vertical
    if options.flip:
        right = run.uniform("augment/flip", shape) < options.flip
    return down, right


# ------------------------------------------------------------------------- rotation, zoom, elastic


def affine_positions(angles, zooms, height, width, offsets=None):
    """The positions that rotate and enlarge images about their centres: rows and columns, float32
    [N, H, W] each.

    Args:
        angles: float32 [N], in radians.
        zooms: float32 [N], factors; above 1 enlarges.
        height, width: of the images, in pixels.
        offsets: float32 [N, 2], pixels to read further down and right, or None.
    """
    row = tf.constant(np.arange(height) - (height - 1) / 2, tf.float32)  # [H]
    column = tf.constant(np.arange(width) - (width - 1) / 2, tf.float32)  # [W]
    cosine = (tf.cos(angles) / zooms)[:, None]  # [N, 1]
    sine = (tf.sin(angles) / zooms)[:, None]
    centre = tf.constant([[(height - 1) / 2, (width - 1) / 2]], tf.float32)
    centre = centre if offsets is None else centre + offsets  # [N or 1, 2]
    rows = (cosine * row + centre[:, :1])[:, :, None] - (sine * column)[:, None, :]  # [N, H, W]
    columns = (sine * row + centre[:, 1:])[:, :, None] + (cosine * column)[:, None, :]
    return rows, columns


def elastic_grid(height, width):
    """The number of knots (rows, columns), including one outside of each border, and the pixels
    between them, such that strokes bend and do not tear.
    """
    spacing = max(height, width) / 7.0
    rows, columns = (int(np.ceil((size - 1) / spacing)) + 3 for size in (height, width))
    return rows, columns, spacing


def smoothing_matrix(size, knots, spacing):
    """Gaussian weights of the knots for each pixel, float32 [size, knots]; rows have norm 1."""
    pixels = np.arange(size) - (size - 1) / 2
    centres = (np.arange(knots) - (knots - 1) / 2) * spacing
    weights = np.exp(-0.5 * ((pixels[:, None] - centres[None, :]) / spacing) ** 2)
    return (weights / np.sqrt((weights**2).sum(axis=1, keepdims=True))).astype(np.float32)


def elastic_field(noise, height, width):
    """Smooth noise [N, H, W] from standard normal noise [N, h, w] at the knots.

    Each pixel's value is standard normal as well, since the squares of its weights sum to 1.
    """
    rows, columns, spacing = elastic_grid(height, width)
    left = tf.constant(smoothing_matrix(height, rows, spacing))  # [H, h]
    right = tf.constant(smoothing_matrix(width, columns, spacing).T)  # [w, W]
    # With the rows first, each of the two sides is one matrix product.
    noise = tf.reshape(tf.transpose(noise, [1, 0, 2]), [-1, columns])  # [h * N, w]
    field = tf.reshape(tf.matmul(noise, right), [rows, -1])  # [h, N * W]
    field = tf.reshape(tf.matmul(left, field), [height, -1, width])  # [H, N, W]
    return tf.transpose(field, [1, 0, 2])


# ------------------------------------------------------------------------------------------ reading


def sample(images, rows, columns):
    """Read images at float32 rows and columns [N, H, W], bilinear between pixels."""
    height, width, channels = images.shape.as_list()[1:]
    row, down = _split(rows, height)
    column, right = _split(columns, width)
    places = _places(images, row, column)
    pixels = tf.reshape(images, [-1, channels])
    # The pixel to the right or below may lie outside of the image: its share is then 0.
    pixels = tf.concat([pixels, tf.zeros([width + 1, channels])], axis=0)
    here, beside, below, across = (
        tf.gather_nd(pixels, (places + ahead)[..., None]) for ahead in (0, 1, width, width + 1)
    )
    top, bottom = _blend(here, beside, right), _blend(below, across, right)
    return same_shape(_blend(top, bottom, down), images)


def _places(images, rows, columns):
    """int32 [N, H, W]: the indices among all pixels of the pixels at whole rows and columns."""
    # Each axis becomes integers by itself: float32 does not have all whole numbers beyond 2**24.
    width = images.shape.as_list()[2]
    return _integers(rows) * width + _integers(columns) + _first_pixels(images)[:, None, None]


def _integers(whole):
    """int32 of whole float32 numbers in [0, 2**23); ten times faster than `tf.cast` on 1.15.

    From 2**23 on, which has the bits 0x4B000000, adding 1 to a float32 adds 1 to its bits.
    """
    return tf.bitcast(whole + 2.0**23, tf.int32) - 0x4B000000


def _first_pixels(images):
    """int32 [N]: the index of each image's first pixel."""
    height, width = images.shape.as_list()[1:3]
    return tf.range(tf.shape(images)[0]) * (height * width)


def _split(positions, size):
    """Positions -> the pixel before, a whole float in [0, size), and the share of the next one."""
    inside = tf.clip_by_value(positions, 0.0, size - 1.0)
    before = tf.floor(inside)
    return before, inside - before


def _blend(first, second, share):
    return first + (second - first) * share[..., None]


def same_shape(result, images):
    """A tensor of which it is known that it has the shape of images."""
    result.set_shape(images.shape)
    return result
