"""`Run.keras`: a Keras model as a part of a plugin's model."""

from __future__ import annotations

import inspect
import warnings
from typing import Any, List, Optional

from ..compat import tf
from ..data.structure import FEATURES
from ..errors import ToolkitError
from .network import Network, example_placeholders
from .step_builder import StepBuilder


class KerasModel(Network):
    """A Keras model applied as it is; see `Run.keras`.

    Args:
        run: of the graph.
        builder: of the run.
        model: a Sequential, functional or subclass model, or a layer.
        inputs: what it is applied to in `build` if it has no variables yet; None for placeholders
            of the run's features.
    """

    def __init__(self, run: Any, builder: StepBuilder, model: Any, inputs: Any = None):
        _check_model(model)
        super().__init__(run, builder, model.name)
        self.model = model
        self._takes_training = "training" in inspect.signature(model.call).parameters
        _set_learning_phase(run.mode == "train")  # for layers that get no `training`
        if not model.built:
            examples = example_placeholders(run, FEATURES) if inputs is None else inputs
            self._build(lambda: self._call(examples, run.mode == "train", {}), examples)
        _check_graph(model)
        _freeze(model)
        self._set_variables(model.weights)
        if getattr(model, "optimizer", None) is not None:
            builder.notes.append(
                f"the optimizer, losses and metrics of '{model.name}.compile' have no effect; the "
                "hooks 'loss', 'optimize' and 'metrics' say them."
            )

    def __call__(self, inputs: Any, training: Optional[bool] = None, **kwargs: Any) -> Any:
        """The model's outputs.

        Args:
            inputs: a tensor or a structure of tensors, as the model takes them; of a dict, a
                functional model gets each input by the name of its `tf.keras.Input`.
            training: whether dropout and the like are active; None for the mode "train".
            kwargs: further arguments of the model.
        """
        training = self._run.mode == "train" if training is None else training
        before = [list(layer._losses) for layer in self._layers()]
        outputs = self._apply(lambda: self._call(inputs, training, kwargs))
        for layer, losses in zip(self._layers(), before):
            new = [loss for loss in layer._losses if not any(loss is other for other in losses)]
            self._pass_losses += new
        return outputs

    def losses(self) -> List[Any]:
        """The losses of regularizers, float32 scalars: of the variables, and of the outputs of the
        passes since the step began. Add `sum(net.losses())` to what the hook `loss` returns.
        """
        functions = [function for layer in self._layers() for function in layer._callable_losses]
        values = [function() for function in functions]
        return [value for value in values if value is not None] + self._pass_losses

    def _call(self, inputs: Any, training: Any, kwargs: Any) -> Any:
        if self._takes_training:
            kwargs = dict(kwargs, training=training)
        return self.model(_order_inputs(self.model, inputs), **kwargs)

    def _layers(self) -> List[Any]:
        """The model and all layers within, each once."""
        modules = [self.model, *self.model.submodules]
        layers = [module for module in modules if isinstance(module, tf.keras.layers.Layer)]
        return list({id(layer): layer for layer in layers}.values())


def _order_inputs(model: Any, inputs: Any) -> Any:
    """The inputs of a functional model in its order, where they are a dict by name."""
    names = getattr(model, "input_names", None)
    if not isinstance(inputs, dict) or not names or not getattr(model, "inputs", None):
        return inputs
    missing = [name for name in names if name not in inputs]
    if missing:
        raise ToolkitError(
            f"The Keras model '{model.name}' has the inputs {', '.join(names)}, and got "
            f"{', '.join(sorted(inputs))}.",
            hint="Name each tf.keras.Input like its feature, or pass a list of tensors.",
        )
    ordered = [inputs[name] for name in names]
    return ordered[0] if len(ordered) == 1 else ordered


def _check_model(model: Any) -> None:
    if isinstance(model, tf.keras.layers.Layer):
        return
    if type(model).__module__.split(".")[0] == "keras" or _is_keras_3(type(model)):
        raise ToolkitError(
            f"'{getattr(model, 'name', model)}' is a model of Keras 3, which has no graphs.",
            hint="Make it of tf.keras, with 'from toolkit import tf'.",
        )
    raise ToolkitError(
        f"run.keras takes a model or layer of tf.keras, not {model!r}.",
        hint="Use run.function for a function." if callable(model) else "",
    )


def _is_keras_3(cls: type) -> bool:
    return any(base.__module__.startswith("keras.src") for base in cls.__mro__)


def _check_graph(model: Any) -> None:
    """Refuse a model whose variables are those of another graph."""
    graph = tf.get_default_graph()
    if any(variable.graph is not graph for variable in model.weights):
        raise ToolkitError(
            f"The Keras model '{model.name}' was created outside of the hook 'build'.",
            hint="Create it in 'build', which is called once for each graph.",
        )


def _freeze(model: Any) -> None:
    """Remove the variables of layers with `trainable = False` from those that training changes."""
    trainable = {variable.op.name for variable in model.trainable_weights}
    frozen = {variable.op.name for variable in model.weights} - trainable
    collection = tf.get_collection_ref(tf.GraphKeys.TRAINABLE_VARIABLES)
    collection[:] = [variable for variable in collection if variable.op.name not in frozen]


def _set_learning_phase(is_training: bool) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecated where nothing else does the same in a graph
        tf.keras.backend.set_learning_phase(int(is_training))
