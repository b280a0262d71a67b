"""Session hooks that are none, or that fetch what they cannot."""

from __future__ import annotations

from bad_plugin_fixtures import Fault

FAULTS = [
    Fault(
        "session hooks one",
        """
        class Mine(toolkit.SessionHook):
            pass
        @hookimpl  # here
        def session_hooks():
            return Mine()
        """,
        """
        Hook 'session_hooks' of plugin 'bad' returned a Mine, expected a list of session hooks
        ({here}).
        Return a list: [hook].
        """,
    ),
    Fault(
        "session hooks class",
        """
        class Mine(toolkit.SessionHook):
            pass
        @hookimpl  # here
        def session_hooks():
            return [Mine]
        """,
        """
        Hook 'session_hooks' of plugin 'bad' returned a list with the class Mine, expected session
        hooks ({here}).
        Return an object of the class: [Mine()].
        """,
    ),
    Fault(
        "session hooks number",
        """
        @hookimpl  # here
        def session_hooks():
            return [1]
        """,
        """
        Hook 'session_hooks' of plugin 'bad' returned a list with 1, expected session hooks
        ({here}).
        It returns a list of tf.train.SessionRunHooks.
        """,
    ),
    Fault(
        "hook exits",
        """
        import sys
        class Mine(toolkit.SessionHook):
            every = toolkit.Every(1)
            def on_step(self, step, values, context):
                sys.exit(0)  # here
        @hookimpl
        def session_hooks():
            return [Mine()]
        """,
        """
        Session hook Mine of plugin 'bad' failed in on_step: it ended the process (0) ({here}).
        A plugin does not end the process: raise a toolkit.ToolkitError.
        """,
    ),
    Fault(
        "hook stop iteration",
        """
        class Mine(toolkit.SessionHook):
            every = toolkit.Every(1)
            def on_step(self, step, values, context):
                raise StopIteration()  # here
        @hookimpl
        def session_hooks():
            return [Mine()]
        """,
        """
        Session hook Mine of plugin 'bad' failed in on_step: StopIteration ({here}).
        Run again with -v for the traceback.
        """,
    ),
    Fault(
        "hook late op",
        """
        class Mine(toolkit.SessionHook):
            every = toolkit.Every(1)
            def on_step(self, step, values, context):
                context.session.run(tf.constant(1))  # here
        @hookimpl
        def session_hooks():
            return [Mine()]
        """,
        """
        Session hook Mine of plugin 'bad' failed in on_step: RuntimeError: Graph is finalized and
        cannot be modified ({here}).
        Make every op in 'begin' or in the plugin's hook 'session_hooks'.
        """,
    ),
    Fault(
        "hook wrong arguments",
        """
        class Mine(toolkit.SessionHook):
            every = toolkit.Every(1)
            def on_step(self, step, values):  # here
                pass
        @hookimpl
        def session_hooks():
            return [Mine()]
        """,
        """
        Session hook Mine of plugin 'bad' failed in on_step: TypeError: ...on_step() takes 3
        positional arguments but 4 were given ({here}).
        Run again with -v for the traceback.
        """,
    ),
    Fault(
        "hook no super init",
        """
        class Mine(toolkit.SessionHook):
            every = 5
            def on_step(self, step, values, context):
                pass
        @hookimpl  # here
        def session_hooks():
            return [Mine()]
        """,
        """
        Session hook Mine of plugin 'bad' has 5 as 'every' ({here}).
        Set every = toolkit.Every(steps), or toolkit.Every(secs=seconds).
        """,
    ),
    Fault(
        "hook fetches loop",
        """
        class Mine(toolkit.SessionHook):
            every = toolkit.Every(1)
            def fetches(self):  # here
                return TENSOR[0]
        TENSOR=[]
        @hookimpl
        def loss(outputs):
            TENSOR[:] = [tf.reduce_mean(outputs['logits'])]
            return tf.identity(TENSOR[0])
        @hookimpl
        def session_hooks():
            return [Mine()]
        """,
        """
        Session hook Mine of plugin 'bad' fetches 'Mean:0', which is within the loop of steps
        ({here}).
        Take the tensors that the hook 'session_hooks' is given, or those of run.logged; or set
        --steps-per-call 1.
        """,
        flags=("--steps-per-call", "2"),
    ),
    Fault(
        "hook fetches unknown",
        """
        class Mine(toolkit.SessionHook):
            every = toolkit.Every(1)
            def fetches(self):  # here
                return 'nothing:0'
        @hookimpl
        def session_hooks():
            return [Mine()]
        """,
        """
        Session hook Mine of plugin 'bad' fetches 'nothing:0', which is not in the graph ({here}).
        Take the tensors that the hook 'session_hooks' is given, or those of run.logged.
        """,
    ),
    Fault(
        "hook variable",
        """
        @hookimpl
        def session_hooks():
            tf.get_variable('late', [3])  # here
            return []
        """,
        """
        The variable 'late' was created in the hook 'session_hooks' ({here}), too late to be saved.
        Create it in the hook 'build', or with run.state; an optimizer belongs in the hook
        'optimize'.
        """,
    ),
    Fault(
        "hook checkpoint saver",
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
    ),
]
