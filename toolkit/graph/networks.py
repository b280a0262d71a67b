"""`Run.function` and `Run.keras`: networks whose variables are created in `build`, and which are
applied in any other hook.

A network is first applied to placeholders, in `build`. What that pass computes is not used, and
what it adds to TensorFlow's collections is removed, except for variables and the losses of their
regularizers. Later passes use the same variables, whatever created them: `tf.get_variable`,
`tf.layers`, `tf.Variable` or Keras layers.
"""

from __future__ import annotations

import contextlib
import inspect
import warnings
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Set, Tuple

from ..compat import tf, variable_scope_store
from ..data.readers.batches import convert_stored
from ..data.structure import FEATURES, LABELS, pack_role
from ..errors import ToolkitError
from .ops import state_updates, upstream

# Collections of tensors that only a pass over examples may add to.
_OF_A_PASS = (tf.GraphKeys.SUMMARIES, tf.GraphKeys.UPDATE_OPS, tf.GraphKeys.LOSSES)
_REGULARIZATION = tf.GraphKeys.REGULARIZATION_LOSSES
_DRAWS = {"RandomUniform": "uniform", "RandomStandardNormal": "normal"}
_TRAINING = ("training", "is_training", "train", "is_train", "phase_train")
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_SHARED = ("VarHandleOp", "Placeholder", "PlaceholderWithDefault")  # not copied


class Network:
    """The base class of `Function` and `KerasModel`, of a run. `name` is as given, for messages and
    draws, with a number if another network has the same; `variables` are those that the pass in
    `build` created, in that order.
    """

    def __init__(self, run: Any, name: str):
        self._run, self._builder = run, run._builder
        self.name = self._builder.networks.add(self, name)
        self.variables: List[Any] = []
        self._creations: List[Tuple[str, Any]] = []  # the name given to TensorFlow, the variable
        self._weight_losses: List[Any] = []
        self._num_passes = 0
        self._pass_losses: List[Any] = []
        self._scope = tf.get_variable_scope()
        self._scope_counts = dict(variable_scope_store().variable_scopes_count)

    @property
    def trainable_variables(self) -> List[Any]:
        """The variables that training changes, as `variables` of `Run.minimize`."""
        names = {variable.op.name for variable in tf.trainable_variables()}
        return [variable for variable in self.variables if variable.op.name in names]

    def losses(self) -> List[Any]:
        """The losses of regularizers, float32 scalars: of the variables, and of the outputs of the
        passes since the step began. Add `sum(net.losses())` to what the hook `loss` returns.
        """
        return self._builder.networks.renewed(self._weight_losses) + self._pass_losses

    @property
    def num_unread_losses(self) -> int:
        """How many losses of a Keras model nothing in the step read."""
        return 0

    def begin_step(self) -> None:
        """Forget the passes of the step before."""
        self._num_passes, self._pass_losses = 0, []

    # ------------------------------------------------------------------------- for derived classes

    def _build(self, apply: Callable[[], Any], inputs: Any) -> None:
        """Create the variables by a pass whose results are not used."""
        graph = tf.get_default_graph()
        before = {key: graph.get_collection(key) for key in graph.get_all_collection_keys()}
        num_ops = len(graph.get_operations())

        def create(next_creator, **kwargs):
            """Record what is created, under its name outside of the scope of the pass."""
            present = (tf.get_default_graph().get_name_scope() or "") + "/"
            context: Any = contextlib.nullcontext()
            if present.startswith(scope):
                context = tf.name_scope(present[len(scope) :] or None)
            with context:
                variable = next_creator(**kwargs)
            self._creations.append((str(kwargs.get("name")), variable))
            return variable

        with tf.name_scope(f"{self.name}_in_build") as scope, tf.variable_creator_scope(create):
            apply()
        fed = {x.name for x in tf.nest.flatten(inputs) if isinstance(x, tf.Tensor)}
        of_pass: Set[tf.Operation] = set()  # what needs one of the inputs
        for op in graph.get_operations()[num_ops:]:
            if any(tensor.name in fed or tensor.op in of_pass for tensor in op.inputs):
                of_pass.add(op)
        for key in graph.get_all_collection_keys():
            collection = graph.get_collection_ref(key)
            collection[:] = [
                item
                for item in collection
                if _is_among(item, before.get(key, []))
                or not isinstance(item, (tf.Tensor, tf.Operation))
                or not (key in _OF_A_PASS or getattr(item, "op", item) in of_pass)
            ]
        losses, earlier = tf.get_collection(_REGULARIZATION), before.get(_REGULARIZATION, [])
        self._weight_losses = [loss for loss in losses if not _is_among(loss, earlier)]
        self.variables = [variable for _, variable in self._creations]

    def _apply(self, apply: Callable[[], Any]) -> Any:
        """What `apply()` returns, computed with the variables of `_build`."""
        graph = tf.get_default_graph()
        num_ops = len(graph.get_operations())
        trainable = {variable.op.name for variable in tf.trainable_variables()}
        updates = tf.get_collection_ref(tf.GraphKeys.UPDATE_OPS)
        num_updates, num_losses = len(updates), len(tf.get_collection(_REGULARIZATION))
        with self._reuse():
            outputs = apply()
        for variable in tf.trainable_variables():
            if variable.op.name not in trainable:
                raise ToolkitError(
                    f"'{self.name}' created the variable '{variable.op.name}' when it was applied, "
                    "but not in 'build'.",
                    hint="Let it create the same variables, whatever its arguments are.",
                )
        ops = graph.get_operations()[num_ops:]
        self._replace_draws(ops)
        # The run itself takes them behind its guard; whoever ran them once more would move the
        # averages of batch norm twice.
        del updates[num_updates:]
        self._builder.add_network_updates(state_updates(ops))
        self._pass_losses += tf.get_collection(_REGULARIZATION)[num_losses:]
        self._num_passes += 1
        return outputs

    def _replace_draws(self, ops: Sequence[tf.Operation]) -> None:
        """Give the consumers of stateful draws, such as those of dropout layers, draws of the run.

        A stateful op's stream starts again in the next session. Ops within a loop or a condition
        of their own stay: a draw of the run would be the same in each iteration.
        """
        context = tf.get_default_graph()._get_control_flow_context()
        for number, op in enumerate([op for op in ops if op.type in _DRAWS]):
            old = op.outputs[0]
            if op._get_control_flow_context() is not context or not old.consumers():
                continue
            name = f"draw/{self.name}/{self._num_passes}/{number}"
            draw = tf.cast(getattr(self._run, _DRAWS[op.type])(name, op.inputs[0]), old.dtype)
            draw.set_shape(old.shape)
            for consumer in old.consumers():
                for index, tensor in enumerate(consumer.inputs):
                    if tensor is old or tensor.name == old.name:
                        consumer._update_input(index, draw)

    @contextlib.contextmanager
    def _reuse(self) -> Iterator[None]:
        """Within the block, a pass gets the recorded variables where it would create its own."""
        pending: Dict[str, List[Any]] = {}
        for name, variable in self._creations:
            pending.setdefault(name, []).append(variable)

        def create(next_creator, **kwargs):
            variables = pending.get(str(kwargs.get("name")))
            return variables.pop(0) if variables else next_creator(**kwargs)

        store = variable_scope_store()
        counts, store.variable_scopes_count = store.variable_scopes_count, dict(self._scope_counts)
        scope = tf.variable_scope(self._scope, reuse=tf.AUTO_REUSE, auxiliary_name_scope=False)
        try:
            with tf.variable_creator_scope(create), scope:
                yield
        finally:
            store.variable_scopes_count = counts


def example_placeholders(run: Any, role: str) -> Tuple[Dict[str, Any], Any]:
    """Placeholders of the features or labels of a run: flat key -> [N, ...] as they are stored; and
    what hooks get of them, None without.
    """
    flat, converted = {}, {}
    for key, component in run.data.flat.items():
        if key.partition("/")[0] == role:
            flat[key] = tf.placeholder(component.dtype, [None, *component.shape], key)
            # What is fed cannot be fetched, so each is a new tensor.
            converted[key] = tf.identity(convert_stored(flat[key], component.kind))
    return flat, pack_role(converted, role)


def _is_among(item: Any, items: Sequence[Any]) -> bool:
    return any(item is other for other in items)  # `==` of tensors may be an op


# ---------------------------------------------------------------------------------------- functions


class Function(Network):
    """A function applied with the same variables each time; see `Run.function`, whose arguments
    these are.
    """

    def __init__(
        self,
        run: Any,
        fn: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        inputs: Any = None,
    ):
        if hasattr(type(fn), "add_weight"):
            raise ToolkitError(
                f"run.function takes a function, and '{getattr(fn, 'name', fn)}' is a Keras model.",
                hint="Use run.keras(model).",
            )
        if not callable(fn):
            raise ToolkitError(
                f"run.function takes a function, not {fn!r}.",
                hint="Leave out the parentheses: run.function(network).",
            )
        named = getattr(fn, "func", fn)  # of a functools.partial
        name = getattr(named, "__name__", type(named).__name__)
        super().__init__(run, name.strip("_") if name.isidentifier() else "function")
        self._fn = fn
        try:
            self._signature = inspect.signature(fn)
        except (TypeError, ValueError):  # Python knows none
            self._signature = inspect.signature(lambda *args, **kwargs: None)
        parameters = self._signature.parameters.values()
        names = [parameter.name for parameter in parameters if parameter.kind in _POSITIONAL]
        examples = example_placeholders(run, FEATURES)[1] if inputs is None else inputs
        if inputs is None and isinstance(examples, dict) and set(examples) <= set(names):
            first = dict(examples)
        else:
            first = self._bind(examples if isinstance(examples, tuple) else (examples,), {})
        names = names[len(first) :]
        if len(args) > len(names):
            raise ToolkitError(f"'{self.name}' takes fewer arguments than run.function has for it.")
        known = {**dict.fromkeys(_TRAINING, run.mode == "train"), "run": run}
        known = {p.name: known[p.name] for p in parameters if p.name in known}
        self._defaults = {**known, **self._bind((), kwargs), **dict(zip(names, args))}
        arguments = {**self._defaults, **first}
        missing = [p.name for p in parameters if p.default is p.empty and p.kind in _POSITIONAL]
        missing = [each for each in missing if each not in arguments]
        if LABELS in missing:
            missing.remove(LABELS)
            has_labels = run.mode != "predict"
            arguments[LABELS] = example_placeholders(run, LABELS)[1] if has_labels else None
        if missing:
            raise ToolkitError(
                f"run.function does not know the arguments {', '.join(missing)} of '{self.name}'.",
                hint=f"Name each where the function is built: run.function({self.name}, "
                f"{missing[0]}=...).",
            )
        self._build(lambda: self._call(arguments), examples)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the function returns for these arguments, with the same variables each time.

        Arguments that are left out are those of `Run.function`.
        """
        return self._apply(lambda: self._call({**self._defaults, **self._bind(args, kwargs)}))

    def _bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Dict[str, Any]:
        """Name of a parameter -> argument."""
        try:
            return dict(self._signature.bind_partial(*args, **kwargs).arguments)
        except TypeError as error:
            raise ToolkitError(f"'{self.name}' {error}.") from None

    def _call(self, arguments: Mapping[str, Any]) -> Any:
        bound = self._signature.bind_partial()
        bound.arguments.update(arguments)
        return self._fn(*bound.args, **bound.kwargs)


# ------------------------------------------------------------------------------- models of tf.keras


class KerasModel(Network):
    """A Keras model applied as it is; see `Run.keras`, whose arguments these are."""

    def __init__(self, run: Any, model: Any, inputs: Any = None):
        if not isinstance(model, tf.keras.layers.Layer):
            if any(base.__module__.split(".")[0] == "keras" for base in type(model).__mro__):
                raise ToolkitError(
                    f"'{getattr(model, 'name', model)}' is a model of Keras 3, which has no "
                    "graphs.",
                    hint="Make it of tf.keras, with 'from toolkit import tf'.",
                )
            raise ToolkitError(
                f"run.keras takes a model or layer of tf.keras, not {model!r}.",
                hint="Use run.function for a function." if callable(model) else "",
            )
        super().__init__(run, model.name)
        self.model, self._are_losses_read = model, False
        self._takes_training = "training" in inspect.signature(model.call).parameters
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # deprecated where nothing else does it in a graph
            # For layers that get no `training`.
            tf.keras.backend.set_learning_phase(int(run.mode == "train"))
        if not model.built:
            examples = example_placeholders(run, FEATURES)[1] if inputs is None else inputs
            self._build(lambda: self._call(examples, run.mode == "train", {}), examples)
        graph = tf.get_default_graph()
        if any(variable.graph is not graph for variable in model.weights):
            raise ToolkitError(
                f"The Keras model '{model.name}' was created outside of the hook 'build'.",
                hint="Create it in 'build', which is called once for each graph.",
            )
        # Variables of layers with `trainable = False` are not those that training changes.
        trained = {variable.op.name for variable in model.trainable_weights}
        frozen = {variable.op.name for variable in model.weights} - trained
        collection = tf.get_collection_ref(tf.GraphKeys.TRAINABLE_VARIABLES)
        collection[:] = [variable for variable in collection if variable.op.name not in frozen]
        self.variables = list(model.weights)
        if getattr(model, "optimizer", None) is not None:
            self._builder.notes.append(
                f"the optimizer, losses and metrics of '{model.name}.compile' have no effect; the "
                "hooks 'loss', 'optimize' and 'metrics' say them."
            )

    def __call__(self, inputs: Any, training: Optional[bool] = None, **kwargs: Any) -> Any:
        """The model's outputs for a tensor or a structure of tensors, as the model takes them; of a
        dict, a functional model gets each input by the name of its `tf.keras.Input`. `training`
        says whether dropout and the like are active; None: in the mode "train".
        """
        training = self._run.mode == "train" if training is None else training
        before = [list(layer._losses) for layer in self._layers()]
        outputs = self._apply(lambda: self._call(inputs, training, kwargs))
        for layer, losses in zip(self._layers(), before):
            self._pass_losses += [loss for loss in layer._losses if not _is_among(loss, losses)]
        return outputs

    @property
    def num_unread_losses(self) -> int:
        of_weights = sum(len(layer._callable_losses) for layer in self._layers())
        return 0 if self._are_losses_read else of_weights + len(self._pass_losses)

    def begin_step(self) -> None:
        super().begin_step()
        self._are_losses_read = False

    def losses(self) -> List[Any]:  # those of variables are computed in the present step
        self._are_losses_read = True
        functions = [function for layer in self._layers() for function in layer._callable_losses]
        values = [function() for function in functions]
        return [value for value in values if value is not None] + self._pass_losses

    def _call(self, inputs: Any, training: Any, kwargs: Any) -> Any:
        if self._takes_training:
            kwargs = dict(kwargs, training=training)
        names = getattr(self.model, "input_names", None)
        if isinstance(inputs, dict) and names and getattr(self.model, "inputs", None):
            if not set(names) <= set(inputs):
                raise ToolkitError(
                    f"The Keras model '{self.model.name}' has the inputs {', '.join(names)}, and "
                    f"got {', '.join(sorted(inputs))}.",
                    hint="Name each tf.keras.Input like its feature, or pass a list of tensors.",
                )
            ordered = [inputs[name] for name in names]  # as the functional model was made
            inputs = ordered[0] if len(ordered) == 1 else ordered
        return self.model(inputs, **kwargs)

    def _layers(self) -> List[Any]:
        """The model and all layers within, each once."""
        modules = [self.model, *self.model.submodules]
        layers = [module for module in modules if isinstance(module, tf.keras.layers.Layer)]
        return list({id(layer): layer for layer in layers}.values())


# ------------------------------------------------------------------------- losses of regularizers


class NetworkList:
    """What `Run.function` and `Run.keras` created for a graph; losses of regularizers, computed
    again in each step, and counted where no loss has them.

    TensorFlow computes the loss of a variable's regularizer where the variable is created. In a
    loop of steps that is outside of the loop: its value is that of the first step, and no gradient
    reaches it.
    """

    def __init__(self) -> None:
        self._networks: Dict[str, Any] = {}
        self._renewed: Dict[str, Any] = {}  # name of a loss of `build` -> its copy in the step

    def add(self, network: Any, name: str) -> str:
        """Add a network, and return its name, unique in the run."""
        unique, number = name, 0
        while unique in self._networks:
            number += 1
            unique = f"{name}_{number}"
        self._networks[unique] = network
        return unique

    def begin_step(self) -> None:
        """Compute the losses that `build` added to TensorFlow's collection in the step that begins,
        and let the networks know of it.
        """
        copies: Dict[str, List[Any]] = {}
        collection = tf.get_collection_ref(tf.GraphKeys.REGULARIZATION_LOSSES)
        self._renewed = {loss.name: _copy(loss, copies) for loss in collection}
        collection[:] = list(self._renewed.values())
        for network in self._networks.values():
            network.begin_step()

    def renewed(self, losses: Sequence[Any]) -> List[Any]:
        """Losses of regularizers as the present step computes them."""
        return [self._renewed.get(loss.name, loss) for loss in losses]

    def count_omitted(self, losses: Sequence[tf.Tensor]) -> int:
        """How many losses of regularizers none of the losses that a step minimizes depends on:
        those of TensorFlow's collection, and of models of `Run.keras`.
        """
        collection = tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)
        num_unread = sum(network.num_unread_losses for network in self._networks.values())
        if not collection and not num_unread:
            return 0
        ops = upstream([loss.op for loss in losses], with_control=False)
        if any("Regularizer" in op.name for op in ops):  # of the Keras layers, read one by one
            num_unread = 0
        return num_unread + sum(loss.op not in ops for loss in collection)


def _copy(tensor: tf.Tensor, copies: Dict[str, List[Any]]) -> tf.Tensor:
    """A tensor computed here by ops equal to those that compute `tensor`, outside of any loop, from
    the variables on. The outputs of the copies are added by the names of their ops.
    """
    op = tensor.op
    if op.type in _SHARED:
        return tensor
    if op.name not in copies:
        inputs = [_copy(value, copies) for value in op.inputs]
        attributes = {k: v for k, v in op.node_def.attr.items() if not k.startswith("_")}
        copy = tf.get_default_graph().create_op(
            op.type, inputs, [output.dtype for output in op.outputs], name=op.name, attrs=attributes
        )
        copies[op.name] = list(copy.outputs)
    return copies[op.name][tensor.value_index]
