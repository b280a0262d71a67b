"""Hooks that build a graph which cannot be built or run, or that end the process."""

FAULTS = r"""
# variable at import
VARIABLE = tf.get_variable('early', [3])
@hookimpl
def loss(outputs):
    return tf.reduce_mean(outputs['logits']) + tf.reduce_sum(VARIABLE)  # here
Error: Plugin 'bad' failed in its hook 'loss': ValueError: Tensor(... ({here}).
Create variables in 'build', and tensors in the hooks: each graph has its own.

# call numpy
@hookimpl  # here
def call(model, features):
    return {'logits': np.zeros([4, 3], 'float32')}
Error: Hook 'call' of plugin 'bad' returned an array float32 [4, 3] for 'logits', expected a
tensor ({here}).
Compute it from the hook's tensors with TensorFlow's functions, not with numpy's.

# loss constant
@hookimpl
def loss(outputs):
    return tf.constant(1.0)
Error: The loss depends on none of the variables to be trained (hook 'optimize' of plugin 'bad',
...good.py:...).
Compute it from the variables of 'build' with TensorFlow's functions: values of numpy,
integers and tf.stop_gradient have no gradient.

# optimize noop
@hookimpl  # here
def optimize(losses, run):
    return tf.no_op()
Error: The train op moved the global step to 0, expected 1 (hook 'optimize' of plugin 'bad',
{here}).
One step of 'optimize' advances run.global_step by exactly one.

# optimize dict losses
@hookimpl
def loss(outputs):
    return {'a': tf.reduce_mean(outputs['logits']), 'b': tf.reduce_mean(outputs['logits'])}
Error: Plugin 'bad' failed in its hook 'optimize': AttributeError: 'dict' object has no attribute
'dtype' (...good.py:...).
Give run.minimize one scalar: of several losses their sum, sum(losses.values()).

# variable in call
@hookimpl
def call(model, features):
    return {'logits': tf.layers.dense(tf.layers.flatten(features), 3)}  # here
Error: Hook 'call' of plugin 'bad' created the variable 'dense/kernel' ({here}).
Create it in 'build': build each layer there with its input shape, or take run.function.

# session in build
@hookimpl
def build(run):
    return tf.Session().run(tf.constant(1))  # here
Error: Plugin 'bad' failed in its hook 'build': GraphUnderConstructionError: The graph is still
being built; no session can run it ({here}).
Compute it with numpy, or in a tf.Graph() of its own; to see a value, return it from a
session hook's 'fetches'.

# numpy of tensor
@hookimpl
def loss(outputs):
    return np.mean(outputs['logits'])  # here
Error: Plugin 'bad' failed in its hook 'loss': NotImplementedError: Cannot convert a symbolic
...Tensor (MatMul:0) to a numpy array... ({here}).
A tensor has no value while the graph is built: use TensorFlow's functions, such as
tf.where, tf.cond and tf.map_fn.

# tensor bool
@hookimpl
def loss(outputs):
    mean = tf.reduce_mean(outputs['logits'])
    if mean > 0:  # here
        return mean
    return -mean
Error: Plugin 'bad' failed in its hook 'loss': OperatorNotAllowedInGraphError: ...sing a
...`tf.Tensor` as a Python `bool` is not allowed... ({here}).
A tensor has no value while the graph is built: use TensorFlow's functions, such as
tf.where, tf.cond and tf.map_fn.

# py func raises
def bomb(x):
    raise KeyError('mine')  # here
@hookimpl
def call(model, features):
    y = tf.py_func(bomb, [features], tf.float32)
    y.set_shape(features.shape)
    return {'logits': tf.matmul(tf.reshape(y, [-1, int(model.shape[0])]), model)}
Error: Step 1 failed: KeyError: 'mine' ({here}).
Run again with -v for the traceback.

# op fails in an evaluation
@hookimpl
def metrics(outputs):
    logits = outputs['logits']
    with tf.control_dependencies([tf.assert_less(logits, -9.0, message='large')]):  # here
        return {'mean': tf.metrics.mean(tf.identity(logits))}
Error: The model failed: assertion failed: [large] [Condition x < y did not hold element-wise:]
[x (MatMul:0) = ] [...] [y (assert_less/y:0) = ] [-9] ({here}).
Run again with -v for the traceback.

# exits call
import sys
@hookimpl
def call():
    sys.exit(0)  # here
Error: Plugin 'bad' failed in its hook 'call': it ended the process (0) ({here}).
A plugin does not end the process: raise a toolkit.ToolkitError.

# labels in a prediction of a run without evaluation (--no-evaluate)
@hookimpl
def call(model, features, labels):
    flat = tf.reshape(features, [-1, int(model.shape[0])])
    return {'logits': tf.matmul(flat, model) + 0 * tf.one_hot(labels, 3)}  # here
Error: Plugin 'bad' failed in its hook 'call': ValueError: ...None... ({here}).
'labels' is None in mode "predict": use them in 'loss' alone, or where run.mode is another.

# placeholder
@hookimpl
def loss(outputs):
    return tf.reduce_mean(outputs['logits']) * tf.placeholder(tf.float32, [])  # here
Error: Step 1 failed: You must feed a value for placeholder tensor ... ({here}).
The run feeds no placeholder of a plugin: take 'features' and 'labels'; for other inputs of
a prediction, name them in the hook 'inputs'.

# key of the outputs
@hookimpl
def loss(labels, outputs):
    return tf.reduce_mean(outputs['logit'])  # here
Error: Plugin 'bad' failed in its hook 'loss': KeyError: 'logit' ({here}).
Did you mean 'logits'? Here the outputs of 'call' are 'logits'.

# key of features that are one tensor
@hookimpl
def call(model, features):
    return {'logits': tf.matmul(features['image'], model)}  # here
Error: Plugin 'bad' failed in its hook 'call': TypeError: ... ({here}).
The features of this data are one tensor: write 'features' without a name.

# set option
@hookimpl
def optimize(losses, run):
    run.options.learning_rate = 0.5  # here
    return run.minimize(losses)
Error: Plugin 'bad' failed in its hook 'optimize': ... ({here}).
Options are read-only: a plugin sets its own defaults of the core's options in the
attribute 'core_defaults' of its options class.

# misspelt option
@hookimpl
def optimize(losses, run):
    run.log('rate', run.options.learning_rat)  # here
    return run.minimize(losses)
Error: Plugin 'bad' failed in its hook 'optimize': AttributeError: 'CoreOptions' object has no
attribute 'learning_rat' ({here}).
Did you mean 'learning_rate'? A plugin declares its options in a class that its hook
'options' returns.
"""
