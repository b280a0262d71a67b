"""The command line: one module per command, imported when it is used."""

from __future__ import annotations

import gc
import sys
from typing import List, Optional


def main(argv: Optional[List[str]] = None) -> None:
    """Run the command line and leave with its exit code. A user's mistake prints no traceback."""
    if hasattr(sys.stdout, "reconfigure"):  # a path need not be text of the terminal's encoding
        sys.stdout.reconfigure(errors="backslashreplace")
    code = run_command(sys.argv[1:] if argv is None else argv)
    # At the end the interpreter would look for garbage among all that TensorFlow has made.
    gc.freeze()
    sys.exit(code)


def run_command(argv: List[str]) -> int:
    """The same without leaving: returns the exit code."""
    import click

    from ..errors import InterruptedRun, ToolkitError
    from .app import app

    try:
        result = app.main(
            args=list(argv), prog_name="toolkit", standalone_mode=False, obj=list(argv)
        )
        return result if isinstance(result, int) else 0
    except InterruptedRun as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    except ToolkitError as error:
        _tell(str(error), error)
        return error.exit_code
    except click.UsageError as error:
        _tell(error.format_message())
        return 2
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.ClickException as error:
        _tell(error.format_message())
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        _tell("Interrupted.")
        return 130
    except BrokenPipeError:  # the reader of our output has gone
        sys.stderr.close()
        return 141


def _tell(message: str, error: Optional[BaseException] = None) -> None:
    import os

    if error is not None and error.__cause__ is not None and os.environ.get("TOOLKIT_VERBOSE"):
        import traceback

        traceback.print_exception(type(error), error, error.__traceback__)
    sys.stderr.write(f"Error: {message}\n")
