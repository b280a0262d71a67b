"""The command line: one module per command, imported when it is used."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
import traceback
from typing import Any, Callable, List, Optional

from . import streams

MAX_FLAGS = 16  # of a command, that an error lists
# Commands whose result is in files, or is the exit code; other commands print theirs.
_WORK = frozenset(
    ["run", "resume", "launch", "search", "report", "export", "sample", "verify", "plugins check"]
)


def main(argv: Optional[List[str]] = None) -> None:
    """Run the command line and leave with its exit code. A user's mistake prints no traceback."""
    streams.open_closed_descriptors()
    with streams.guarded():
        try:
            code = run_command(sys.argv[1:] if argv is None else argv)
        except KeyboardInterrupt:  # before there is a command
            sys.stderr.write("Interrupted.\n")
            code = 130
        except Exception:  # a fault of the toolkit
            traceback.print_exc()
            code = 1
    gc.freeze()  # a garbage collection at exit would search all objects of TensorFlow
    sys.exit(code)


def run_command(argv: List[str]) -> int:
    """Run the command line and return its exit code."""
    from ..display.console import Console

    def call_app() -> Any:
        from ..plugins import separate_command
        from .app import COMMANDS, app

        # A launcher passes on what its chief prints; other packages may print JSON in another way.
        is_json = "--json" in argv and argv[0] in {*COMMANDS} - {"launch"}
        with separate_command(), streams.only_json() if is_json else contextlib.nullcontext():
            return app.main(list(argv), prog_name="toolkit", standalone_mode=False, obj=list(argv))

    is_verbose = os.environ.get("TOOLKIT_VERBOSE", "")
    try:
        with streams.guarded() as stdout, Console().shown():
            code = _exit_code(call_app)
            stdout.flush()
            is_work = "--json" not in argv and {*argv[:1], " ".join(argv[:2])} & _WORK
            return code or int(stdout.error is not None and not is_work)
    finally:  # what `-v` set
        os.environ["TOOLKIT_VERBOSE"] = is_verbose


def _exit_code(call: Callable[[], Any]) -> int:
    """The exit code that a call returns, or that of its error, which is printed."""
    import click

    from ..errors import InterruptedRun, ToolkitError

    try:
        result = call()
        return result if isinstance(result, int) else 0
    except InterruptedRun as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    except ToolkitError as error:
        _print_error(str(error), error)
        return error.exit_code
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.ClickException as error:
        _print_error(error.format_message() + _way_out(error))
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        _print_error("Interrupted.")
        return 130
    except MemoryError:
        _print_error("There is not enough memory for this command.")
        return 138
    except SystemExit as error:  # of a plugin's command
        if error.code is not None and not isinstance(error.code, int):
            _print_error(str(error.code))
        return error.code if isinstance(error.code, int) else int(error.code is not None)


def _way_out(error: Any) -> str:
    """Usage, flags or commands, for an error of click that names none of them."""
    import click

    context = getattr(error, "ctx", None)
    if context is None or "\n" in error.format_message():
        return ""
    if isinstance(error, click.MissingParameter):
        return "\n" + context.get_usage()
    flags = [max(p.opts, key=len) for p in context.command.params if isinstance(p, click.Option)]
    if isinstance(error, click.NoSuchOption) and len(flags) <= MAX_FLAGS:
        return f"\nOptions: {', '.join(flags)}"
    if isinstance(context.command, click.Group):
        return f"\nCommands: {', '.join(context.command.list_commands(context))}"
    return ""


def _print_error(message: str, error: Optional[BaseException] = None) -> None:
    """Print an error's message, below its traceback if `-v` asks for that."""
    from ..errors import is_verbose

    if error is not None and error.__cause__ is not None and is_verbose():
        traceback.print_exception(type(error), error, error.__traceback__)
    sys.stderr.write(f"Error: {message}\n")
