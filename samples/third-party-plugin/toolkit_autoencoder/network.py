"""The network: dense layers from the image to a code, and from the code to an image.

Legend: N examples in a batch, H height, W width, C channels, F length of the code.
"""

from __future__ import annotations

from toolkit import DataError, UsageError, tf


class Autoencoder:
    """The layers. The constructor creates every variable; calling the object creates none."""

    def __init__(self, run):
        check_data(run.data)
        check_sizes(run.options.hidden)
        self._run = run
        self._shape = list(run.data.shape)
        self._pixels = self._shape[0] * self._shape[1] * self._shape[2]
        hidden, code = list(run.options.hidden), run.options.code
        self._encoder = self._layers("encoder", [self._pixels] + hidden + [code])
        self._decoder = self._layers("decoder", [code] + hidden[::-1] + [self._pixels])

    def _layers(self, scope, sizes):
        layers = []
        for number, (inputs, units) in enumerate(zip(sizes, sizes[1:]), start=1):
            name = f"{scope}/dense{number}"
            layer = tf.keras.layers.Dense(
                units, kernel_initializer=self._run.initializer("glorot_uniform", name)
            )
            with tf.name_scope(name + "/"):  # the final slash: the same name in every graph
                layer.build(tf.TensorShape([None, inputs]))
            layers.append(layer)
        return layers

    def add_noise(self, images):
        """Images with new noise in each step; a resumed run repeats the same noise."""
        noise = self._run.normal("noise", tf.shape(images), stddev=self._run.options.noise)
        return images + noise  # [N, H, W, C]

    def __call__(self, images):
        """Encode and decode images.

        Args:
            images: float32 [N, H, W, C] in [0, 1].

        Returns:
            "code" [N, F], "logits" [N, H, W, C], and "reconstruction" [N, H, W, C] in [0, 1].
        """
        code = apply_layers(self._encoder, tf.reshape(images, [-1, self._pixels]))  # [N, F]
        logits = tf.reshape(apply_layers(self._decoder, code), [-1] + self._shape)  # [N, H, W, C]
        return {"code": code, "logits": logits, "reconstruction": tf.nn.sigmoid(logits)}


def apply_layers(layers, x):
    """Apply layers in order, with a ReLU between two. [N, inputs] -> [N, units]."""
    for layer in layers[:-1]:
        x = tf.nn.relu(layer(x))
    return layers[-1](x)


def check_data(data) -> None:
    """Raise DataError if the examples are not images of pixels in [0, 255]."""
    if len(data.shape) != 3 or data.dtype != "uint8":
        raise DataError(
            f"The autoencoder needs images, uint8 [H, W, C], but an example is {data.dtype} "
            f"{list(data.shape)}.",
            hint="Choose images with --data.",
        )


def check_sizes(hidden) -> None:
    """Raise UsageError if a hidden layer has no units."""
    if any(units < 1 for units in hidden):
        raise UsageError(
            f"The hidden layers have {list(hidden)} units; each needs 1 or more.",
            hint="Omit --hidden for the default.",
        )
