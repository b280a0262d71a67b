"""Hooks with wrong arguments, and hooks that return what they should not."""

from __future__ import annotations

from bad_plugin_fixtures import Fault

FAULTS = [
    Fault(
        "unknown hook",
        """
        @hookimpl  # here
        def metric(labels):
            return {}
        """,
        """
        Hook 'metric' of plugin 'bad' ({here}) is unknown.
        Did you mean 'metrics'?
        """,
        code=2,
    ),
    Fault(
        "unknown argument",
        """
        @hookimpl  # here
        def loss(label, outputs):
            return 0
        """,
        """
        Hook 'loss' of plugin 'bad' ({here}) has an unknown argument 'label'.
        Did you mean 'labels'? Its arguments may be model, features, labels, outputs, run.
        """,
        code=2,
    ),
    Fault(
        "default argument",
        """
        @hookimpl  # here
        def loss(labels=None, outputs=None):
            return 0
        """,
        """
        Hook 'loss' of plugin 'bad' ({here}) gives 'labels' a default, so it would never be passed.
        Remove the default.
        """,
        code=2,
    ),
    Fault(
        "star arguments",
        """
        @hookimpl  # here
        def loss(*args):
            return 0
        """,
        """
        Hook 'loss' of plugin 'bad' ({here}) takes *args.
        Its arguments may be model, features, labels, outputs, run.
        """,
        code=2,
    ),
    Fault(
        "unmarked",
        """
        def predict(outputs):
            return {}
        """,
        """
        Plugin 'bad' ({file}) lacks the model hook predict.
        Mark the function 'predict' with @toolkit.hookimpl.
        """,
        code=2,
    ),
    Fault(
        "marked twice class",
        """
        @hookimpl
        class loss:
            pass
        """,
        """
        Plugin 'bad' ({file}) lacks the model hook loss.
        Mark the function 'loss' with @toolkit.hookimpl.
        """,
        code=2,
    ),
    Fault(
        "async hook",
        """
        @hookimpl  # here
        async def loss(outputs):
            return 1.0
        """,
        """
        Hook 'loss' of plugin 'bad' ({here}) is asynchronous.
        Write 'def' without 'async'.
        """,
        code=2,
    ),
    Fault(
        "no return build",
        """
        @hookimpl  # here
        def build():
            tf.constant(1)
        """,
        """
        Hook 'build' of plugin 'bad' returned None ({here}).
        A model hook returns a value; is a 'return' missing?
        """,
    ),
    Fault(
        "no return call",
        """
        @hookimpl  # here
        def call():
            tf.constant(1)
        """,
        """
        Hook 'call' of plugin 'bad' returned None ({here}).
        A model hook returns a value; is a 'return' missing?
        """,
    ),
    Fault(
        "no return loss",
        """
        @hookimpl  # here
        def loss():
            tf.constant(1)
        """,
        """
        Hook 'loss' of plugin 'bad' returned None ({here}).
        A model hook returns a value; is a 'return' missing?
        """,
    ),
    Fault(
        "no return optimize",
        """
        @hookimpl  # here
        def optimize():
            tf.constant(1)
        """,
        """
        Hook 'optimize' of plugin 'bad' returned None ({here}).
        A model hook returns a value; is a 'return' missing?
        """,
    ),
    Fault(
        "no return predict",
        """
        @hookimpl  # here
        def predict():
            tf.constant(1)
        """,
        """
        Hook 'predict' of plugin 'bad' returned None ({here}).
        A model hook returns a value; is a 'return' missing?
        """,
    ),
    Fault(
        "call list",
        """
        @hookimpl  # here
        def call(model, features):
            return [features]
        """,
        """
        Hook 'call' of plugin 'bad' returned a list of 1, expected a dict of tensors ({here}).
        Return {name: tensor}, with a name for each output.
        """,
    ),
    Fault(
        "call tensor",
        """
        @hookimpl  # here
        def call(model, features):
            return features
        """,
        """
        Hook 'call' of plugin 'bad' returned a tensor float32 [4, 6, 6, 1], expected a dict of
        tensors ({here}).
        Return {name: tensor}, with a name for each output.
        """,
    ),
    Fault(
        "loss float",
        """
        @hookimpl  # here
        def loss(outputs):
            return 1.0
        """,
        """
        Hook 'loss' of plugin 'bad' returned 1.0 for 'loss', expected a scalar tensor ({here}).
        Compute it from the hook's tensors with TensorFlow's functions, not with numpy's.
        """,
    ),
    Fault(
        "loss vector",
        """
        @hookimpl  # here
        def loss(outputs):
            return tf.reduce_mean(outputs['logits'], 1)
        """,
        """
        Hook 'loss' of plugin 'bad' returned a tensor float32 [4] for 'loss', expected a scalar
        tensor ({here}).
        Take the mean over the batch with tf.reduce_mean.
        """,
    ),
    Fault(
        "loss int",
        """
        @hookimpl  # here
        def loss(outputs):
            return tf.reduce_sum(tf.cast(outputs['logits'], tf.int32))
        """,
        """
        Hook 'loss' of plugin 'bad' returned a tensor int32 [] for 'loss', expected a scalar
        tensor of floats ({here}).
        Convert it with tf.cast(loss, tf.float32).
        """,
    ),
    Fault(
        "loss list",
        """
        @hookimpl  # here
        def loss(outputs):
            return [tf.reduce_mean(outputs['logits'])]
        """,
        """
        Hook 'loss' of plugin 'bad' returned a list of 1 for 'loss', expected a scalar tensor
        ({here}).
        Return one scalar, or a dict of scalars by name.
        """,
    ),
    Fault(
        "loss empty",
        """
        @hookimpl  # here
        def loss(outputs):
            return {}
        """,
        """
        Hook 'loss' of plugin 'bad' returned {}, expected a scalar tensor ({here}).
        Return at least one scalar.
        """,
    ),
    Fault(
        "loss generator",
        """
        @hookimpl  # here
        def loss(outputs):
            yield tf.reduce_mean(outputs['logits'])
        """,
        """
        Hook 'loss' of plugin 'bad' ({here}) is a generator: its 'yield' makes it return no value.
        Write 'return'; to wrap a hook, mark it @toolkit.hookimpl(wrapper=True).
        """,
        code=2,
    ),
    Fault(
        "loss numpy",
        """
        @hookimpl  # here
        def loss(outputs):
            return np.float32(1)
        """,
        """
        Hook 'loss' of plugin 'bad' returned numpy's float32 1.0 for 'loss', expected a scalar
        tensor ({here}).
        Compute it from the hook's tensors with TensorFlow's functions, not with numpy's.
        """,
    ),
    Fault(
        "call generator",
        """
        @hookimpl  # here
        def call(model, features):
            yield {'logits': features}
        """,
        """
        Hook 'call' of plugin 'bad' ({here}) is a generator: its 'yield' makes it return no value.
        Write 'return'; to wrap a hook, mark it @toolkit.hookimpl(wrapper=True).
        """,
        code=2,
    ),
    Fault(
        "optimize tensor",
        """
        @hookimpl  # here
        def optimize(losses, run):
            run.minimize(losses)
            return losses
        """,
        """
        Hook 'optimize' of plugin 'bad' returned a tensor float32 [], expected one tf.Operation
        ({here}).
        Return what run.minimize returns, or a tf.group.
        """,
    ),
    Fault(
        "optimize list",
        """
        @hookimpl  # here
        def optimize(losses, run):
            return [run.minimize(losses)]
        """,
        """
        Hook 'optimize' of plugin 'bad' returned a list of 1, expected one tf.Operation ({here}).
        Return what run.minimize returns, or a tf.group.
        """,
    ),
    Fault(
        "predict tensor",
        """
        @hookimpl  # here
        def predict(outputs):
            return outputs['logits']
        """,
        """
        Hook 'predict' of plugin 'bad' returned a tensor float32 [?, 3], expected a dict of
        tensors ({here}).
        Return {name: tensor}, with a name for each column of the predictions.
        """,
    ),
    Fault(
        "predict empty",
        """
        @hookimpl  # here
        def predict(outputs):
            return {}
        """,
        """
        Hook 'predict' of plugin 'bad' returned {}, expected a dict of tensors ({here}).
        Return {name: tensor}, with a name for each column of the predictions.
        """,
    ),
    Fault(
        "predict scalar",
        """
        @hookimpl  # here
        def predict(outputs):
            return {'mean': tf.reduce_mean(outputs['logits'])}
        """,
        """
        Hook 'predict' of plugin 'bad' returned a tensor float32 [] for 'mean', expected one row
        for each example, [N, ...] ({here}).
        Compute a value of each example; what is one number for a split is a metric.
        """,
    ),
    Fault(
        "predict other size",
        """
        @hookimpl  # here
        def predict(outputs):
            return {'mean': tf.reduce_mean(outputs['logits'], 0)}
        """,
        """
        Hook 'predict' of plugin 'bad' returned a tensor float32 [3] for 'mean', expected one row
        for each example, [N, ...] ({here}).
        Compute a value of each example; what is one number for a split is a metric.
        """,
    ),
    Fault(
        "predict float label",
        """
        @hookimpl  # here
        def predict(outputs):
            return {'label': tf.reduce_max(outputs['logits'], 1)}
        """,
        """
        Hook 'predict' of plugin 'bad' returned a tensor float32 [?] for 'label', expected the
        predicted class as an integer ({here}).
        Take tf.argmax(..., output_type=tf.int32), or give it another name.
        """,
    ),
    Fault(
        "predict string",
        """
        @hookimpl  # here
        def predict(outputs):
            return {'label': 'cat'}
        """,
        """
        Hook 'predict' of plugin 'bad' returned 'cat' for 'label', expected a tensor ({here}).
        Compute it from the hook's tensors with TensorFlow's functions, not with numpy's.
        """,
    ),
    Fault(
        "metrics tensor",
        """
        @hookimpl  # here
        def metrics(outputs):
            return {'mean': tf.reduce_mean(outputs['logits'])}
        """,
        """
        Hook 'metrics' of plugin 'bad' returned a tensor float32 [] for 'mean', expected a pair
        (value, update_op) ({here}).
        Return what a function of tf.metrics returns, such as tf.metrics.mean(values).
        """,
    ),
    Fault(
        "metrics pair",
        """
        @hookimpl  # here
        def metrics(outputs):
            return tf.metrics.mean(outputs['logits'])
        """,
        """
        Hook 'metrics' of plugin 'bad' returned a tuple of 2, expected a dict of pairs (value,
        update_op) ({here}).
        Return {name: tf.metrics.mean(values)}.
        """,
    ),
    Fault(
        "metrics list",
        """
        @hookimpl  # here
        def metrics(outputs):
            return [tf.metrics.mean(outputs['logits'])]
        """,
        """
        Hook 'metrics' of plugin 'bad' returned a list of 1, expected a dict of pairs (value,
        update_op) ({here}).
        Return {name: tf.metrics.mean(values)}.
        """,
    ),
    Fault(
        "metrics vector",
        """
        @hookimpl
        def metrics(outputs):
            return {'mean': tf.metrics.mean_tensor(outputs['logits'][:1])}  # here
        """,
        """
        Plugin 'bad' failed in its hook 'metrics': ValueError: Cannot convert a partially known
        TensorShape ... ({here}).
        Run again with -v for the traceback.
        """,
    ),
    Fault(
        "directions word",
        """
        @hookimpl  # here
        def metric_directions():
            return {'loss': 'lower'}
        """,
        """
        The hook 'metric_directions' declares the directions {'loss': 'lower'}.
        It declares a dict from the name of a metric to "min" or "max".
        """,
        flags=("--best-metric", "loss"),
    ),
    Fault(
        "directions list",
        """
        @hookimpl  # here
        def metric_directions():
            return ['loss']
        """,
        """
        The hook 'metric_directions' declares the directions ['loss'].
        It declares a dict from the name of a metric to "min" or "max".
        """,
        flags=("--best-metric", "loss"),
    ),
    Fault(
        "scorers one",
        """
        @hookimpl  # here
        def scorers(run):
            return 5
        """,
        """
        Hook 'scorers' of plugin 'bad' returned 5, expected a list of scorers ({here}).
        Return a list: [scorer].
        """,
    ),
    Fault(
        "data tuple",
        """
        @hookimpl  # here
        def data(split):
            return np.zeros([4, 3]), np.zeros([4], int)
        """,
        """
        Hook 'data' of plugin 'bad' returned a tuple of 2 for 'train', expected a toolkit.Split.
        Return toolkit.Split(features, labels).
        """,
    ),
    Fault(
        "data empty",
        """
        @hookimpl
        def data(split):
            return toolkit.Split(np.zeros([0, 3], 'float32'), np.zeros([0], int))
        """,
        """
        The split 'train' of the data 'plugin bad' is empty.
        Give at least one example to train on.
        """,
        code=4,
    ),
    Fault(
        "data lengths",
        """
        @hookimpl  # here
        def data(split):
            return toolkit.Split(np.zeros([5, 3], 'float32'), np.zeros([4], int))
        """,
        """
        Hook 'data' of plugin 'bad' failed for 'train': The components have different numbers of
        examples: features 5, labels 4.
        Give one value of each for each example.
        """,
        code=4,
    ),
    Fault(
        "convert none",
        """
        @hookimpl  # here
        def convert(features, labels):
            pass
        """,
        """
        The hook 'convert' returned None for example 0, expected features and labels (hook
        'convert' of plugin 'bad', {here}).
        Return features, labels; labels may be None.
        """,
    ),
    Fault(
        "convert one",
        """
        @hookimpl  # here
        def convert(features, labels):
            return features
        """,
        """
        The hook 'convert' returned one ndarray for example 0, expected features and labels (hook
        'convert' of plugin 'bad', {here}).
        Return features, labels; labels may be None.
        """,
    ),
    Fault(
        "filter array",
        """
        @hookimpl  # here
        def filter(features):
            return features > 0
        """,
        """
        The hook 'filter' returned an array [6, 6, 1] for example 0, expected True or False (hook
        'filter' of plugin 'bad', {here}).
        Return a bool.
        """,
    ),
    Fault(
        "filter all",
        """
        @hookimpl  # here
        def filter(features):
            return False
        """,
        """
        The hook 'filter' kept none of 16 examples (hook 'filter' of plugin 'bad', {here}).
        Return True for the examples to keep.
        """,
        code=4,
    ),
    Fault(
        "evaluated text",
        """
        @hookimpl  # here
        def evaluated(metrics):
            return 'good'
        """,
        """
        Hook 'evaluated' of plugin 'bad' returned 'good', expected a dict or None ({here}).
        Return a dict of JSON values by name, or None; write other results to 'folder'.
        """,
    ),
    Fault(
        "evaluated array",
        """
        @hookimpl  # here
        def evaluated(metrics):
            return {'values': object()}
        """,
        """
        Hook 'evaluated' of plugin 'bad' returned an object for 'values', expected a JSON value
        ({here}).
        Return a dict of JSON values by name, or None; write other results to 'folder'.
        """,
    ),
    Fault(
        "wrapper in model",
        """
        @hookimpl(wrapper=True)  # here
        def predict(outputs):
            return (yield)
        """,
        """
        Hook 'predict' of plugin 'bad' ({here}) wraps itself.
        Remove wrapper=True.
        """,
        code=2,
    ),
]
