"""Hooks with wrong arguments, and hooks that return what they should not."""

FAULTS = r"""
# unknown hook (exit code 2)
@hookimpl  # here
def metric(labels):
    return {}
Error: Hook 'metric' of plugin 'bad' ({here}) is unknown.
Did you mean 'metrics'?

# unknown argument (exit code 2)
@hookimpl  # here
def loss(label, outputs):
    return 0
Error: Hook 'loss' of plugin 'bad' ({here}) has an unknown argument 'label'.
Did you mean 'labels'? Its arguments may be model, features, labels, outputs, run.

# default argument (exit code 2)
@hookimpl  # here
def loss(labels=None, outputs=None):
    return 0
Error: Hook 'loss' of plugin 'bad' ({here}) gives 'labels' a default, so it would never be passed.
Remove the default.

# star arguments (exit code 2)
@hookimpl  # here
def loss(*args):
    return 0
Error: Hook 'loss' of plugin 'bad' ({here}) takes *args.
Its arguments may be model, features, labels, outputs, run.

# no return call
@hookimpl  # here
def call():
    tf.constant(1)
Error: Hook 'call' of plugin 'bad' returned None ({here}).
A model hook returns a value; is a 'return' missing?

# call tensor
@hookimpl  # here
def call(model, features):
    return features
Error: Hook 'call' of plugin 'bad' returned a tensor float32 [4, 6, 6, 1], expected a dict of
tensors ({here}).
Return {name: tensor}, with a name for each output.

# loss vector
@hookimpl  # here
def loss(outputs):
    return tf.reduce_mean(outputs['logits'], 1)
Error: Hook 'loss' of plugin 'bad' returned a tensor float32 [4] for 'loss', expected a scalar
tensor ({here}).
Take the mean over the batch with tf.reduce_mean.

# loss generator (exit code 2)
@hookimpl  # here
def loss(outputs):
    yield tf.reduce_mean(outputs['logits'])
Error: Hook 'loss' of plugin 'bad' ({here}) is a generator: its 'yield' makes it return no value.
Write 'return'; to wrap a hook, mark it @toolkit.hookimpl(wrapper=True).

# loss coroutine (exit code 2)
@hookimpl  # here
async def loss(outputs):
    return tf.reduce_mean(outputs['logits'])
Error: Hook 'loss' of plugin 'bad' ({here}) is asynchronous: its call runs nothing.
Write 'def' without 'async'.

# optimize tensor
@hookimpl  # here
def optimize(losses, run):
    run.minimize(losses)
    return losses
Error: Hook 'optimize' of plugin 'bad' returned a tensor float32 [], expected one tf.Operation
({here}).
Return what run.minimize returns, or a tf.group.

# predict no row for each example
@hookimpl  # here
def predict(outputs):
    return {'mean': tf.reduce_mean(outputs['logits'], 0)}
Error: Hook 'predict' of plugin 'bad' returned a tensor float32 [3] for 'mean', expected one row
for each example, [N, ...] ({here}).
Compute a value of each example; what is one number for a split is a metric.

# predict float label
@hookimpl  # here
def predict(outputs):
    return {'label': tf.reduce_max(outputs['logits'], 1)}
Error: Hook 'predict' of plugin 'bad' returned a tensor float32 [?] for 'label', expected the
predicted class as an integer ({here}).
Take tf.argmax(..., output_type=tf.int32), or give it another name.

# loss by the name of a field
@hookimpl  # here
def loss(outputs):
    return {'step': tf.reduce_mean(outputs['logits'])}
Error: Hook 'loss' of plugin 'bad' returned a tensor float32 [] for 'step', expected a name that is
no field of each record ({here}).
Give it another name.

# metrics tensor
@hookimpl  # here
def metrics(outputs):
    return {'mean': tf.reduce_mean(outputs['logits'])}
Error: Hook 'metrics' of plugin 'bad' returned a tensor float32 [] for 'mean', expected a pair
(value, update_op) ({here}).
Return what a function of tf.metrics returns, such as tf.metrics.mean(values).

# scorers series
@hookimpl  # here
def scorers(run):
    return __import__('pandas').Series([5])
Error: Hook 'scorers' of plugin 'bad' returned a Series, expected a list of scorers ({here}).
Return a list: [scorer].

# default_extensions text (exit code 2)
@hookimpl
def default_extensions():
    return 'ema'
Error: The hook 'default_extensions' of 'bad' returned 'ema', expected a list of texts.
Return references as of --with: ['ema'].

# default_extensions object (exit code 2)
@hookimpl
def default_extensions():
    return [None]
Error: The hook 'default_extensions' of 'bad' returned [None], expected a list of texts.
Return references as of --with: ['ema'].

# apply without a list
@hookimpl
def optimize(losses, run):
    return run.apply(run.gradients(losses))  # here
Error: run.apply takes a list of one or more updates (hook 'optimize' of plugin 'bad', {here}).
run.apply([run.gradients(loss, variables)])

# convert tensor
@hookimpl  # here
def convert(features, labels):
    return tf.zeros([6, 6, 1], name='unknown'), labels
Error: The hook 'convert' returned no example for example 0: 'unknown:0' is a tensor of a graph,
which has no value yet (hook 'convert' of plugin 'bad', {here}).
Compute it with NumPy, or in the graph, in the hook 'call'.

# filter all (exit code 4)
@hookimpl  # here
def filter(features):
    return False
Error: The hook 'filter' kept none of 16 examples (hook 'filter' of plugin 'bad', {here}).
Return True for the examples to keep.

# evaluated text
@hookimpl  # here
def evaluated(metrics):
    return 'good'
Error: Hook 'evaluated' of plugin 'bad' returned 'good', expected a dict or None ({here}).
Return a dict of JSON values by name, or None; write other results to 'folder'.

# evaluated metrics
@hookimpl  # here
def evaluated(metrics):
    return {'metrics': {'accuracy': 1.0}}
Error: Hook 'evaluated' of plugin 'bad' returned 'metrics', which the evaluation has itself
({here}).
Give it another name; the hook 'metrics' adds metrics.

# wrapper in model (exit code 2)
@hookimpl(wrapper=True)  # here
def predict(outputs):
    return (yield)
Error: Hook 'predict' of plugin 'bad' ({here}) wraps itself.
Remove wrapper=True.
"""
