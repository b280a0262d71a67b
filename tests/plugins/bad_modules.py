"""Faults that show when a plugin is imported, or when its options are read."""

from __future__ import annotations

from bad_plugin_fixtures import Fault

FAULTS = [
    Fault(
        "syntax error",
        """
        def broken(:
            pass
        """,
        """
        Plugin './bad.py' cannot be imported: SyntaxError: invalid syntax (bad.py, line 2).
        """,
    ),
    Fault(
        "missing module",
        """
        import module_that_is_missing  # here
        """,
        """
        Plugin './bad.py' cannot be imported: ModuleNotFoundError: No module named
        'module_that_is_missing' ({here}).
        Install what provides 'module_that_is_missing'.
        """,
    ),
    Fault(
        "missing public name",
        """
        from toolkit import Curriculum  # here
        """,
        """
        Plugin './bad.py' cannot be imported: ImportError: cannot import name 'Curriculum' from
        'toolkit' ({here}).
        This is toolkit ..., which has no such name; another version may.
        """,
    ),
    Fault(
        "private name",
        """
        from toolkit.plugins import wibble  # here
        """,
        """
        Plugin './bad.py' cannot be imported: ImportError: cannot import name 'wibble' from
        'toolkit.plugins' ({here}).
        'toolkit.plugins' is internal; plugins import from 'toolkit' alone.
        """,
    ),
    Fault(
        "raises at import",
        """
        raise RuntimeError('no GPU')  # here
        """,
        """
        Plugin './bad.py' cannot be imported: RuntimeError: no GPU ({here}).
        """,
    ),
    Fault(
        "exits at import",
        """
        import sys
        sys.exit(0)  # here
        """,
        """
        Plugin './bad.py' cannot be imported: it ended the process (0) ({here}).
        A plugin does not end the process: raise a toolkit.ToolkitError.
        """,
    ),
    Fault(
        "options instance",
        """
        class O(toolkit.Options):
            gain: float = toolkit.option(1.0, 'gain', unit='times')
        @hookimpl  # here
        def options():
            return O()
        """,
        """
        Hook 'options' of plugin 'bad' returned an O ({here}).
        It returns a class derived from toolkit.Options.
        """,
    ),
    Fault(
        "options class other",
        """
        class O:
            gain = 1
        @hookimpl  # here
        def options():
            return O
        """,
        """
        Hook 'options' of plugin 'bad' returned the class O ({here}).
        It returns a class derived from toolkit.Options.
        """,
    ),
    Fault(
        "option function",
        """
        class O(toolkit.Options):
            gain: float = toolkit.option(lambda: 1.0, 'gain', unit='times')  # here
        @hookimpl
        def options():
            return O
        """,
        """
        Option 'gain' of plugin 'bad' has a default of type function ({here}).
        A default is None, a bool, a number, a text, or a list or a dict of these.
        """,
    ),
    Fault(
        "option array",
        """
        class O(toolkit.Options):  # here
            gain: np.ndarray = toolkit.option(np.zeros(3), 'gain', unit='times')
        @hookimpl
        def options():
            return O
        """,
        """
        Plugin './bad.py' cannot be imported: PydanticSchemaGenerationError: Unable to generate
        pydantic-core schema for <class 'numpy.ndarray'> ({here}).
        Declare an option as 'name: TYPE = toolkit.option(default, help)', where TYPE is bool,
        int, float, str, a Literal, or an Optional, List or Dict of these.
        """,
    ),
    Fault(
        "option array float",
        """
        class O(toolkit.Options):
            gain: float = toolkit.option(np.zeros(3), 'gain', unit='times')  # here
        @hookimpl
        def options():
            return O
        """,
        """
        Option 'gain' of plugin 'bad' has a default of type ndarray ({here}).
        A default is None, a bool, a number, a text, or a list or a dict of these.
        """,
    ),
    Fault(
        "option core clash",
        """
        class O(toolkit.Options):
            steps: int = toolkit.option(1, 'steps', unit='steps')
        @hookimpl
        def options():
            return O
        """,
        """
        Option 'steps' of plugin 'bad' is already an option of the core.
        Rename it, or set core_defaults to change a core option's default.
        """,
        code=2,
    ),
    Fault(
        "option no annotation",
        """
        class O(toolkit.Options):  # here
            gain = toolkit.option(1.0, 'gain', unit='times')
        @hookimpl
        def options():
            return O
        """,
        """
        Plugin './bad.py' cannot be imported: PydanticUserError: Field 'gain' requires a type
        annotation ({here}).
        Declare an option as 'name: TYPE = toolkit.option(default, help)', where TYPE is bool,
        int, float, str, a Literal, or an Optional, List or Dict of these.
        """,
    ),
    Fault(
        "option wrong default",
        """
        class O(toolkit.Options):
            gain: float = toolkit.option('much', 'gain', unit='times')  # here
        @hookimpl
        def options():
            return O
        """,
        """
        Option 'gain' of plugin 'bad' has the default 'much', which should be a valid number,
        unable to parse string as a number ({here}).
        Give it a default that fits.
        """,
    ),
    Fault(
        "option no default",
        """
        class O(toolkit.Options):
            gain: float  # here
        @hookimpl
        def options():
            return O
        """,
        """
        Option 'gain' of plugin 'bad' has no default ({here}).
        Declare it with toolkit.option(default, help).
        """,
    ),
    Fault(
        "core default unknown",
        """
        class O(toolkit.Options):
            core_defaults = {'batchsize': 3}
        @hookimpl
        def options():
            return O
        """,
        """
        There is no option 'batchsize' (plugin bad).
        Did you mean 'batch_size'?
        """,
        code=2,
    ),
]
