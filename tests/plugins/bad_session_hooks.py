"""Session hooks that are none, or that fetch what they cannot."""

FAULTS = r"""
# session hooks one
class Mine(toolkit.SessionHook):
    pass
@hookimpl  # here
def session_hooks():
    return Mine()
Error: Hook 'session_hooks' of plugin 'bad' returned a Mine, expected a list of session hooks
({here}).
Return a list: [hook].

# session hooks none
@hookimpl  # here
def session_hooks():
    [tf.train.SessionRunHook()]
Error: Hook 'session_hooks' of plugin 'bad' returned None, expected a list of session hooks
({here}).
Return the list, or [] for none; is a 'return' missing?

# session hooks class
class Mine(toolkit.SessionHook):
    pass
@hookimpl  # here
def session_hooks():
    return [Mine]
Error: Hook 'session_hooks' of plugin 'bad' returned a list with the class Mine, expected session
hooks ({here}).
Return an object of the class: [Mine()].

# hook late op
class Mine(toolkit.SessionHook):
    every = toolkit.Every(1)
    def on_step(self, step, values, context):
        context.session.run(tf.constant(1))  # here
@hookimpl
def session_hooks():
    return [Mine()]
Error: Session hook Mine of plugin 'bad' failed in on_step: RuntimeError: Graph is finalized and
cannot be modified ({here}).
Make every op in 'begin' or in the plugin's hook 'session_hooks'.

# hook no super init
class Mine(toolkit.SessionHook):
    every = 5
    def on_step(self, step, values, context):
        pass
@hookimpl  # here
def session_hooks():
    return [Mine()]
Error: Session hook Mine of plugin 'bad' has 5 as 'every' ({here}).
Set every = toolkit.Every(steps), or toolkit.Every(secs=seconds).

# hook without a due step
class Mine(toolkit.SessionHook):
    def next_due_step(self, step):
        return float("nan")
@hookimpl  # here
def session_hooks():
    return [Mine()]
Error: Session hook Mine of plugin 'bad' returned nan from 'next_due_step' ({here}).
It returns a number; infinity for never.

# hook fetches none
class Mine(toolkit.SessionHook):
    every = toolkit.Every(1)
    def fetches(self):
        return {"loss": None}
@hookimpl  # here
def session_hooks():
    return [Mine()]
Error: Session hook Mine of plugin 'bad' fetches None, which is no tensor ({here}).
Take the tensors that the hook 'session_hooks' is given, or those of run.logged.

# hook fetches loop (--steps-per-call 2)
class Mine(toolkit.SessionHook):
    every = toolkit.Every(1)
    def fetches(self):
        return TENSOR[0]
TENSOR=[]
@hookimpl
def loss(outputs):
    TENSOR[:] = [tf.reduce_mean(outputs['logits'])]
    return tf.identity(TENSOR[0])
@hookimpl  # here
def session_hooks():
    return [Mine()]
Error: Session hook Mine of plugin 'bad' fetches 'Mean:0', which is within the loop of steps
({here}).
Take the tensors that the hook 'session_hooks' is given, or those of run.logged; or set
--steps-per-call 1.

# hook fetches unknown
class Mine(toolkit.SessionHook):
    every = toolkit.Every(1)
    def fetches(self):
        return 'nothing:0'
@hookimpl  # here
def session_hooks():
    return [Mine()]
Error: Session hook Mine of plugin 'bad' fetches 'nothing:0', which is not in the graph ({here}).
Take the tensors that the hook 'session_hooks' is given, or those of run.logged.

# hook fetches mixed names
class Mine(toolkit.SessionHook):
    every = toolkit.Every(1)
    def fetches(self):
        return dict.fromkeys([1, "one"], tf.train.get_global_step())
@hookimpl  # here
def session_hooks():
    return [Mine()]
Error: Session hook Mine of plugin 'bad' failed in before_run: TypeError: '<' not supported between
instances of 'str' and 'int' ({here}).
Run again with -v for the traceback.

# hook session
class Mine(tf.train.SessionRunHook):
    def after_run(self, context, values):
        context.session.close()
@hookimpl  # here
def session_hooks():
    return [Mine()]
Error: Step 2 failed: RuntimeError: Attempted to use a closed Session (...).
A session hook leaves the session open: the loop closes it.

# hook coordinator
class Mine(tf.train.SessionRunHook):
    def after_create_session(self, session, coord):
        with coord.stop_on_exception():  # as in a thread
            raise ValueError("mine")  # here
@hookimpl
def session_hooks():
    return [Mine()]
Error: Step 2 failed: ValueError: mine ({here}).
Run again with -v for the traceback.

# hook variable
@hookimpl
def session_hooks():
    tf.get_variable('late', [3])  # here
    return []
Error: The variable 'late' was created in the hook 'session_hooks' ({here}), too late to be saved.
Create it in the hook 'build', or with run.state; an optimizer belongs in the hook
'optimize'.

# hook checkpoint saver
@hookimpl  # here
def session_hooks():
    return [tf.train.CheckpointSaverHook('x', save_steps=1)]
Error: Session hook CheckpointSaverHook of plugin 'bad' failed in after_create_session:
RuntimeError: No items in collection savers. Please add a saver to the collection or
provide a saver or scaffold ({here}).
Leave it out: the toolkit saves checkpoints, as often as --checkpoint-steps says.
"""
