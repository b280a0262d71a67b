"""The reference train op: the classifier's network and loss, Adam and clipping by value, without
guard, schedule and input.
"""

from __future__ import annotations

import terms
from toolkit_classifier import losses, networks

from toolkit import Run, tf
from toolkit.graph.ops import state_updates
from toolkit.options import resolve
from toolkit.plugins import Plugins

FLAGS = {
    "schedule": "constant",
    "learning_rate": str(terms.LEARNING_RATE),
    "clip": "value",
    "clip_limit": str(terms.CLIP),
    "shift": "0",
    "rotate": "0",
    "zoom": "0",
    "elastic": "0",
}


class Step:
    """The variables of a network in the default graph. Calling it builds the op of one step."""

    def __init__(self, network: str, batch_size: int, spec):
        plugins = Plugins.load("classifier")
        flags = dict(FLAGS, network=network, batch_size=str(batch_size))
        options = resolve(plugins.options(), flags=flags).options
        self.run = Run("train", options, spec)
        self.global_step = self.run.global_step
        self.network = networks.build(self.run)
        count = sum(v.shape.num_elements() for v in tf.trainable_variables())
        terms.check_parameters(network, count)
        self.optimizer = tf.train.AdamOptimizer(terms.LEARNING_RATE)
        self.loss = None  # of the last call

    def __call__(self, features, labels):
        before = set(tf.get_default_graph().get_operations())
        outputs = networks.forward(self.network, features, labels, self.run)
        new_ops = [o for o in tf.get_default_graph().get_operations() if o not in before]
        self.loss = losses.total(labels, outputs, self.run)
        pairs = [(g, v) for g, v in self.optimizer.compute_gradients(self.loss) if g is not None]
        with tf.control_dependencies([g for g, _ in pairs] + state_updates(new_ops)):
            clipped_pairs = [(tf.clip_by_value(g, -terms.CLIP, terms.CLIP), v) for g, v in pairs]
            return self.optimizer.apply_gradients(clipped_pairs, global_step=self.global_step)
