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
from typing import Any, Callable, Dict, Mapping, Optional, Tuple

import numpy as np

from toolkit import UsageError, hookimpl, tf

from .feeds import Batch, batch_size
from .graph import LiftedModel
from .initial import MetaGraph
from .part import Inference, Part, Period, Source
from .plugin import Lifted

_MODES = {"train": "train", "eval": "eval", "predict": "infer"}  # those of tf.estimator.ModeKeys
_FIELDS = "loss", "train_op", "predictions", "eval_metric_ops"  # of a specification


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
        feeds: Dict[str, str] = {}  # the name of each placeholder -> its rule
        with tf.Graph().as_default() as graph:
            spec = self._call_function(run, feeds)
            loss, train_op, found, metric_ops = (getattr(spec, name, None) for name in _FIELDS)
            if run.mode == "train":
                if train_op is None or loss is None:
                    raise UsageError(
                        "The model function returned no train_op or no loss in training."
                    )
                train_name = str(tf.group(train_op, name="lift/train").name)
            loss = "" if loss is None else _name(loss, "loss")
            predictions, metrics = {}, {}
            if run.mode != "train" and found is not None:
                found = found if isinstance(found, Mapping) else {"predictions": found}
                predictions = {key: _name(value, key) for key, value in found.items()}
            for key, (value, update) in (metric_ops or {}).items():
                update_name = tf.group(update, name=f"lift/update/{key}").name
                key = re.sub(r"[^A-Za-z0-9_/.-]", "_", key)
                metrics[key] = _name(value, f"value/{key}"), update_name
            meta = MetaGraph(tf.train.export_meta_graph(graph=graph))
        source, is_eval = Source(meta.graph_def, feeds, run.data), run.mode == "eval"
        if run.mode == "train":
            return LiftedModel(meta, run, losses=Period(source, [train_name], [loss]))
        return LiftedModel(
            meta,
            run,
            outputs=Inference(source, predictions) if predictions else None,
            losses=Inference(source, {"loss": loss}) if loss and is_eval else None,
            metrics=Metrics(meta, source, metrics) if metrics and is_eval else None,
        )

    @hookimpl
    def metrics(self, model, features, labels, run):
        return model.build("metrics", features, labels, run)

    def _call_function(self, run: Any, feeds: Dict[str, str]) -> Any:
        """The specification that the function returns in the default graph."""
        tf.train.get_or_create_global_step()
        features = self._placeholders("features", run, feeds)
        if self._feature and not isinstance(features, dict):
            features = {self._feature: features}
        known = {
            "features": features,
            "labels": self._placeholders("labels", run, feeds) if run.mode != "predict" else None,
            "mode": _MODES[run.mode],
            "params": dict(self._params),
            "config": None,
        }
        parameters = inspect.signature(self._function).parameters
        return self._function(**{name: known[name] for name in parameters if name in known})

    def _placeholders(self, role: str, run: Any, feeds: Dict[str, str]) -> Any:
        """Placeholders of features or labels, as hooks get them; notes their rules."""
        packed = getattr(run.data, role)
        size = run.options.batch_size if run.mode == "train" else None
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


def _name(value: Any, name: str) -> str:
    """Name a tensor in its graph."""
    return str(tf.identity(value, name=f"lift/{name}").name)


class Metrics:
    """The metrics of a model function: values, and updates of local variables."""

    def __init__(self, meta: MetaGraph, source: Source, names: Dict[str, Tuple[str, str]]):
        self._meta, self._keys = meta, list(names)  # key -> the names of value and update
        # Two parts: within one, a value would wait for the updates before it.
        self._parts = [Part(source, each) for each in zip(*names.values())]
        every = {name: x for part in self._parts for name, x in part.variables.items()}
        self.variables = {name: x for name, x in every.items() if name not in meta.local}
        self._local = sorted(set(every) - set(self.variables))

    def build(self, variables: Dict[str, Any], features: Any, labels: Any, run: Any) -> Any:
        """Key -> (value, update) for the hook `metrics`, whose variables are local ones."""
        known = dict(variables)
        for name, value in sorted(self._meta.initial_values(self._local, run.seed).items()):
            known[name] = tf.get_variable(
                f"metrics/{name}",
                initializer=tf.constant(value),
                trainable=False,
                collections=[tf.GraphKeys.LOCAL_VARIABLES],
                use_resource=True,
            )
        batch = Batch(features, labels, run, batch_size(features))
        values, updates = (
            part.connect(known, part.make_feeds(batch), run, "metrics") for part in self._parts
        )
        return {key: pair for key, *pair in zip(self._keys, values, updates)}
