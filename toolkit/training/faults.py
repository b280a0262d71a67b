"""What an error in the loop means: data, a divergence, a lost session, too little memory.

Each becomes one of the toolkit's errors, so that none passes for success.
"""

from __future__ import annotations

import contextlib
import traceback
from typing import Optional, Sequence

from ..autopsy.op_traceback import find_failing_line
from ..compat import summarize_tf_error, tf
from ..errors import DataError, DivergedError, RetryError, ToolkitError
from ..graph.guard import ADOPTED, GuardValues, describe_refusal, read_refusal
from ..plugins.failures import describe_failure, is_outside_file


@contextlib.contextmanager
def translated_errors(loop):
    """Raise what happens inside as a toolkit error, with the step at which it happened: `step`,
    `target`, `tf_graph` and `reader` of the loop are read when an error comes.
    """
    try:
        yield
    except (ToolkitError, KeyboardInterrupt):
        raise
    except Exception as error:
        # Of a failure in the input, TensorFlow only says that an op failed.
        failure = getattr(loop.reader, "failure", None)
        if isinstance(error, tf.errors.OpError) and failure is not None:
            raise failure from error
        place = find_failing_line(error, loop.tf_graph)
        translation = _translate(error, loop.step, loop.target, f" ({place})" if place else "")
        if translation is None:
            raise
        raise translation from error


def diverged(
    step: int, refusal: Sequence[GuardValues], refused: Optional[int] = None
) -> DivergedError:
    """The error of a step that the guard refused, from the last good step and what the guard saw in
    the next one; or in the step `refused`, which counts, though it changed nothing: others made
    further steps, up to `step`, at the same time.
    """
    kept = "" if refused is None else f", without the change of step {refused}"
    way_out = "try a lower --learning-rate, or --on-nonfinite skip"
    if any(values.name == ADOPTED for values in refusal):
        way_out = "the op is the plugin's own: lower the rate there, or take --on-nonfinite skip"
    elif step == 0:  # no update was made before
        way_out = (
            f"check the data, the initial values and the loss; where these are right, {way_out}"
        )
    error = DivergedError(
        f"Training diverged in step {refused or step + 1}: {describe_refusal(refusal)}.",
        hint=f"Step {step} is kept{kept}; {way_out}.",
    )
    error.is_repeatable = refused is None
    return error


def _translate(error, step: int, target: int, place: str):
    """The toolkit's error for an error in the step after `step`; None for a fault of the core."""
    message = summarize_tf_error(str(getattr(error, "message", error)))
    if isinstance(error, tf.errors.InvalidArgumentError):
        refusal = read_refusal(error.message)
        if refusal is not None:
            return diverged(step, refusal)
    if isinstance(error, (tf.errors.OutOfRangeError, StopIteration)):
        return DataError(
            f"The data ended in step {step + 1} of {target}.",
            hint="Input must repeat without end, a plugin's own input too.",
        )
    if isinstance(error, tf.errors.DataLossError):
        return DataError(
            f"The data cannot be read in step {step + 1}: {message}{place}.",
            hint="Check it with 'toolkit data check'.",
        )
    if isinstance(error, (tf.errors.AbortedError, tf.errors.UnavailableError)):
        return RetryError(f"The session was lost in step {step + 1}: {message}.")
    if isinstance(error, (tf.errors.ResourceExhaustedError, MemoryError)):
        return RetryError(
            f"Step {step + 1} needs more memory than there is: {message}.",
            hint="Free some memory, or start a new run with a smaller --batch-size.",
        )
    failure = describe_failure(error)
    if isinstance(error, tf.errors.OpError):
        return ToolkitError(f"Step {step + 1} failed: {message}{place}.", hint=failure.hint)
    if not is_outside_file(traceback.extract_tb(error.__traceback__)[-1].filename):
        return None
    # Of a hook's thread, or what a hook left behind: a wrong feed, a session that is closed.
    return ToolkitError(f"Step {step + 1} failed: {failure.text}.", hint=failure.hint)
