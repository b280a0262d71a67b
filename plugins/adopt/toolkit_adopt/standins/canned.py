"""Estimators of `tf.estimator` with a model of their own: hidden layers, a linear one, or both.

They take `tf.feature_column`s. Names of variables, but for those of optimizers, defaults, losses,
metrics and predictions are those of 1.15; there are no `batch_norm`, partitioners and summaries.
"""

from __future__ import annotations

from typing import Any, Dict, Tuple

from toolkit import tf

from .estimator import Estimator, EstimatorSpec, ModeKeys
from .training import OPTIMIZER_CLS_NAMES


def _dense(rows: Any, units: int, name: str) -> Any:
    with tf.variable_scope(name):
        kernel = tf.get_variable("kernel", [rows.shape[-1], units])
        bias = tf.get_variable("bias", [units], initializer=tf.zeros_initializer())
        return tf.nn.bias_add(tf.matmul(rows, kernel), bias)


def _layers(
    features, units, mode, feature_columns, hidden_units, activation_fn=tf.nn.relu, dropout=None
) -> Any:
    """The logits of hidden layers."""
    with tf.variable_scope("input_from_feature_columns"):
        rows = tf.feature_column.input_layer(features, feature_columns)
    for i, size in enumerate(hidden_units):
        rows = _dense(rows, size, f"hiddenlayer_{i}")
        rows = rows if activation_fn is None else activation_fn(rows)
        if dropout is not None and mode == ModeKeys.TRAIN:
            rows = tf.nn.dropout(rows, rate=dropout)
    return _dense(rows, units, "logits")


def _linear(features, units, mode, feature_columns, sparse_combiner="sum") -> Any:
    """The logits of a linear model."""
    return tf.feature_column.linear_model(features, feature_columns, units, sparse_combiner)


_OF_PART = {
    *("feature_columns", "hidden_units", "activation_fn", "dropout"),
    *("sparse_combiner", "optimizer"),
}
_PARTS: Dict[str, Tuple[Any, str, float]] = {  # scope -> logits, optimizer, learning rate
    "dnn": (_layers, "Adagrad", 0.001),
    "linear": (_linear, "Ftrl", 0.005),
}


def _minimize(loss: Any, scope: str, optimizer: Any, rate: float) -> Any:
    """Train a part by an optimizer, which is given as one, by its name or as a function."""
    if isinstance(optimizer, str):
        optimizer = OPTIMIZER_CLS_NAMES[optimizer](rate)
    elif callable(optimizer):
        optimizer = optimizer()
    trained = tf.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES, f"{scope}/")
    return optimizer.minimize(loss, var_list=trained)


class _Numbers:
    """The head of a regressor."""

    def __init__(self, units: int):
        self.units = units

    def predict(self, logits: Any) -> Dict[str, Any]:
        return {"predictions": logits}

    def losses(self, logits: Any, labels: Any) -> Any:
        self._truth = tf.cast(tf.reshape(labels, [-1, self.units]), tf.float32)
        return tf.squared_difference(logits, self._truth)

    def metrics(self, predictions: Dict[str, Any], weights: Any) -> Dict[str, Any]:
        means = {"label/mean": self._truth, "prediction/mean": predictions["predictions"]}
        return {key: tf.metrics.mean(x, weights) for key, x in means.items()}


class _Classes:
    """The head of a classifier; of two classes, the logit is that of the second."""

    def __init__(self, count: int, vocabulary: Any):
        self._count, self.units = count, 1 if count == 2 else count
        self._vocabulary = vocabulary

    def _of_all(self, logits: Any) -> Any:
        return tf.concat([tf.zeros_like(logits), logits], -1) if self.units == 1 else logits

    def predict(self, logits: Any) -> Dict[str, Any]:
        names = tf.constant(self._vocabulary or [str(each) for each in range(self._count)])
        scores, times = self._of_all(logits), [tf.shape(logits)[0], 1]
        found = tf.argmax(scores, -1)[:, None]
        return {
            "logits": logits,
            "probabilities": tf.nn.softmax(scores),
            "class_ids": found,
            "classes": tf.gather(names, found),
            "all_class_ids": tf.tile([tf.range(self._count)], times),
            "all_classes": tf.tile([names], times),
            **({"logistic": tf.sigmoid(logits)} if self.units == 1 else {}),
        }

    def losses(self, logits: Any, labels: Any) -> Any:
        labels = tf.reshape(labels, [-1, 1])
        if self._vocabulary:
            labels = tf.argmax(tf.cast(tf.equal(labels, self._vocabulary), tf.int32), -1)[:, None]
        self._truth = tf.cast(labels, tf.int64)
        classes, scores = self._truth[:, 0], self._of_all(logits)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=classes, logits=scores)
        return losses[:, None]

    def metrics(self, predictions: Dict[str, Any], weights: Any) -> Dict[str, Any]:
        pair = {"labels": self._truth, "predictions": predictions["class_ids"], "weights": weights}
        found = {"accuracy": tf.metrics.accuracy(**pair)}
        if self.units == 1:
            truth, chance = tf.cast(self._truth, tf.float32), predictions["logistic"]
            mean = tf.metrics.mean(truth, weights)
            found.update(
                {
                    "accuracy_baseline": tuple(tf.maximum(each, 1 - each) for each in mean),
                    "auc": tf.metrics.auc(truth, chance, weights),
                    "auc_precision_recall": tf.metrics.auc(truth, chance, weights, curve="PR"),
                    "label/mean": mean,
                    "precision": tf.metrics.precision(**pair),
                    "prediction/mean": tf.metrics.mean(chance, weights),
                    "recall": tf.metrics.recall(**pair),
                }
            )
        return found


def _make(
    head: Any,
    model_dir: Any,
    config=None,
    warm_start_from=None,
    weight_column=None,
    loss_reduction="weighted_sum",
    **options: Any,
) -> Estimator:
    """The Estimator of a head over those parts for which options have columns."""
    for key, value in options.items():
        if value and not key.startswith(("dnn_", "linear_")):
            raise TypeError(f"The stand-in of the estimator has no {key}.")

    def model_fn(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        logits, optimizers = [], []
        for scope, (build, optimizer, rate) in _PARTS.items():
            own = {k[len(scope) + 1 :]: x for k, x in options.items() if k.startswith(f"{scope}_")}
            if own.get("feature_columns"):
                pair = own.pop("optimizer", optimizer), own.pop("rate", rate)
                optimizers.append((scope, *pair))
                with tf.variable_scope(scope):
                    logits.append(build(features, head.units, mode, **own))
        total = tf.add_n(logits)
        predictions = head.predict(total)
        if mode == ModeKeys.PREDICT:
            return EstimatorSpec(mode, predictions)
        weights: Any = 1.0
        if weight_column is not None:
            column = features[getattr(weight_column, "key", weight_column)]
            weights = tf.cast(tf.reshape(column, [-1, 1]), tf.float32)
        losses = head.losses(total, labels)
        loss = tf.losses.compute_weighted_loss(losses, weights, reduction=loss_reduction)
        if mode == ModeKeys.EVAL:
            average = tf.metrics.mean(losses, weights)
            metrics = {**head.metrics(predictions, weights), "average_loss": average}
            return EstimatorSpec(mode, predictions, loss, eval_metric_ops=metrics)
        with tf.control_dependencies([_minimize(loss, *each) for each in optimizers]):
            train_op = tf.assign_add(tf.train.get_global_step(), 1)
        return EstimatorSpec(mode, predictions, loss, train_op)

    return Estimator(model_fn, model_dir, config, warm_start_from=warm_start_from)


def _of_part(scope: str, rate: float, **options: Any) -> Dict[str, Any]:
    """Options of an Estimator with one part, by the names that those with both have."""
    renamed = {f"{scope}_{key}" if key in _OF_PART else key: x for key, x in options.items()}
    return {**renamed, f"{scope}_rate": rate}


def DNNLinearCombinedClassifier(model_dir=None, *, n_classes=2, label_vocabulary=None, **options):
    """A classifier by both."""
    return _make(_Classes(n_classes, label_vocabulary), model_dir, **options)


def DNNLinearCombinedRegressor(model_dir=None, *, label_dimension=1, **options):
    """A regressor by both."""
    return _make(_Numbers(label_dimension), model_dir, **options)


def DNNClassifier(hidden_units, feature_columns, model_dir=None, n_classes=2, **options):
    """A classifier by hidden layers."""
    options.update(hidden_units=hidden_units, feature_columns=feature_columns)
    own = _of_part("dnn", 0.05, **options)
    return DNNLinearCombinedClassifier(model_dir, n_classes=n_classes, **own)


def DNNRegressor(hidden_units, feature_columns, model_dir=None, **options):
    """A regressor by hidden layers."""
    options.update(hidden_units=hidden_units, feature_columns=feature_columns)
    return DNNLinearCombinedRegressor(model_dir, **_of_part("dnn", 0.05, **options))


def LinearClassifier(feature_columns, model_dir=None, n_classes=2, **options):
    """A classifier by a linear model."""
    own = _of_part("linear", 0.2, feature_columns=feature_columns, **options)
    return DNNLinearCombinedClassifier(model_dir, n_classes=n_classes, **own)


def LinearRegressor(feature_columns, model_dir=None, **options):
    """A regressor by a linear model."""
    own = _of_part("linear", 0.2, feature_columns=feature_columns, **options)
    return DNNLinearCombinedRegressor(model_dir, **own)
