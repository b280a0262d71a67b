"""Faults that show when a plugin is imported, or when its options are read."""

FAULTS = r"""
# syntax error
def broken(:
    pass
Error: Plugin './bad.py' cannot be imported: SyntaxError: invalid syntax (bad.py, line 2).

# options instance
class O(toolkit.Options):
    gain: float = toolkit.option(1.0, 'gain', unit='times')
@hookimpl  # here
def options():
    return O()
Error: Hook 'options' of plugin 'bad' returned an O ({here}).
It returns a class derived from toolkit.Options.

# option no annotation
class O(toolkit.Options):  # here
    gain = toolkit.option(1.0, 'gain', unit='times')
@hookimpl
def options():
    return O
Error: Plugin './bad.py' cannot be imported: PydanticUserError: Field 'gain' requires a type
annotation ({here}).
Declare an option as 'name: TYPE = toolkit.option(default, help)', where TYPE is bool,
int, float, str, a Literal, or an Optional, List or Dict of these.

# option wrong default
class O(toolkit.Options):
    gain: float = toolkit.option('much', 'gain', unit='times')  # here
@hookimpl
def options():
    return O
Error: Option 'gain' of plugin 'bad' has the default 'much', which should be a valid number,
unable to parse string as a number ({here}).
Give it a default that fits.

# option no default
class O(toolkit.Options):
    gain: float  # here
@hookimpl
def options():
    return O
Error: Option 'gain' of plugin 'bad' has no default ({here}).
Declare it with toolkit.option(default, help).
"""
