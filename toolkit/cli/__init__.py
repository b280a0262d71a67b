"""The command line: one module per command, imported when it is used."""

from __future__ import annotations

import gc
import os
import sys
import traceback
from typing import List, Optional


def main(argv: Optional[List[str]] = None) -> None:
    """Run the command line and leave with its exit code. A user's mistake prints no traceback."""
    if hasattr(sys.stdout, "reconfigure"):  # the terminal's encoding may lack letters of a path
        sys.stdout.reconfigure(errors="backslashreplace")
    code = run_command(sys.argv[1:] if argv is None else argv)
    gc.freeze()  # a garbage collection at exit would search all objects of TensorFlow
    sys.exit(code)


def run_command(argv: List[str]) -> int:
    """Run the command line and return its exit code."""
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
        _print_error(str(error), error)
        return error.exit_code
    except click.UsageError as error:
        _print_error(error.format_message())
        return 2
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.ClickException as error:
        _print_error(error.format_message())
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        _print_error("Interrupted.")
        return 130
    except BrokenPipeError:  # nobody reads the output any more
        sys.stderr.close()
        return 141


def _print_error(message: str, error: Optional[BaseException] = None) -> None:
    """Print an error's message, below its traceback if `-v` asks for that."""
    if error is not None and error.__cause__ is not None and os.environ.get("TOOLKIT_VERBOSE"):
        traceback.print_exception(type(error), error, error.__traceback__)
    sys.stderr.write(f"Error: {message}\n")
