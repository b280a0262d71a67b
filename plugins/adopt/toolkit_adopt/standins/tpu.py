"""`tf.contrib.tpu` without a TPU: an Estimator whose functions are given the size of a batch."""

from __future__ import annotations

import types
from typing import Any

from . import estimator


class InputPipelineConfig:
    """How inputs would reach the TPUs."""

    PER_SHARD_V1, PER_HOST_V1, PER_HOST_V2, BROADCAST, SLICED = range(1, 6)


class TPUConfig(types.SimpleNamespace):
    """What is given by name, which nothing reads."""

    def __init__(self, iterations_per_loop=2, num_shards=None, **fields: Any):
        super().__init__(iterations_per_loop=iterations_per_loop, num_shards=num_shards, **fields)


class RunConfig(estimator.RunConfig):
    """That of an Estimator, with fields that nothing reads."""

    tpu_config, cluster, evaluation_master = TPUConfig(), None, ""


def TPUEstimatorSpec(
    mode, predictions=None, loss=None, train_op=None, eval_metrics=None, **fields
) -> estimator.EstimatorSpec:
    """An `EstimatorSpec`: its metrics are made by a function of tensors, its scaffold by another.

    What a host would be called for is left out.
    """
    make_scaffold, _ = fields.pop("scaffold_fn", None), fields.pop("host_call", None)
    metrics = None
    if eval_metrics is not None:
        function, tensors = eval_metrics
        metrics = function(**tensors) if isinstance(tensors, dict) else function(*tensors)
    scaffold = make_scaffold() if make_scaffold else None
    results = predictions, loss, train_op, metrics
    return estimator.EstimatorSpec(mode, *results, scaffold=scaffold, **fields)


class TPUEstimator(estimator.Estimator):
    """An Estimator whose functions find the size of a batch in `params`.

    Raises ValueError if a TPU is to be used.
    """

    def __init__(
        self, model_fn=None, model_dir=None, config=None, params=None, use_tpu=True, **options
    ):
        if use_tpu:
            raise ValueError("The stand-in of tf.contrib.tpu has no TPU: give it use_tpu=False.")
        super().__init__(model_fn, model_dir, config, params, options.get("warm_start_from"))
        names = {"train": "train", "eval": "eval", "infer": "predict"}  # by ModeKeys
        self._sizes = {mode: options.get(f"{name}_batch_size") for mode, name in names.items()}

    def _call(self, function: Any, mode: str, **more: Any) -> Any:
        self.params["batch_size"] = self._sizes[mode]
        return super()._call(function, mode, **more)
