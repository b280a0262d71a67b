"""Extensions: wrappers that break the rules, and hooks that an extension may not have."""

from __future__ import annotations

from bad_plugin_fixtures import Fault

FAULTS = [
    Fault(
        "replaces hook",
        """
        @hookimpl  # here
        def loss(outputs):
            return 0.0
        """,
        """
        Hook 'loss' of extension 'bad' ({here}) would replace the model plugin's.
        An extension wraps a model hook: mark it @toolkit.hookimpl(wrapper=True).
        """,
        code=2,
        kind="extension",
    ),
    Fault(
        "wrapper no yield",
        """
        @hookimpl(wrapper=True)  # here
        def loss():
            return 1
        """,
        """
        Hook 'loss' of extension 'bad' ({here}) is a wrapper without a 'yield'.
        Write 'value = yield' where the hook that it wraps should run, and return a value.
        """,
        code=2,
        kind="extension",
    ),
    Fault(
        "wrapper no return",
        """
        @hookimpl(wrapper=True)  # here
        def loss():
            yield
        """,
        """
        The wrapper of hook 'loss' of extension 'bad' returned None ({here}).
        A wrapper returns the result: 'result = yield', then 'return result'.
        """,
        kind="extension",
    ),
    Fault(
        "wrapper raises before",
        """
        @hookimpl(wrapper=True)
        def loss():
            raise KeyError('mine')  # here
            yield
        """,
        """
        Plugin 'bad' failed in its hook 'loss': KeyError: 'mine' ({here}).
        Run again with -v for the traceback.
        """,
        kind="extension",
    ),
    Fault(
        "wrapper raises after",
        """
        @hookimpl(wrapper=True)
        def loss():
            value = yield
            raise KeyError('mine')  # here
        """,
        """
        Plugin 'bad' failed in its hook 'loss': KeyError: 'mine' ({here}).
        Run again with -v for the traceback.
        """,
        kind="extension",
    ),
    Fault(
        "wrapper yields twice",
        """
        @hookimpl(wrapper=True)  # here
        def optimize():
            yield
            return (yield)
        """,
        """
        The wrapper of hook 'optimize' of extension 'bad' yielded twice ({here}).
        Only call, loss, predict may be called several times.
        """,
        kind="extension",
    ),
    Fault(
        "wrapper never yields",
        """
        @hookimpl(wrapper=True)  # here
        def loss():
            if False:
                yield
            return 1
        """,
        """
        The wrapper of hook 'loss' of extension 'bad' returned 1 for 'loss', expected a scalar
        tensor ({here}).
        Compute it from the hook's tensors with TensorFlow's functions, not with numpy's.
        """,
        kind="extension",
    ),
    Fault(
        "wrapper yields value",
        """
        @hookimpl(wrapper=True)  # here
        def loss():
            return (yield 5)
        """,
        """
        The wrapper of hook 'loss' of extension 'bad' yielded 5 ({here}).
        Yield nothing, or a dict of arguments to replace: model, features, labels, outputs.
        """,
        kind="extension",
    ),
    Fault(
        "wrapper yields unknown",
        """
        @hookimpl(wrapper=True)  # here
        def loss():
            return (yield {'label': 5})
        """,
        """
        The wrapper of hook 'loss' of extension 'bad' yielded the unknown argument 'label' ({here}).
        Did you mean 'labels'?
        """,
        kind="extension",
    ),
    Fault(
        "wrapper wrong type",
        """
        @hookimpl(wrapper=True)  # here
        def call():
            outputs = yield
            return outputs['logits']
        """,
        """
        The wrapper of hook 'call' of extension 'bad' returned a tensor float32 [4, 3], expected a
        dict of tensors ({here}).
        Return {name: tensor}, with a name for each output.
        """,
        kind="extension",
    ),
    Fault(
        "wrapper exits",
        """
        import sys
        @hookimpl(wrapper=True)
        def call():
            sys.exit(0)  # here
            yield
        """,
        """
        Plugin 'bad' failed in its hook 'call': it ended the process (0) ({here}).
        A plugin does not end the process: raise a toolkit.ToolkitError.
        """,
        kind="extension",
    ),
    Fault(
        "hookwrapper raises",
        """
        @hookimpl(hookwrapper=True)  # here
        def loss():
            outcome = yield
            outcome.force_result(None)
        """,
        """
        The wrapper of hook 'loss' of extension 'bad' returned None ({here}).
        A model hook returns a value; is a 'return' missing?
        """,
        kind="extension",
    ),
    Fault(
        "extension raises metrics",
        """
        @hookimpl
        def metrics():
            raise KeyError('mine')  # here
        """,
        """
        Plugin 'bad' failed in its hook 'metrics': KeyError: 'mine' ({here}).
        Run again with -v for the traceback.
        """,
        kind="extension",
    ),
    Fault(
        "extension hook raises",
        """
        class Mine(tf.train.SessionRunHook):
            def after_run(self, *args):
                raise KeyError('mine')  # here
        @hookimpl
        def session_hooks():
            return [Mine()]
        """,
        """
        Session hook Mine of plugin 'bad' failed in after_run: KeyError: 'mine' ({here}).
        Run again with -v for the traceback.
        """,
        kind="extension",
    ),
    Fault(
        "extension stock hook",
        """
        @hookimpl  # here
        def session_hooks():
            return [tf.train.CheckpointSaverHook('x', save_steps=1)]
        """,
        """
        Session hook CheckpointSaverHook of plugin 'bad' failed in after_create_session:
        RuntimeError: No items in collection savers. Please add a saver to the collection or
        provide a saver or scaffold ({here}).
        Leave it out: the toolkit saves checkpoints, as often as --checkpoint-steps says.
        """,
        kind="extension",
    ),
    Fault(
        "extension is model",
        """
        from good import *
        """,
        """
        Hook 'build' of extension 'bad' (...good.py:...) would replace the model plugin's.
        An extension wraps a model hook: mark it @toolkit.hookimpl(wrapper=True).
        """,
        code=2,
        kind="extension",
    ),
    Fault(
        "late change of gradients",
        """
        @hookimpl(wrapper=True)
        def optimize(run):
            result = yield
            run.change_gradients(lambda gradient, variable, name: gradient)  # here
            return result
        """,
        """
        run.change_gradients was called after the step's updates were built (hook 'optimize' of
        extension 'bad', {here}).
        Call it in a wrapper of 'optimize', before the 'yield'.
        """,
        kind="extension",
    ),
    Fault(
        "state in call",
        """
        @hookimpl(wrapper=True)
        def call(run):
            result = yield
            run.state('n', 0)  # here
            return result
        """,
        """
        Hook 'call' of extension 'bad' created the variable 'state/n' ({here}).
        Call run.state in 'build', also in an extension's wrapper of it, and keep what it returns.
        """,
        kind="extension",
    ),
]
