"""An Estimator's `model_fn`, unchanged: the network for MNIST of TensorFlow's tutorial.

    toolkit run --plugin samples/plugins/estimator.py

`cnn_model_fn` is a function as `tf.estimator.Estimator` takes it: labels and mode are arguments,
and its training has an optimizer of its own. Two things around it are new: `EstimatorSpec`, which
TensorFlow 2.16 and later no longer have, and the hooks below the function. `run.function` creates
the variables once; each hook then calls the function in the mode whose result it needs. The run's
guard looks at the loss, and puts old values back where the update was not finite.

`--optimizer`, `--learning-rate`, `--clip` and the like have no effect here, since the function
updates the variables itself; the run says so. To use them, return `run.minimize(losses)` in
`optimize`.

Legend: N examples in a batch, H height, W width, C channels, K classes.
"""

from __future__ import annotations

from typing import Any, ClassVar, Dict, Mapping, NamedTuple, Optional, Tuple

from toolkit import DataError, Options, hookimpl, option, tf


class ModeKeys:
    """The modes of `tf.estimator.ModeKeys`."""

    TRAIN = "train"
    EVAL = "eval"
    PREDICT = "infer"


class EstimatorSpec(NamedTuple):
    """What a `model_fn` returns, in the place of `tf.estimator.EstimatorSpec`."""

    mode: str
    predictions: Optional[Dict[str, Any]] = None
    loss: Any = None
    train_op: Any = None
    eval_metric_ops: Optional[Dict[str, Tuple[Any, Any]]] = None


# ------------------------------------------------------------------------------ the unchanged part


def cnn_model_fn(features, labels, mode, params):
    """Model function for a convolutional network."""
    input_layer = tf.reshape(features, [-1, *params["shape"]])

    conv1 = tf.layers.conv2d(
        inputs=input_layer, filters=32, kernel_size=[5, 5], padding="same", activation=tf.nn.relu
    )
    pool1 = tf.layers.max_pooling2d(inputs=conv1, pool_size=[2, 2], strides=2)
    conv2 = tf.layers.conv2d(
        inputs=pool1, filters=64, kernel_size=[5, 5], padding="same", activation=tf.nn.relu
    )
    pool2 = tf.layers.max_pooling2d(inputs=conv2, pool_size=[2, 2], strides=2)
    flat = tf.layers.flatten(pool2)
    dense = tf.layers.dense(inputs=flat, units=params["units"], activation=tf.nn.relu)
    dropout = tf.layers.dropout(inputs=dense, rate=0.4, training=mode == ModeKeys.TRAIN)
    logits = tf.layers.dense(inputs=dropout, units=params["num_classes"])

    predictions = {
        "classes": tf.argmax(input=logits, axis=1),
        "probabilities": tf.nn.softmax(logits, name="softmax_tensor"),
    }
    if mode == ModeKeys.PREDICT:
        return EstimatorSpec(mode=mode, predictions=predictions)

    loss = tf.losses.sparse_softmax_cross_entropy(labels=labels, logits=logits)
    if mode == ModeKeys.TRAIN:
        optimizer = tf.train.GradientDescentOptimizer(learning_rate=params["rate"])
        train_op = optimizer.minimize(loss=loss, global_step=tf.train.get_global_step())
        return EstimatorSpec(mode=mode, loss=loss, train_op=train_op)

    eval_metric_ops = {
        "accuracy": tf.metrics.accuracy(labels=labels, predictions=predictions["classes"])
    }
    return EstimatorSpec(mode=mode, loss=loss, eval_metric_ops=eval_metric_ops)


# --------------------------------------------------------------------------------------- the hooks


class EstimatorOptions(Options):
    core_defaults: ClassVar[Mapping[str, Any]] = {
        "data": "mnist5k",
        "epochs": 3.0,
        "best_metric": "accuracy",
    }

    units: int = option(256, "size of the hidden layer", unit="units", ge=1)
    rate: float = option(0.05, "learning rate of the function's own optimizer", gt=0)


@hookimpl
def options():
    return EstimatorOptions


class Model:
    """The function with its variables, and what it returned for the present step."""

    def __init__(self, run):
        params = {
            "shape": run.data.shape,
            "num_classes": run.data.num_classes,
            "units": run.options.units,
            "rate": run.options.rate,
        }
        # In this mode the function creates every variable, and needs no labels.
        self.apply = run.function(cnn_model_fn, None, ModeKeys.PREDICT, params)
        self.spec = EstimatorSpec(ModeKeys.PREDICT)


@hookimpl
def build(run):
    if run.data.feature_names or len(run.data.shape) != 3 or not run.data.num_classes:
        raise DataError("The plugin 'estimator' needs images with one class each.")
    return Model(run)


@hookimpl
def call(model, features):
    return model.apply(features).predictions


@hookimpl
def loss(model, features, labels, run):
    mode = ModeKeys.TRAIN if run.mode == "train" else ModeKeys.EVAL
    model.spec = model.apply(features, labels, mode)
    return model.spec.loss


@hookimpl
def optimize(model):
    return model.spec.train_op


@hookimpl
def predict(outputs):
    return {"label": outputs["classes"], "probabilities": outputs["probabilities"]}


@hookimpl
def metrics(model):
    return model.spec.eval_metric_ops


@hookimpl
def example_metrics(labels, outputs):  # gives the function's accuracy an interval
    return {"accuracy": tf.equal(outputs["classes"], tf.cast(labels, tf.int64))}


@hookimpl
def metric_directions():
    return {"accuracy": "max"}
