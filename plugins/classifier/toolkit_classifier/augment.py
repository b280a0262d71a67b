"""Random changes of training images, in the graph: shift, rotate, zoom, elastic, and mixup.

Legend: N examples in a batch, H W height and width, C channels, K classes, h w knots of the elastic
field. Images are float32 [N, H, W, C]. Positions (row, column) are in pixels and give for each
output pixel the place in the input to read. A position outside of the image reads the nearest
border pixel, so that a light background stays light.

`augment` and `mixup` are called in mode "train" only. They draw random numbers from `run`, keyed by
name and step; all other functions are pure.
"""

from __future__ import annotations

import numpy as np

from toolkit import tf

BETA_POINTS = 4097  # in the quantile table of mixup's Beta distribution; linear between them


def augment(images, run):
    """Change images as the options say; other examples are returned unchanged."""
    options = run.options
    if images.shape.ndims != 4:
        return images
    if options.rotate or options.zoom or options.elastic:
        return sample(images, *draw_positions(images, run))
    if options.shift:
        return shift(images, draw_offsets(images, run))
    return images


def draw_offsets(images, run):
    """Integer offsets (row, column), int32 [N, 2], uniform in [-shift, shift]."""
    limit = run.options.shift
    shape = [tf.shape(images)[0], 2]
    offsets = run.uniform("augment/shift", shape, minval=-limit, maxval=limit + 1.0)
    # Rounding can return the upper bound itself.
    return tf.cast(tf.minimum(tf.floor(offsets), limit), tf.int32)


def draw_positions(images, run):
    """The rows and columns to read, float32 [N, H, W] each."""
    options, count = run.options, tf.shape(images)[0]
    height, width = images.shape.as_list()[1:3]
    limit = np.radians(options.rotate)
    angles = run.uniform("augment/rotate", [count], minval=-limit, maxval=limit)
    zooms = 1.0 + run.uniform("augment/zoom", [count], minval=-options.zoom, maxval=options.zoom)
    offsets = tf.cast(draw_offsets(images, run), tf.float32) if options.shift else None
    rows, columns = affine_positions(angles, zooms, height, width, offsets)
    if options.elastic:
        knots = elastic_grid(height, width)
        noise = run.normal("augment/elastic", [2, count] + list(knots))
        noise = tf.reshape(options.elastic * noise, [-1] + list(knots))  # [2N, h, w]
        down, right = tf.split(elastic_field(noise, height, width), 2)  # [N, H, W] each
        rows, columns = rows + down, columns + right
    return rows, columns


def affine_positions(angles, zooms, height, width, offsets=None):
    """The positions that rotate and enlarge images about their centres.

    Args:
        angles: float32 [N], in radians.
        zooms: float32 [N], factors; above 1 enlarges.
        height, width: of the images, in pixels.
        offsets: float32 [N, 2], pixels to read further down and right, or None.

    Returns:
        Rows and columns, float32 [N, H, W] each.
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


def elastic_spacing(height, width):
    """Pixels between the knots of the elastic field, such that strokes bend and do not tear."""
    return max(height, width) / 7.0


def elastic_grid(height, width):
    """The number of knots (rows, columns), including one outside of each border."""
    spacing = elastic_spacing(height, width)
    return tuple(int(np.ceil((size - 1) / spacing)) + 3 for size in (height, width))


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
    spacing = elastic_spacing(height, width)
    knots = elastic_grid(height, width)
    left = tf.constant(smoothing_matrix(height, knots[0], spacing))  # [H, h]
    right = tf.constant(smoothing_matrix(width, knots[1], spacing).T)  # [w, W]
    # With the rows first, each of the two sides is one matrix product.
    noise = tf.reshape(tf.transpose(noise, [1, 0, 2]), [-1, knots[1]])  # [h * N, w]
    field = tf.reshape(tf.matmul(noise, right), [knots[0], -1])  # [h, N * W]
    field = tf.reshape(tf.matmul(left, field), [height, -1, width])  # [H, N, W]
    return tf.transpose(field, [1, 0, 2])


def shift(images, offsets):
    """Shift images by `offsets` int32 [N, 2]; an offset of (1, 0) moves the picture up a pixel."""
    height, width, channels = images.shape.as_list()[1:]
    rows = tf.range(height)[None, :] + offsets[:, :1]  # [N, H]
    columns = tf.range(width)[None, :] + offsets[:, 1:]  # [N, W]
    rows = tf.clip_by_value(rows, 0, height - 1)[:, :, None] * width
    columns = tf.clip_by_value(columns, 0, width - 1)[:, None, :]
    places = _first_pixels(images)[:, None, None] + rows + columns  # [N, H, W]
    pixels = tf.reshape(images, [-1, channels])
    return _same_shape(tf.gather_nd(pixels, places[..., None]), images)


def sample(images, rows, columns):
    """Read images at float32 rows and columns [N, H, W], bilinear between pixels."""
    height, width, channels = images.shape.as_list()[1:]
    row, down = _split(rows, height)
    column, right = _split(columns, width)
    places = _integers(row * width + column) + _first_pixels(images)[:, None, None]  # [N, H, W]
    pixels = tf.reshape(images, [-1, channels])
    # The pixel to the right or below may lie outside of the image: its share is then 0.
    pixels = tf.concat([pixels, tf.zeros([width + 1, channels])], axis=0)
    here, beside, below, across = (
        tf.gather_nd(pixels, (places + ahead)[..., None]) for ahead in (0, 1, width, width + 1)
    )
    top, bottom = _blend(here, beside, right), _blend(below, across, right)
    return _same_shape(_blend(top, bottom, down), images)


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


def _same_shape(result, images):
    result.set_shape(images.shape)
    return result


def beta_quantiles(alpha):
    """Quantiles of Beta(alpha, alpha) at even steps from 0 to 1, float32 [BETA_POINTS]."""
    from scipy.special import betaincinv

    return betaincinv(alpha, alpha, np.linspace(0.0, 1.0, BETA_POINTS)).astype(np.float32)


def beta(uniform, alpha):
    """Beta(alpha, alpha) [N] from uniform [N] in [0, 1), by the inverse distribution function.

    TensorFlow 1.15 has no stateless gamma distribution to build it from. The quantiles are exact
    at 4097 points and linear between them, so the distribution function is off by at most 1/4096.
    """
    table = tf.constant(beta_quantiles(alpha))
    place = uniform * (BETA_POINTS - 1)
    index = tf.minimum(tf.cast(place, tf.int32), BETA_POINTS - 2)
    share = place - tf.cast(index, tf.float32)
    low, high = tf.gather(table, index), tf.gather(table, index + 1)
    return low + (high - low) * share


def mix(values, shares):
    """Row i becomes shares[i] * row i + (1 - shares[i]) * row i - 1; row 0 takes the last row.

    Args:
        values: float32 [N, ...].
        shares: float32 [N] in [0, 1].
    """
    shape = tf.concat([tf.shape(shares), tf.ones([tf.rank(values) - 1], tf.int32)], axis=0)
    shares = tf.reshape(shares, shape)  # [N, 1, ...]
    partners = tf.concat([values[-1:], values[:-1]], axis=0)
    return _same_shape(partners + (values - partners) * shares, values)


def mixup(features, targets, run):
    """Features [N, ...] and targets [N, K], each mixed with at most half of the row before."""
    share = beta(run.uniform("augment/mixup", [tf.shape(features)[0]]), run.options.mixup)
    share = tf.maximum(share, 1.0 - share)
    return mix(features, share), mix(targets, share)
