"""What a TensorFlow error in the loop means: data, a divergence, a lost session, too little memory.

Each becomes one of the toolkit's errors, so that none passes for success.
"""

from __future__ import annotations

import contextlib
from typing import Sequence

from ..compat import summarize_tf_error, tf
from ..errors import DataError, DivergedError, RetryError, ToolkitError
from ..graph.guard import GuardValues, describe_refusal, read_refusal


@contextlib.contextmanager
def translated_errors(loop):
    """Raise what happens inside as a toolkit error, with the step at which it happened.

    Args:
        loop: its `step`, `target` and `reader_failure` are read when an error comes.
    """
    try:
        yield
    except (ToolkitError, KeyboardInterrupt):
        raise
    except Exception as error:
        if isinstance(error, tf.errors.OpError) and loop.reader_failure is not None:
            raise loop.reader_failure from error
        translation = _translate(error, loop.step, loop.target)
        if translation is None:
            raise
        raise translation from error


def diverged(step: int, refusal: Sequence[GuardValues]) -> DivergedError:
    """The error of a step that the guard refused.

    Args:
        step: the last good step.
        refusal: the values that the guard saw in the next step.
    """
    return DivergedError(
        f"Training diverged in step {step + 1}: {describe_refusal(refusal)}.",
        hint=f"Step {step} is kept; try a lower --learning-rate, or --on-nonfinite skip.",
    )


def _translate(error, step: int, target: int):
    """The toolkit's error for an error in the step after `step`; None where there is none."""
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
            f"The data cannot be read in step {step + 1}: {message}.",
            hint="Check it with 'toolkit data check'.",
        )
    if isinstance(error, (tf.errors.AbortedError, tf.errors.UnavailableError)):
        return RetryError(f"The session was lost in step {step + 1}: {message}.")
    if isinstance(error, (tf.errors.ResourceExhaustedError, MemoryError)):
        return RetryError(
            f"Step {step + 1} needs more memory than there is: {message}.",
            hint="Free some memory, or start a new run with a smaller --batch-size.",
        )
    if isinstance(error, tf.errors.OpError):
        return ToolkitError(
            f"Step {step + 1} failed: {message}.", hint="Run again with -v for the traceback."
        )
    return None
