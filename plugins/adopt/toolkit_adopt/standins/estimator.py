"""`tf.estimator` in one process: Estimator, its specification and configuration.

Each call of `train`, `evaluate` and `predict` builds a graph of its own and runs it by a monitored
session. No clock decides: where a configuration names seconds, checkpoints are written at the
beginning and the end of a training. Nothing is exported.
"""

from __future__ import annotations

import copy
import inspect
import os
import sys
import tempfile
from typing import Any, Dict, Iterator, List, NamedTuple, Optional

from toolkit import tf

from .. import refuse_cluster

_NEVER = 2**60  # steps


class ModeKeys:
    """What a model function is asked for."""

    TRAIN = "train"
    EVAL = "eval"
    PREDICT = INFER = "infer"


class EstimatorSpec(NamedTuple):
    """What a model function returns; `export_outputs` are ignored."""

    mode: str
    predictions: Any = None
    loss: Any = None
    train_op: Any = None
    eval_metric_ops: Any = None
    export_outputs: Any = None
    training_chief_hooks: Any = None
    training_hooks: Any = None
    scaffold: Any = None
    evaluation_hooks: Any = None
    prediction_hooks: Any = None


def LatestExporter(*args: Any, **kwargs: Any) -> None:
    """An exporter, or what one or a specification names, which nothing reads."""


FinalExporter = BestExporter = LatestExporter


class export:
    """`tf.estimator.export`."""

    PredictOutput = ClassificationOutput = RegressionOutput = ExportOutput = LatestExporter
    ServingInputReceiver = TensorServingInputReceiver = LatestExporter
    build_raw_serving_input_receiver_fn = LatestExporter
    build_parsing_serving_input_receiver_fn = LatestExporter


class RunConfig:
    """How an Estimator trains; no clock decides, so that what is in seconds and hours is ignored.

    Raises TypeError for an unknown field that is not None, UsageError if TF_CONFIG has a cluster,
    and ValueError if training by several devices is asked for.
    """

    tf_random_seed: Any = None  # of its graphs
    save_summary_steps = 100  # between two writings of summaries
    save_checkpoints_steps: Any = None  # None for the first and last step alone
    save_checkpoints_secs = session_config = None
    keep_checkpoint_max, keep_checkpoint_every_n_hours = 5, 10000
    log_step_count_steps = 100  # between two lines of the log
    train_distribute = eval_distribute = None
    task_type, task_id, master, is_chief = "worker", 0, "", True
    cluster_spec, num_worker_replicas, num_ps_replicas = None, 1, 0

    def __init__(self, model_dir: Any = None, **fields: Any):
        self.model_dir = model_dir
        for name, value in fields.items():
            if value is not None and not hasattr(type(self), name):
                raise TypeError(f"The stand-in of RunConfig has no field {name}.")
            setattr(self, name, value)
        refuse_cluster()
        wrong = [name for name in ("train_distribute", "eval_distribute") if getattr(self, name)]
        if wrong:
            raise ValueError(
                f"The stand-in of tf.estimator trains in one process: remove {wrong[0]}."
            )

    def replace(self, **changes: Any) -> RunConfig:
        """The same configuration with other values."""
        return type(self)(**{**vars(self), **changes})


class TrainSpec(NamedTuple):
    """How `train_and_evaluate` trains, up to global step `max_steps`."""

    input_fn: Any
    max_steps: Any = None
    hooks: Any = ()


class EvalSpec(NamedTuple):
    """How `train_and_evaluate` evaluates: `steps` batches; the times in seconds are ignored."""

    input_fn: Any
    steps: Any = 100
    name: Any = None
    hooks: Any = ()
    exporters: Any = None
    start_delay_secs: Any = 120
    throttle_secs: Any = 600


class Estimator:
    """Trains, evaluates and predicts by a model function."""

    def __init__(
        self, model_fn=None, model_dir=None, config=None, params=None, warm_start_from=None
    ):
        config = config or RunConfig()
        self.model_dir = model_dir or config.model_dir or tempfile.mkdtemp()
        self.config = config.replace(model_dir=self.model_dir)
        self.params = dict(params or {}) if isinstance(params, (dict, type(None))) else params
        self.model_fn, self._warm_start_from = model_fn, warm_start_from
        self.evaluations: Dict[int, Dict[str, Any]] = {}  # step -> metrics, of those without a name

    def _call(self, function: Any, mode: str, **more: Any) -> Any:
        """Call a function of the user with those of some named arguments that it has."""
        params = copy.deepcopy(self.params)  # which the function may change
        offered = {"mode": mode, "params": params, "config": self.config, **more}
        bound = getattr(function, "keywords", {})  # of a partial
        names = set(inspect.signature(function).parameters) - set(bound)
        return function(**{name: x for name, x in offered.items() if name in names})

    def _build(self, input_fn: Any, mode: str) -> Any:
        """The specification in the default graph."""
        tf.set_random_seed(self.config.tf_random_seed)
        tf.train.create_global_step()
        result, hooks = self._call(input_fn, mode), []
        if hasattr(result, "output_types") or isinstance(result, tf.data.Dataset):
            iterator = tf.data.make_initializable_iterator(result)
            hook: Any = tf.train.SessionRunHook()
            hook.after_create_session = lambda session, coord: session.run(iterator.initializer)
            hooks.append(hook)
            result = iterator.get_next()
        features, labels = result if isinstance(result, (list, tuple)) else (result, None)
        labels = None if mode == ModeKeys.PREDICT else labels
        spec = self._call(self.model_fn, mode, features=features, labels=labels)
        if spec.loss is not None:
            spec = spec._replace(loss=tf.reshape(spec.loss, []))
        name = {ModeKeys.TRAIN: "training", ModeKeys.EVAL: "evaluation"}.get(mode, "prediction")
        hooks += getattr(spec, f"{name}_hooks") or []
        return spec._replace(
            scaffold=spec.scaffold or tf.train.Scaffold(), **{f"{name}_hooks": hooks}
        )

    def train(
        self, input_fn, hooks=None, steps=None, max_steps=None, saving_listeners=None
    ) -> Estimator:
        """Train from the newest checkpoint on."""
        newest = self.latest_checkpoint()
        if max_steps is not None and newest:
            step = newest.rpartition("-")[2]  # at a resume the file of an earlier call is gone
            if not step.isdigit():
                step = tf.train.load_variable(newest, tf.GraphKeys.GLOBAL_STEP)
            if max_steps <= int(step):
                return self
        with tf.Graph().as_default():
            spec = self._build(input_fn, ModeKeys.TRAIN)
            if self._warm_start_from and newest is None:
                tf.train.warm_start(self._warm_start_from)
            all_hooks = [*(hooks or []), tf.train.NanTensorHook(spec.loss)]
            if steps is not None or max_steps is not None:
                all_hooks.append(tf.train.StopAtStepHook(steps, max_steps))
            self._train(spec, all_hooks, list(saving_listeners or []))
        return self

    def _train(self, spec: EstimatorSpec, hooks: List[Any], listeners: List[Any]) -> None:
        """Call the train op until a hook or the inputs end it."""
        config = self.config
        tf.summary.scalar("loss", spec.loss)
        values = {"loss": spec.loss, "step": tf.train.get_global_step()}
        if not spec.scaffold.saver and not tf.get_collection(tf.GraphKeys.SAVERS):
            saver = tf.train.Saver(max_to_keep=config.keep_checkpoint_max, defer_build=True)
            tf.add_to_collection(tf.GraphKeys.SAVERS, saver)
        every = config.log_step_count_steps
        if every:
            hooks = [*hooks, tf.train.LoggingTensorHook(values, every_n_iter=every)]
        save = tf.train.CheckpointSaverHook(
            self.model_dir,
            save_steps=config.save_checkpoints_steps or _NEVER,
            scaffold=spec.scaffold,
            listeners=listeners,
        )
        with tf.train.MonitoredTrainingSession(
            checkpoint_dir=self.model_dir,
            scaffold=spec.scaffold,
            hooks=[*hooks, *(spec.training_hooks or []), *(spec.training_chief_hooks or []), save],
            save_checkpoint_secs=0,
            save_summaries_steps=config.save_summary_steps,
            config=config.session_config,
            log_step_count_steps=every,
        ) as session:
            while not session.should_stop():
                session.run([spec.train_op, spec.loss])

    def _calls(
        self, spec: EstimatorSpec, fetches: Any, path: Any, hooks: List[Any], left: Any = None
    ) -> Any:
        """What a session of a checkpoint's variables fetches, for so many calls or all.

        Without a path it is the newest checkpoint; without one, the initial values.
        """
        creator = tf.train.ChiefSessionCreator(
            spec.scaffold,
            config=self.config.session_config,
            checkpoint_filename_with_path=path or self.latest_checkpoint(),
        )
        with tf.train.MonitoredSession(creator, hooks) as session:
            while (left is None or left > 0) and not session.should_stop():
                yield session.run(fetches)
                left = None if left is None else left - 1

    def evaluate(
        self, input_fn, steps=None, hooks=None, checkpoint_path=None, name=None
    ) -> Dict[str, Any]:
        """The metrics of a checkpoint, with "loss" and "global_step"; of all batches by default."""
        with tf.Graph().as_default():
            spec = self._build(input_fn, ModeKeys.EVAL)
            metrics = {**(spec.eval_metric_ops or {}), "loss": tf.metrics.mean(spec.loss)}
            values = {key: value for key, (value, _) in metrics.items()}
            values[tf.GraphKeys.GLOBAL_STEP] = tf.train.get_global_step()
            final = tf.train.FinalOpsHook(values)
            all_hooks = [*(hooks or []), *(spec.evaluation_hooks or []), final]
            updates = [update for _, update in metrics.values()]
            for _ in self._calls(spec, updates, checkpoint_path, all_hooks, steps):
                pass
        found = dict(final.final_ops_values)
        if name is None:
            self.evaluations[int(found[tf.GraphKeys.GLOBAL_STEP])] = found
        return found

    def predict(
        self,
        input_fn,
        predict_keys=None,
        hooks=None,
        checkpoint_path=None,
        yield_single_examples=True,
    ) -> Iterator[Any]:
        """Yield the predictions for each example, or for each batch."""
        with tf.Graph().as_default():
            spec = self._build(input_fn, ModeKeys.PREDICT)
            wanted = spec.predictions
            if predict_keys is not None:
                wanted = {key: wanted[key] for key in predict_keys}
            all_hooks = [*(hooks or []), *(spec.prediction_hooks or [])]
            for batch in self._calls(spec, wanted, checkpoint_path, all_hooks):
                if not yield_single_examples:
                    yield batch
                elif isinstance(batch, dict):
                    yield from (dict(zip(batch, row)) for row in zip(*batch.values()))
                else:
                    yield from batch

    def latest_checkpoint(self) -> Optional[str]:
        """The path of the newest checkpoint; None if there is none."""
        return tf.train.latest_checkpoint(self.model_dir)

    def eval_dir(self, name=None) -> str:
        """A folder beside the checkpoints, into which nothing is written here."""
        return os.path.join(self.model_dir, "eval" if name is None else f"eval_{name}")

    def get_variable_names(self) -> List[str]:
        """The names in the newest checkpoint."""
        return [name for name, _ in tf.train.list_variables(self.model_dir)]

    def get_variable_value(self, name: str) -> Any:
        """The array of a variable in the newest checkpoint."""
        return tf.train.load_variable(self.model_dir, name)

    def export_savedmodel(self, *args: Any, **kwargs: Any) -> None:
        """Export nothing, and say so."""
        sys.stderr.write("note   an Estimator exports nothing here: 'toolkit export' does\n")

    export_saved_model = export_savedmodel


def train_and_evaluate(estimator: Estimator, train_spec: TrainSpec, eval_spec: EvalSpec) -> Any:
    """Train up to `max_steps`, and evaluate each checkpoint but the first.

    Returns the last metrics, and None for exports.
    """
    results: List[Any] = []  # of the evaluations, the first of which is left out

    def evaluate(session: Any, step: int) -> None:
        arguments = (eval_spec.input_fn, eval_spec.steps, eval_spec.hooks)
        is_first = not results
        results.append(None if is_first else estimator.evaluate(*arguments, name=eval_spec.name))

    listener: Any = tf.train.CheckpointSaverListener()
    listener.after_save = evaluate
    steps = {"max_steps": train_spec.max_steps, "saving_listeners": [listener]}
    estimator.train(train_spec.input_fn, train_spec.hooks, **steps)
    return results[-1] if results else None, None


class _Stop(tf.train.SessionRunHook):
    """Ends a training when the best evaluation is so many steps before the last one."""

    def __init__(self, sign: int, estimator: Any, metric: str, most: int, min_steps: int):
        self._sign, self._estimator, self._metric = sign, estimator, metric
        self._most, self._min_steps = most, min_steps

    def after_run(self, run_context: Any, run_values: Any) -> None:
        found = [
            (self._sign * metrics[self._metric], -step)
            for step, metrics in self._estimator.evaluations.items()
            if step >= self._min_steps
        ]
        if found and max(found)[1] - min(step for _, step in found) >= self._most:
            run_context.request_stop()


def stop_if_no_increase_hook(
    estimator, metric_name, max_steps_without_increase, eval_dir=None, min_steps=0, **_
):
    """A hook that ends a training when a metric of its evaluations has not increased for so many
    steps, of those from `min_steps` on. No clock decides when it looks.
    """
    return _Stop(1, estimator, metric_name, max_steps_without_increase, min_steps)


def stop_if_no_decrease_hook(
    estimator, metric_name, max_steps_without_decrease, eval_dir=None, min_steps=0, **_
):
    """The same for a metric that is to decrease."""
    return _Stop(-1, estimator, metric_name, max_steps_without_decrease, min_steps)
