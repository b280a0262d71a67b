"""The function of an Estimator as a plugin: `ModelFn(function)`.

The function is called in a graph of its own, once for each mode of the run, with placeholders of
the run's features and labels. What its specification names is lifted from there: the train op into
the loop of steps, predictions and metrics into the graphs that evaluate and predict.

Any object serves as the specification that has the attributes `loss`, `train_op`, `predictions` and
`eval_metric_ops`, as those of `tf.estimator` do, which TensorFlow 2.16 and later do not have.
"""

from __future__ import annotations

import inspect
import re
from typing import Any, Callable, Dict, Mapping, NamedTuple, Optional, Tuple

import numpy as np

from toolkit import UsageError, hookimpl, tf

from .feeds import Batch
from .graph import LiftedModel
from .initial import MetaGraph
from .part import Inference, Part, Period, batch_size
from .plugin import Lifted

_MODES = {"train": "train", "eval": "eval", "predict": "infer"}  # those of tf.estimator.ModeKeys


class _Built(NamedTuple):
    """What a function built in a graph of its own.

    Attributes:
        meta: the `MetaGraph`.
        feeds: the name of each placeholder -> its rule.
        loss, train_op: names of a tensor and an op; "" for none.
        predictions: key -> name of a tensor.
        metrics: key -> the names of the value and of the update.
    """

    meta: Any
    feeds: Dict[str, str]
    loss: str
    train_op: str
    predictions: Dict[str, str]
    metrics: Dict[str, Tuple[str, str]]


class ModelFn(Lifted):
    """The hooks of a model function.

    Args:
        function: `function(features, labels, mode, params, config)`, of which it may leave out all
            but the features. It gets float32 images in [0, 1] and classes as int32, as every
            plugin.
        params: passed on.
        feature: the name under which a single array of features is handed over in a dict; "" for
            the tensor itself.
        one_hot: whether labels of one class are one-hot, float32 [N, K].
        flat: whether features of an example are one vector.

    Example, the file my_plugin.py of `toolkit run --plugin my_plugin:plugin`. On TensorFlow 2.x the
    module of the function is imported while the stand-ins are installed:

        from toolkit_adopt import standins
        from toolkit_adopt.lift.model_fn import ModelFn

        with standins.installed():
            from my_model import model_fn

        plugin = ModelFn(model_fn, params={"data_format": "channels_last"})
    """

    def __init__(
        self,
        function: Callable[..., Any],
        params: Optional[Mapping[str, Any]] = None,
        feature: str = "",
        one_hot: bool = False,
        flat: bool = False,
    ):
        self._function, self._params = function, dict(params or {})
        self._feature, self._one_hot, self._flat = feature, one_hot, flat

    @hookimpl
    def build(self, run):
        built = self._call_function(run)
        graph_def, data = built.meta.graph_def, run.data
        if run.mode == "train":
            if not built.train_op or not built.loss:
                raise UsageError("The model function returned no train_op or no loss in training.")
            period = Period(graph_def, [built.train_op], [built.loss], built.feeds, data)
            return LiftedModel(built.meta, run, period)
        outputs = losses = metrics = None
        if built.predictions:
            outputs = Inference(graph_def, built.predictions, built.feeds, "", data)
        if built.loss and run.mode == "eval":
            losses = Inference(graph_def, {"loss": built.loss}, built.feeds, "", data)
        if built.metrics:
            metrics = Metrics(built.meta, built.metrics, built.feeds, data)
        return LiftedModel(built.meta, run, None, outputs, losses, metrics)

    @hookimpl
    def metrics(self, model, features, labels, run):
        return model.measure(features, labels, run)

    def _call_function(self, run: Any) -> _Built:
        """Call the function in a graph of its own."""
        size = run.options.batch_size if run.mode == "train" else None
        feeds: Dict[str, str] = {}
        with tf.Graph().as_default() as graph:
            tf.train.get_or_create_global_step()
            features = self._placeholders("features", run.data, size, feeds)
            labels = None
            if run.mode != "predict":
                labels = self._placeholders("labels", run.data, size, feeds)
            if self._feature and not isinstance(features, dict):
                features = {self._feature: features}
            known = {
                "features": features,
                "labels": labels,
                "mode": _MODES[run.mode],
                "params": dict(self._params),
                "config": None,
            }
            parameters = inspect.signature(self._function).parameters
            spec = self._function(**{name: known[name] for name in parameters if name in known})
            built = _name(spec, run.mode)
            meta = MetaGraph(tf.train.export_meta_graph(graph=graph))
        return built._replace(meta=meta, feeds=feeds)

    def _placeholders(self, role: str, data: Any, size: Any, feeds: Dict[str, str]) -> Any:
        """Placeholders of features or labels, as hooks get them; notes their rules."""
        packed = getattr(data, role)
        if packed is None:
            return None
        names = packed if isinstance(packed, dict) else {"": packed}
        made = {}
        for name, component in names.items():
            rule = f"{role}.{name}" if name else role
            dtype = {"image": "float32", "class": "int32", "text": "string"}.get(
                component.kind, component.dtype
            )
            shape = [size, *component.shape]
            if role == "labels" and self._one_hot:
                rule, dtype, shape = f"{rule}:one-hot", "float32", [size, component.num_classes]
            elif role == "features" and self._flat:
                rule, shape = f"{rule}:flat", [size, int(np.prod(component.shape))]
            made[name] = tf.placeholder(dtype, shape, f"lift/{rule.replace(':', '_')}")
            feeds[made[name].name] = rule
        return made if isinstance(packed, dict) else made[""]


def _name(spec: Any, mode: str) -> _Built:
    """Give what a specification has names in its graph."""

    def tensor(value: Any, name: str) -> str:
        return str(tf.identity(value, name=f"lift/{name}").name)

    loss = getattr(spec, "loss", None)
    train_op = getattr(spec, "train_op", None) if mode == "train" else None
    predictions = getattr(spec, "predictions", None) if mode != "train" else None
    if predictions is not None and not isinstance(predictions, Mapping):
        predictions = {"predictions": predictions}
    metrics = {}
    for key, (value, update) in (getattr(spec, "eval_metric_ops", None) or {}).items():
        names = tensor(value, f"value/{key}"), tf.group(update, name=f"lift/update/{key}").name
        metrics[re.sub(r"[^A-Za-z0-9_/.-]", "_", key)] = names
    return _Built(
        None,
        {},
        "" if loss is None else tensor(loss, "loss"),
        "" if train_op is None else str(tf.group(train_op, name="lift/train").name),
        {key: tensor(value, key) for key, value in (predictions or {}).items()},
        metrics if mode == "eval" else {},
    )


class Metrics:
    """The metrics of a model function: values, and updates of local variables.

    Args:
        meta: the graph.
        names: key -> the names of value and update.
        feeds, data: as of `Part`.
    """

    def __init__(
        self, meta: MetaGraph, names: Dict[str, Tuple[str, str]], feeds: Dict[str, str], data: Any
    ):
        self._meta, self._keys = meta, list(names)
        # Two parts: within one, a value would wait for the updates before it.
        self._parts = [Part(meta.graph_def, each, feeds, data) for each in zip(*names.values())]
        every = {name: x for part in self._parts for name, x in part.variables.items()}
        self._local = sorted(set(every) & set(meta.local))
        self.variables = {name: x for name, x in every.items() if name not in self._local}

    def build(self, variables: Dict[str, Any], features: Any, labels: Any, run: Any) -> Any:
        """Key -> (value, update) for the hook `metrics`, whose variables are local ones."""
        initial = self._meta.initial_values(self._local, run.seed)
        known = dict(variables)
        for name in self._local:
            known[name] = tf.get_variable(
                f"metrics/{name}",
                initializer=tf.constant(initial[name]),
                trainable=False,
                collections=[tf.GraphKeys.LOCAL_VARIABLES],
                use_resource=True,
            )
        batch = Batch(features, labels, run, batch_size(features))
        values, updates = (
            part.connect(known, part.make_feeds(batch), run, "metrics") for part in self._parts
        )
        return {key: pair for key, *pair in zip(self._keys, values, updates)}
