"""Extensions: wrappers that break the rules, and hooks that an extension may not have."""

FAULTS = r"""
# no hook (exit code 2)
def loss(outputs):
    return 0.0
Error: Extension 'bad' (...bad.py) implements no hook.
Mark its functions with @toolkit.hookimpl.

# replaces hook (exit code 2)
@hookimpl  # here
def loss(outputs):
    return 0.0
Error: Hook 'loss' of extension 'bad' ({here}) would replace the model plugin's.
An extension wraps a model hook: mark it @toolkit.hookimpl(wrapper=True).

# wrapper no yield (exit code 2)
@hookimpl(wrapper=True)  # here
def loss():
    return 1
Error: Hook 'loss' of extension 'bad' ({here}) is a wrapper without a 'yield'.
Write 'value = yield' where the hook that it wraps should run, and return a value.

# wrapper raises after
@hookimpl(wrapper=True)
def loss():
    value = yield
    raise KeyError('mine')  # here
Error: Plugin 'bad' failed in its hook 'loss': KeyError: 'mine' ({here}).
Run again with -v for the traceback.

# wrapper wrong type
@hookimpl(wrapper=True)  # here
def call():
    outputs = yield
    return outputs['logits']
Error: The wrapper of hook 'call' of extension 'bad' returned a tensor float32 [4, 3], expected a
dict of tensors ({here}).
Return {name: tensor}, with a name for each output.

# state in call
@hookimpl(wrapper=True)
def call(run):
    result = yield
    run.state('n', 0)  # here
    return result
Error: Hook 'call' of extension 'bad' created the variable 'state/n' ({here}).
Call run.state in 'build', also in an extension's wrapper of it, and keep what it returns.
"""
