"""The hooks of a plugin: when each is called, with which arguments, and what it returns.

Hooks named by a verb return something; hooks named by a participle are notifications. An
implementation is a function marked with `hookimpl`. It takes any of its hook's arguments, by name,
and omits those that it does not use. It gives none of them a default value.

These arguments mean the same in every hook:

    run        the `toolkit.Run`: options, seed, data description, random numbers, logging
    model      what `build` returned
    features   the batch that the model is fed: a tensor [N, ...], or a dict of tensors by name
    labels     likewise, or None if the data has no labels
    outputs    what `call` returned
    losses     what `loss` returned

Features and labels are what the data has. One array of features, with one class for each example
as label, is the plain case: features float32 [N, ...], labels int32 [N] in [0, K). Where the data
has names, as in `toolkit.Split({"photo": images, "weight": numbers}, labels)`, features, labels or
both are a dict in every hook. The dtype of a tensor follows from the kind of its component:

    image   float32 [N, H, W, C] in [0, 1]; stored as uint8, or as float32 with any range
    class   int32 [N, ...] in [0, K): one class for each example, or for each of its pixels
    value   as stored: float32, int32, int64 or bool [N, ...]
    text    string [N, ...], in UTF-8

A sequence is a component whose first size differs between examples. It has a name, comes padded,
[N, L, ...], and its lengths come with it: the feature "words" with "words_length", int32 [N]. L is
the length of the longest sequence of the batch; under XLA it is the same for all batches.

An extension wraps a model hook with a generator that is marked `@hookimpl(wrapper=True)`. Its
`yield` calls what it wraps and has the result; it returns that result or another one:

    @hookimpl(wrapper=True)
    def loss(run):
        result = yield
        return result + penalty(run)

It may yield a dict of arguments that replace those for what it wraps, as in `outputs = yield
{"features": noisy_features}`; they hold for this hook alone. In `call`, `loss` and `predict` each
further `yield` calls what is wrapped once more. The wrapper of an extension that is named later is
outside of those named earlier, and a run prints the order.

`run.data`, a `toolkit.DataSpec`, describes the components: `run.data.features` and
`run.data.labels` are a record with `shape`, `dtype`, `kind` and `num_classes`, or a dict of such
records by name. docs/data.md has a table, and samples/plugins a plugin for each case.

Legend: N examples in a batch, ... the shape of one example (`run.data.shape` if there are no
names), K classes (`run.data.num_classes`), L the padded length, E length of an embedding.
"""

from __future__ import annotations

import inspect
from typing import Any, Callable, Dict, Optional

import pluggy

PROJECT = "toolkit"
MODEL_HOOKS = ("build", "call", "loss", "optimize", "predict")
HOOK_FUNCTIONS = "__toolkit_hooks__"  # in a module's namespace: function name -> function

hookspec = pluggy.HookspecMarker(PROJECT)
_mark = pluggy.HookimplMarker(PROJECT)


def hookimpl(function: Optional[Callable] = None, **marks: Any) -> Any:
    """Mark a function as the implementation of the hook of its name.

    A function of a module is also recorded in the module. It therefore remains the hook when a
    submodule of the same name is imported: importing `my_plugin.metrics` replaces the attribute
    `metrics` of `my_plugin`, but not the hook. Import from such a submodule by its full name
    (`from my_plugin.metrics import accuracy`) or through `toolkit.LazyModules`; `from my_plugin
    import metrics` may return the hook.

    Args:
        function: the function; omitted where the marker is used as `@hookimpl(...)`.
        marks: `wrapper`, `optionalhook`, `tryfirst`, `trylast`, `specname`, as in pluggy.
    """
    if function is None:
        return lambda target: hookimpl(target, **marks)
    _mark(function, **marks)
    definition = inspect.unwrap(function)
    if "." not in getattr(definition, "__qualname__", "."):
        namespace = getattr(definition, "__globals__", {})
        namespace.setdefault(HOOK_FUNCTIONS, {})[definition.__name__] = function
    return function


def hook_functions(module: Any) -> Dict[str, Callable]:
    """The functions of a module that `hookimpl` marked, by name; {} for any other object."""
    return dict(getattr(module, HOOK_FUNCTIONS, {})) if inspect.ismodule(module) else {}


# -------------------------------------------------------------------------------- options and data


@hookspec
def options():
    """Called first, before TensorFlow is imported.

    Returns:
        A class derived from `toolkit.Options`. Its fields, declared with `toolkit.option`, are the
        plugin's options; each is also a flag of `toolkit run`.
    """


@hookspec(firstresult=True)
def default_extensions():
    """Called when the plugin is loaded as a run's model plugin.

    Returns:
        A list of references of extensions, as of `--with`, that all of its runs have. A run does
        not record them as named; it has them because of the plugin.
    """


@hookspec(firstresult=True)
def data(split, run):
    """Called when the data is opened, once for each split, for a plugin with data of its own.

    `toolkit.Split(features, labels)` takes an array [M, ...] for each, a dict of them by name, or
    None for no labels:

        Split(images)                                  uint8 [M, H, W, C]: images
        Split(rows, prices)                            float32 [M, F] and [M]: values
        Split(images, masks)                           integers [M, H, W]: a class for each pixel
        Split({"left": images, "right": others}, same) two inputs
        Split({"words": list_of_arrays}, labels)       a sequence: lengths differ

    In the place of an array, `toolkit.Column(values, kind, num_classes, class_names, padding)`
    says what does not follow from the values. `values` may also be a memory map or a list, or
    `toolkit.Decoded`, whose examples are decoded when they are read.

    `toolkit.read_dataset(make_dataset, count)` makes a split of a `tf.data.Dataset`: training reads
    the data set, everything else its first examples. Such a run gives up exact resume, and says so.

    The content is hashed, and compared when a run is resumed. Options that shape the data of a
    source, such as `--data` or `--validation-share`, are refused if the user sets them and this
    hook does not read them.

    Args:
        split: "train", "validation" or "test".
        run: its `run.data` is still None.

    Returns:
        A `toolkit.Split`, or None. If all three are None, the run reads what `--data` names.
    """


@hookspec(firstresult=True)
def filter(features, labels):
    """Called for each example in plain Python, before `convert` and batching.

    Args:
        features: one example as it is stored, a numpy array or a dict of them; images uint8
            [H, W, C], sequences in their own length, text as bytes.
        labels: the class of the example, int in [0, K); other labels as an array or a dict of
            arrays; None without labels.

    Returns:
        True to keep the example, False to leave it out.
    """


@hookspec(firstresult=True)
def convert(features, labels):
    """Called in plain Python for each example that `filter` keeps.

    Args:
        features: one example, as in `filter`.
        labels: likewise.

    Returns:
        The pair `(features, labels)` to train on, each an array or a dict of them; labels may be
        None. All examples must get the same names, shapes and dtypes; only a component that is
        stored as a sequence under the same name may vary in its first size. What was declared of a
        component, such as its classes, holds for what is returned under its name.
    """


# --------------------------------------------------------------------------------------- the model


@hookspec(firstresult=True)
def inputs(run):
    """Called before `build` in mode "predict", to let the model be fed other arrays than examples.

    Args:
        run: its mode is "predict".

    Returns:
        A dict from a name to a pair `(dtype, shape of one row)`, for instance
        `{"code": ("float32", [8])}`, or None to be fed examples. After a dict, `call` and `predict`
        get a dict of tensors [N, ...] with these names as `features`, and None as `labels`, in mode
        "predict". In the modes "train" and "eval" they still get examples: let `call` look at
        `run.mode`. Features that have names need no such hook.
    """


@hookspec(firstresult=True)
def build(run):
    """Called once per graph, before the other hooks of the model. Create every variable here.

    Args:
        run: `run.data` describes features and labels, `run.initializer` gives initial values.
            Refuse data that the model does not fit here, with a `toolkit.DataError`.

    Returns:
        The model: any object that holds the layers.
    """


@hookspec
def augment(features, labels, run):
    """Called in mode "train" on every batch, before `call`: the model plugin's function first, then
    those of the extensions in the order in which they are named. Each gets what the one before
    returned. It may be called inside a loop of the graph. Create no variable here.

    Draw random numbers with `run.uniform` and `run.normal`.

    Args:
        features: as in `call`.
        labels: as in `call`.
        run: its mode is "train".

    Returns:
        The pair `(features, labels)` that all other hooks of the step get, with the same names,
        shapes and dtypes unless the model takes others.
    """


@hookspec(firstresult=True)
def call(model, features, labels, run):
    """Called after `build`, in each mode, any number of times, also inside a loop of the graph.
    Create no variable here.

    Args:
        model: what `build` returned.
        features: a tensor [N, ...] or a dict of them, see above; images float32 in [0, 1]. With the
            hook `inputs`, the dict that it describes in mode "predict", and examples in the others.
        labels: likewise; None without labels and in mode "predict".
        run: `run.mode` is "train", "eval" or "predict".

    Returns:
        A dict of output tensors by name, each [N, ...].
    """


@hookspec(firstresult=True)
def loss(model, features, labels, outputs, run):
    """Called after `call` in the modes "train" and "eval".

    Args:
        model: what `build` returned.
        features: as in `call`.
        labels: as in `call`.
        outputs: what `call` returned.
        run: `run.log` adds scalars to the metrics of the training.

    Returns:
        A float32 scalar to minimize, or an ordered dict of such scalars by name.
    """


@hookspec(firstresult=True)
def optimize(model, features, labels, losses, run):
    """Called after `loss` in mode "train". Create no variable here but an optimizer's slots.

    Args:
        model: what `build` returned.
        features: as in `call`.
        labels: as in `call`.
        losses: what `loss` returned.
        run: `run.minimize` and `run.apply` make guarded updates.

    Returns:
        One `tf.Operation` that is a whole training step and ends by adding 1 to `run.global_step`;
        `run.minimize(losses)` returns such an operation.
    """


@hookspec(firstresult=True)
def predict(model, features, outputs, run):
    """Called after `call` in the modes "predict" and "eval", and for an export.

    Args:
        model: what `build` returned.
        features: as in `call`: with the hook `inputs`, the dict that it describes in mode
            "predict", and examples in mode "eval".
        outputs: what `call` returned.
        run: `run.mode` is "predict" or "eval".

    Returns:
        A dict of tensors [N, ...] by name; each is a column of the predictions and an output of the
        export. Three names have a meaning: "label" is the predicted class, an integer [N];
        "probabilities" are those of all classes, float32 [N, K], of which commands print the best
        by the names of the classes; "features" is the embedding of each example, float32 [N, E],
        which commands print on request.
    """


@hookspec(firstresult=True)
def sample_options():
    """Called by `toolkit sample` before the flags are parsed.

    Returns:
        A class derived from `toolkit.SampleOptions`. Its fields, declared with `toolkit.option`,
        are flags of `toolkit sample` for this model's runs, and settings of `Trained.sample`.
    """


@hookspec(firstresult=True)
def sample(request, run):
    """Called by `toolkit sample` and by `Trained.sample`, to draw samples from a trained model.

    A model that turns noise into images draws its noise here, part by part, and is fed it by the
    name that its hook `inputs` declares:

        for part in request.parts():
            yield {"images": part.predict({"noise": part.normal("noise", [28, 28, 1])})["image"]}

    Sample i is then the same for any number of samples: it follows from the seed, the name "noise"
    and its place. A model that is fed examples, such as an autoencoder, is given values for a
    tensor that `call` returned instead: `part.predict({"code": part.normal("code", [8])})` sets
    `outputs["code"]`. What `call` draws by `run.normal` follows from seed and place as well.

    Args:
        request: a `toolkit.SampleRequest`: how many samples, which seed and classes, the settings
            of `sample_options`; it draws numbers and predicts.
        run: the `toolkit.Run` of the graph that predicts; its mode is "predict".

    Returns:
        An iterable of dicts of arrays [n, ...] by name, for one sample after the other. "images",
        uint8 or float in [0, 1] [n, H, W, C], can be written as PNGs, all arrays to a .npz file;
        "label", int [n], is the class of each sample.
    """


# ---------------------------------------------------------------------------- metrics and training


@hookspec
def metrics(model, features, labels, outputs, run):
    """Called after `call` in mode "eval".

    Args:
        model: what `build` returned.
        features: as in `call`.
        labels: as in `call`.
        outputs: what `call` returned.
        run: its mode is "eval".

    Returns:
        A dict from a name to a pair `(value, update_op)`, as the functions of `tf.metrics` return.
        The updates run on every batch of the split, including a smaller last one.
    """


@hookspec
def example_metrics(model, features, labels, outputs, run):
    """Called after `metrics` in mode "eval", for metrics that are means over the examples.

    A metric of which the values of the examples are known gets an interval in evaluations with
    reports, and two runs are compared by it example by example:

        return {"accuracy": tf.equal(outputs["label"], labels), "error": tf.abs(difference)}

    The metric is the mean over the split, in float64. Where `metrics` has the same name, its value
    holds, and only the interval comes from here.

    Args:
        model: what `build` returned.
        features: as in `call`.
        labels: as in `call`.
        outputs: what `call` returned.
        run: its mode is "eval".

    Returns:
        A dict from the name of a metric to a tensor [N], the value of each example: bool for a
        share, such as whether a prediction is right, else a number. nan for an example without a
        value makes the metric nan.
    """


@hookspec
def scorers(run, splits):
    """Called once when an evaluation is set up. The folder of a new run does not exist yet.

    Args:
        run: its mode is "eval".
        splits: a function; `splits(name)` returns the `toolkit.Split` of that name after `filter`
            and `convert`, or None. It is of the run's own data, even if a scorer is then called
            with a split of other data (`toolkit evaluate --data`).

    Returns:
        A list of `toolkit.Scorer`s, which compute metrics of a whole split that are not means over
        its examples. They are closed together with the evaluation.
    """


@hookspec
def metric_directions(run):
    """Called before a training that chooses its best checkpoint by a metric.

    Args:
        run: its mode is "eval".

    Returns:
        A dict from the name of a metric to "min" if lower values are better, or "max". Metrics of
        `metrics` and losses of `loss` belong here; a scorer declares its own. A name without a
        direction, as a loss of two players, chooses the best checkpoint only as min:NAME or
        max:NAME. A model's only loss is "min" unless this hook says otherwise.
    """


@hookspec
def session_hooks(model, features, labels, outputs, losses, run, splits):
    """Called before the `tf.Session` of the training is created. Create ops here or in the
    session hooks' `begin`, never later.

    A `toolkit.SessionHook` declares the steps on which it is due. Any other session hook is called
    on every step, which costs speed. Values that a `toolkit.SessionHook` carries from step to step
    belong in its `state` and `set_state`; a resumed run then records what an uninterrupted one
    would have recorded.

    Args:
        model: what `build` returned.
        features: the batch of the training step, as in `call`. It can be fetched, as can
            `labels`, `outputs`, `losses` and the values of `run.logged`. Other tensors that
            `call`, `loss` or `optimize` create are inside a loop and cannot.
        labels: as in `call`.
        outputs: what `call` returned.
        losses: what `loss` returned.
        run: its mode is "train".
        splits: a function; `splits(name)` returns the `toolkit.Split` of that name after `filter`
            and `convert`, or None.

    Returns:
        A list of `tf.train.SessionRunHook`s, [] for none.
    """


# ----------------------------------------------------------------------------------- notifications


@hookspec
def checkpoint_saved(run, step, path):
    """Called after the checkpoint of a step was committed, that is, recorded as complete.

    Args:
        run: its mode is "train".
        step: the step of the checkpoint, an int.
        path: the prefix of the checkpoint's files, as `tf.train.Saver.restore` takes it.
    """


@hookspec
def evaluated(run, split, step, metrics, examples, folder):
    """Called after a whole split was evaluated, at the end of a run or by `toolkit evaluate`.

    Args:
        run: its mode is "eval".
        split: the name of the split.
        step: the step of the checkpoint, an int.
        metrics: a dict from the name of a metric to a float.
        examples: a dict of arrays [N, ...] over the whole split, in its order: "features" and
            "labels" as the model was fed them, each a dict of arrays if they have names, and each
            other tensor of `predict` by its name. Features are read when they are indexed: take
            those that the report shows. They are read-only; what an index returns is a copy, which
            may be changed. Sequences are padded to the longest of the split.
        folder: an empty folder for reports; its files are kept if the evaluation succeeds.

    Returns:
        None, or a dict of JSON values to add to the result of the evaluation, by names that it does
        not have: no "metrics". "page" among them is shown on the page of the run: a headline,
        pictures, tables, charts (docs/plugins/pages.md).
    """


@hookspec
def run_finished(run, summary):
    """Called once when a training has ended without an error, also when it was paused.

    Args:
        run: its mode is "train".
        summary: the dict that `toolkit run --json` prints.
    """


@hookspec
def run_ended(run, status, reason):
    """Called once at the very end of a training, also when it failed: the page of the run is
    written, and so is the manifest. The page is written again after it, so that pictures which the
    hook adds to the folder are on it. It is not called if the process was killed, or if the run did
    not begin.

    Args:
        run: its mode is "train".
        status: "finished", "stopped" (a resume continues), "interrupted" (by a signal, likewise),
            "diverged", "failed", or "trained" if the test failed after the training.
        reason: why, in words.
    """
