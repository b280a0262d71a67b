"""Flags and output that all commands share, for the core and for the commands of plugins.

from toolkit import cli_options

@click.command()
@cli_options.json_option
@cli_options.verbose_option
def count(as_json): ...
"""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import stat
import sys
import tempfile
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, TypeVar

import click

from .errors import RetryError, UsageError
from .errors import suggest_path as suggest_path  # for the commands of plugins

# Of an OSError, where the user has to name another output.
USER_ERRORS = (
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.ENOENT,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.ENAMETOOLONG,
    errno.EBUSY,
    errno.ELOOP,
)
PAGE = "report.html"  # the only output in the folder of a run
Command = TypeVar("Command", bound=Callable[..., Any])


class HelpGroup(click.Group):
    """A group of commands that prints its help if none is named, in each version of click."""

    def parse_args(self, ctx: click.Context, args: List[str]) -> List[str]:
        if not args and not ctx.resilient_parsing:
            click.echo(ctx.get_help())
            ctx.exit()
        return super().parse_args(ctx, args)


class FloatRange(click.FloatRange):
    """A range of floats without NaN, of which click's limits refuse nothing."""

    def convert(
        self, value: Any, param: Optional[click.Parameter], ctx: Optional[click.Context]
    ) -> Any:
        number = super().convert(value, param, ctx)
        return self.fail(f"{value} is no number.", param, ctx) if math.isnan(number) else number


def json_option(command: Command) -> Command:
    """Add `--json`, which the command receives as `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON on stdout.")(command)


def verbose_option(command: Command) -> Command:
    """Add `-v`: show TensorFlow's log and tracebacks. It applies before TensorFlow is imported."""

    def enable() -> None:
        os.environ["TOOLKIT_VERBOSE"] = "1"

    return _add_flag(command, ["-v", "--verbose"], enable, "Show TensorFlow's log, and tracebacks.")


def trust_option(command: Command) -> Command:
    """Add `--trust`: load plugins that are files or modules, whatever file names them.

    It holds for the whole command, also for `toolkit.open_trained`.
    """

    def trust() -> None:
        from .plugins import trust_everything

        trust_everything()

    text = "Execute plugin files and modules that a run or a configuration names."
    return _add_flag(command, ["--trust"], trust, text)


def _add_flag(
    command: Command, names: Sequence[str], act: Callable[[], None], text: str
) -> Command:
    """Add a flag that acts before others are read, and that the command does not receive."""

    def callback(context: click.Context, parameter: click.Parameter, value: bool) -> None:
        if value:
            act()

    facts: Dict[str, Any] = {"is_flag": True, "is_eager": True, "expose_value": False}
    return click.option(*names, callback=callback, help=text, **facts)(command)


def checkpoint_option(command: Command) -> Command:
    """Add `--checkpoint`, whose value `toolkit.open_trained` takes; None by default."""
    return click.option(
        "--checkpoint",
        default=None,
        metavar="best|last|STEP",
        help="Checkpoint to use; default: best if the run has one, else last.",
    )(command)


def print_json(value: Any, indent: Optional[int] = 2) -> None:
    """Print a value as JSON on stdout, on one line without an indent; numbers that are not finite
    become null.
    """
    from .files import to_json_value

    text = json.dumps(to_json_value(value), indent=indent)
    stream = getattr(sys.stdout, "json_stream", None) or sys.stdout
    stream.write(text.replace("\x7f", "\\u007f") + "\n")  # DEL is no control character of JSON
    stream.flush()


def resolve_output(path: str, is_folder: bool = False, is_page: bool = False) -> str:
    """Check before any work that an output can be written.

    Args:
        path: a file, which may exist, or a folder, which is missing or empty.
        is_folder: whether it is a folder.
        is_page: whether it is the page of a run, which may be report.html in a run's folder.

    Returns:
        The absolute path to write, that of the file behind a symbolic link.

    Raises:
        UsageError: the place is missing, of another kind, not empty, or may not be written; or it
            is in the folder of a run or of a study, whose files no output may replace.
        RetryError: the disk is full.
    """
    from .storage.own_folders import find_owner, is_run

    if path in ("", "-"):
        raise UsageError(f"The output '{path}' is no file.", hint="Name a file, or a folder.")
    target = os.path.realpath(path)
    owner = find_owner(target) or ""
    is_own_page = is_page and target == os.path.join(owner, PAGE)
    if owner and not (is_own_page and is_run(owner)):
        kind = "run" if is_run(owner) else "study"
        raise UsageError(
            f"{path} is in the folder of a {kind}, {owner}, whose files no output may replace.",
            hint="Name a place outside of it.",
        )
    with writing_output(path):
        with contextlib.suppress(FileNotFoundError):
            mode = os.stat(target).st_mode
            if is_folder and os.listdir(target):
                raise UsageError(f"{path} is not empty.", hint="Name a new folder.")
            if not is_folder and not stat.S_ISREG(mode):
                raise UsageError(f"{path} is a folder, or no regular file.", hint="Name a file.")
            if not os.access(target, os.W_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        tempfile.TemporaryFile(dir=os.path.dirname(target)).close()
    return target


@contextlib.contextmanager
def writing_output(path: str) -> Iterator[None]:
    """Raise an OSError in the block as an error that names the output.

    Raises:
        RetryError: the disk is full or fails.
        UsageError: the output may not be written, or its name is too long.
    """
    try:
        yield
    except OSError as error:
        message = f"{path} cannot be written: {error.strerror or error}."
        if error.errno in USER_ERRORS:
            raise UsageError(message, hint="Name another place.") from error
        raise RetryError(message, hint="Free some space, or name another place.") from error


def warn(text: str) -> None:
    """Print a warning on stderr."""
    sys.stderr.write(f"warning: {text}\n")
