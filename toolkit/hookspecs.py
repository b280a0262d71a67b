"""The hooks of a plugin: when each is called, with what, and what it returns.

A verb asks, a past participle tells. An implementation takes any of its hook's arguments, by name,
and leaves out those that it does not use; it gives none a default.

Legend: N examples of a batch, ... the shape of one example (`run.data.shape`), K classes.
`features`: float32 [N, ...]; images are in [0, 1], `[N, H, W, C]`. `labels`: int32 [N] in [0, K),
or None where the data has no labels. `run`: what the run tells and offers its plugins, see
`toolkit.Run`.
"""

from __future__ import annotations

import pluggy

PROJECT = "toolkit"
MODEL_HOOKS = ("build", "call", "loss", "optimize", "predict")

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def options():
    """Called first, before TensorFlow is imported. Return a class derived from `toolkit.Options`
    whose fields, made with `toolkit.option`, are this plugin's options; each is also a flag of
    `toolkit run`.
    """


@hookspec(firstresult=True)
def data(split, run):
    """Called for `split` "train", "validation" and "test" when the input is made. Return a
    `toolkit.Split`, or None to read what `--data` names. `run.data` is not yet known.
    """


@hookspec(firstresult=True)
def filter(features, labels):
    """Called per example in plain Python, before `convert` and batching. `features`: a numpy array
    of one example as stored (uint8 [H, W, C] for images); `labels`: an int, or None. Return True
    to keep it.
    """


@hookspec(firstresult=True)
def convert(features, labels):
    """Called per kept example in plain Python. Arguments as for `filter`. Return the pair
    `(features, labels)` to train on; every example must come out with one shape and dtype.
    """


@hookspec(firstresult=True)
def build(run):
    """Called once per graph. Create every variable here and return the model: any object that holds
    the layers. Shapes come from `run.data`, initial values from `run.initializer`.
    """


@hookspec(firstresult=True)
def call(model, features, labels, run):
    """Called after `build`, in each mode, any number of times, also inside a loop of the graph.
    Create no variable. Return a dict of output tensors, batch first.
    """


@hookspec(firstresult=True)
def loss(model, features, labels, outputs, run):
    """Called after `call` when training or evaluating. Return a float32 scalar to minimise, or an
    ordered dict of named scalars. `outputs`: what `call` returned.
    """


@hookspec(firstresult=True)
def optimize(model, features, labels, losses, run):
    """Called after `loss` when training. Return one op that is a whole step, with
    `run.global_step` advanced by one at its end; `run.minimize` makes such an op. `losses`: what
    `loss` returned. Create no variable besides an optimizer's slots.
    """


@hookspec(firstresult=True)
def inputs(run):
    """Called in mode "predict", before `build`, where the model is to be fed something else than
    examples of the data. Return a dict from a name to a pair `(dtype, shape of one)`, as
    `("float32", [8])`; `call` and `predict` then get a dict of tensors [N, ...] of these names for
    `features`, and None for `labels`. Return None to be fed examples.
    """


@hookspec(firstresult=True)
def predict(model, features, outputs, run):
    """Called after `call` when predicting, evaluating and exporting; there are no labels. Return a
    dict of tensors, batch first; each is one column of a prediction and one output of an export.
    `label` (integer [N]) is taken for a class, `features` (float32 [N, F]) is shown on request.
    """


@hookspec
def metrics(model, features, labels, outputs, run):
    """Called after `call` when evaluating. Return a dict from a name to a pair `(value,
    update_op)`, as `tf.metrics` makes them: streamed over the whole split, a partial last batch
    included.
    """


@hookspec
def scorers(run, splits):
    """Called once when an evaluation is prepared. `splits(name)`: the `toolkit.Split` of that name
    as the model sees it (after `filter` and `convert`), or None. Return a list of
    `toolkit.Scorer`s: measures of a whole split that are no mean over its examples. They are
    closed with the evaluation. The folder of a new run is not there yet.
    """


@hookspec
def session_hooks(model, features, labels, outputs, losses, run, splits):
    """Called before the training session is made. `features`, `labels`, `outputs`, `losses`: the
    tensors of the training step, for hooks that fetch them, as is what `run.logged` has; others
    that `call`, `loss` or `optimize` made are within a loop, out of reach. `splits(name)`: a
    `toolkit.Split` of examples as the model sees them, or None. Return a list of
    `tf.train.SessionRunHook`s. A `toolkit.Hook` says on which steps it is due; any other is called
    on every step, at the price of Python in every step. Ops are made here or in `begin`, never
    later. What a `toolkit.Hook` remembers from step to step it hands over in `state` and takes back
    in `set_state`, so that a run that resumes records what it would have recorded.
    """


@hookspec
def checkpoint_saved(run, step, path):
    """Told when the checkpoint of `step` is committed. `path`: its prefix, for a Saver."""


@hookspec
def evaluated(run, split, step, metrics, examples, folder):
    """Told after a whole split was evaluated at the end of a run or by `toolkit evaluate`.
    `metrics`: name to float. `examples`: a dict of numpy arrays, batch first, in the split's
    order: each tensor of `predict`, and `features` and `labels` as the model saw them. `folder`:
    an existing folder for reports. Return None, or a dict of JSON values to add to the result
    under the plugin's name.
    """


@hookspec
def run_finished(run, summary):
    """Told once, when training has ended well. `summary`: the object that `run --json` prints."""
