"""An exception of a plugin in one line, with its place in the plugin's code."""

from __future__ import annotations

import os
import traceback
from typing import Optional


def summarize_exception(error: BaseException, folder: str = "") -> str:
    """An exception in one line: type, message, and the place in the plugin's code.

    Args:
        error: any exception. The message of a SyntaxError already names file and line.
        folder: the plugin's folder. The place is the last frame in it; if there is none, the last
            frame outside of the toolkit.
    """
    text = "{}: {}".format(type(error).__name__, str(error).strip().split("\n")[0])
    frame = None if isinstance(error, SyntaxError) else _relevant_frame(error, folder)
    if frame is not None:
        text += f" ({frame.filename}:{frame.lineno})"
    return text.rstrip(".")


def _relevant_frame(error: BaseException, folder: str) -> Optional[traceback.FrameSummary]:
    frames = traceback.extract_tb(error.__traceback__)
    in_plugin = [frame for frame in frames if folder and frame.filename.startswith(folder)]
    core = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep  # toolkit/
    outside = [frame for frame in frames if not os.path.abspath(frame.filename).startswith(core)]
    candidates = in_plugin or outside
    return candidates[-1] if candidates else None
