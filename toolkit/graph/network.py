"""A network whose variables are created in `build`, and which is applied in any other hook.

It is first applied to placeholders, in `build`. What that pass computes is not used, and what it
adds to TensorFlow's collections is removed, except for variables and the losses of their
regularizers. Later passes use the same variables, whatever created them: `tf.get_variable`,
`tf.layers`, `tf.Variable` or Keras layers.
"""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Dict, Iterator, List, Sequence, Set, Tuple

from ..compat import tf, variable_scope_store
from ..data.readers.batches import convert_stored
from ..data.structure import pack_role
from ..errors import ToolkitError
from .draws import replace_draws
from .state_updates import state_updates
from .step_builder import StepBuilder

# Collections of tensors that only a pass over examples may add to.
_OF_A_PASS = (tf.GraphKeys.SUMMARIES, tf.GraphKeys.UPDATE_OPS, tf.GraphKeys.LOSSES)


class Network:
    """The base class of `Function` and `KerasModel`.

    Args:
        run: of the graph; it draws.
        builder: of the run.
        name: of the network, for messages and draws.

    Attributes:
        name: as given, with a number if another network of the run has the same.
        variables: what the pass in `build` created, in that order.
    """

    def __init__(self, run: Any, builder: StepBuilder, name: str):
        self.name = builder.networks.add(self, name)
        self.variables: List[Any] = []
        self._run = run
        self._builder = builder
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

    def begin_step(self) -> None:
        """Forget the passes of the step before."""
        self._num_passes, self._pass_losses = 0, []

    # ------------------------------------------------------------------------- for derived classes

    def _build(self, apply: Callable[[], Any], inputs: Any) -> None:
        """Create the variables by a pass whose results are not used.

        Args:
            apply: applies the network.
            inputs: a structure of the tensors that it is applied to.
        """
        graph = tf.get_default_graph()
        before, num_ops = _collections(graph), len(graph.get_operations())
        with tf.name_scope(f"{self.name}_in_build") as scope:
            recorder = self._recorder(scope)
            with tf.variable_creator_scope(recorder):
                apply()
        ops = _consumers(inputs, graph.get_operations()[num_ops:])
        for key in graph.get_all_collection_keys():
            _remove_additions(graph.get_collection_ref(key), before.get(key, []), ops, key)
        losses = tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)
        earlier = before.get(tf.GraphKeys.REGULARIZATION_LOSSES, [])
        self._weight_losses = [loss for loss in losses if not _is_among(loss, earlier)]
        self._set_variables([variable for _, variable in self._creations])

    def _set_variables(self, variables: Sequence[Any]) -> None:
        self.variables = list(variables)
        halves = [v.op.name for v in self.trainable_variables if v.dtype.base_dtype == tf.float16]
        if halves:
            self._builder.notes.append(
                f"'{halves[0]}' is float16, in which the epsilon of Adam is 0: create variables in "
                "float32 and cast them, or set --optimizer-args epsilon=1e-4"
            )

    def _apply(self, apply: Callable[[], Any]) -> Any:
        """What `apply()` returns, computed with the variables of `_build`."""
        graph = tf.get_default_graph()
        num_ops = len(graph.get_operations())
        trainable = {variable.op.name for variable in tf.trainable_variables()}
        updates = tf.get_collection_ref(tf.GraphKeys.UPDATE_OPS)
        losses = tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)
        num_updates, num_losses = len(updates), len(losses)
        with self._reuse():
            outputs = apply()
        self._check_new_variables(trainable)
        ops = graph.get_operations()[num_ops:]
        replace_draws(self._run, ops, f"draw/{self.name}/{self._num_passes}")
        # The run itself takes them behind its guard; whoever ran them once more would move the
        # averages of batch norm twice.
        del updates[num_updates:]
        self._builder.add_state_updates(state_updates(ops))
        losses = tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)
        self._pass_losses += losses[num_losses:]
        self._num_passes += 1
        return outputs

    def _recorder(self, scope: str) -> Callable[..., Any]:
        """A variable creator that records what is created, under its name outside of `scope`."""

        def create(next_creator, **kwargs):
            present = (tf.get_default_graph().get_name_scope() or "") + "/"
            inner = present[len(scope) :] if present.startswith(scope) else None
            context = contextlib.nullcontext() if inner is None else tf.name_scope(inner or None)
            with context:
                variable = next_creator(**kwargs)
            self._creations.append((str(kwargs.get("name")), variable))
            return variable

        return create

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

    def _check_new_variables(self, names: Set[str]) -> None:
        """Refuse trainable variables that have none of these names."""
        for variable in tf.trainable_variables():
            if variable.op.name not in names:
                raise ToolkitError(
                    f"'{self.name}' created the variable '{variable.op.name}' when it was applied, "
                    "but not in 'build'.",
                    hint="Let it create the same variables, whatever its arguments are.",
                )


def example_placeholders(run: Any, role: str) -> Any:
    """Placeholders as hooks get them of the features or labels of a run, [N, ...]; None without.

    Args:
        run: `run.data` describes them.
        role: "features" or "labels".
    """
    flat = {
        key: convert_stored(
            tf.placeholder(component.dtype, [None, *component.shape]), component.kind
        )
        for key, component in run.data.flat.items()
        if key.partition("/")[0] == role
    }
    return pack_role(flat, role)


def _collections(graph: tf.Graph) -> Dict[Any, List[Any]]:
    return {key: graph.get_collection(key) for key in graph.get_all_collection_keys()}


def _consumers(inputs: Any, ops: Sequence[tf.Operation]) -> Set[tf.Operation]:
    """Those of the ops, in the order of their creation, that need one of the inputs."""
    names = {tensor.name for tensor in tf.nest.flatten(inputs) if isinstance(tensor, tf.Tensor)}
    consumers: Set[tf.Operation] = set()
    for op in ops:
        if any(tensor.name in names or tensor.op in consumers for tensor in op.inputs):
            consumers.add(op)
    return consumers


def _remove_additions(
    collection: List[Any], before: List[Any], consumers: Set[tf.Operation], key: Any
) -> None:
    """Remove from a collection the new tensors and ops that need the inputs of a pass."""

    def is_of_pass(item):
        if not isinstance(item, (tf.Tensor, tf.Operation)) or _is_among(item, before):
            return False
        return key in _OF_A_PASS or getattr(item, "op", item) in consumers

    collection[:] = [item for item in collection if not is_of_pass(item)]


def _is_among(item: Any, items: Sequence[Any]) -> bool:
    return any(item is other for other in items)  # `==` of tensors may be an op
