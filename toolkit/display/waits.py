"""What a person waits for: a bar on a terminal and one line elsewhere, once it takes a while.

The console that is shown (`Console.shown`) has them; without one, stderr has, if it is a terminal.
"""

from __future__ import annotations

import contextlib
import threading
from typing import Any, Callable, Dict, Iterator, List, Optional

from .console import Console, consoles

DELAY_SECS = 2.0  # from which a wait is shown

_waits: List[Wait] = []  # those under way, the innermost last


class Wait:
    """Work that takes a while; `waiting` makes it."""

    def __init__(self, text: str, total: Optional[float], is_logged: bool):
        self._text = text
        self.total = total
        self._is_logged = is_logged
        self._read: Callable[[], float] = lambda: 0
        self._remove: Optional[Callable[[], None]] = None
        self._has_ended = False
        self._lock = threading.Lock()

    def show(self, done: float, total: Optional[float] = None) -> None:
        """Say how much is done, in the unit of the total; another total replaces that of before."""
        self.follow(lambda: done, total)

    def follow(self, read: Callable[[], float], total: Optional[float] = None) -> None:
        """Like `show`; `read` is called, in another thread, whenever the bar is drawn."""
        self._read, self.total = read, self.total if total is None else total

    def appear(self) -> None:
        """Show it, unless it has ended."""
        with self._lock:
            if self._has_ended:
                return
            console = consoles[-1] if consoles else Console()
            if console.is_terminal:
                self._remove = console.add_row(self._describe)
            elif self._is_logged and consoles and _waits[0] is self:
                console.log(self._text)

    def vanish(self) -> None:
        """End it."""
        with self._lock:
            self._has_ended = True
            if self._remove is not None:
                self._remove()

    def _describe(self, speed: float) -> Dict[str, Any]:
        done = self._read()
        share = f"{min(1.0, done / self.total):.0%}" if self.total else ""
        return {"description": self._text, "completed": done, "total": self.total, "text": share}


@contextlib.contextmanager
def waiting(text: str, total: Optional[float] = None, is_logged: bool = True) -> Iterator[Wait]:
    """Tell a person what the block does, if it takes more than two seconds.

    Args:
        text: as "Decoding images".
        total: of the work, in any unit, such as examples; None if it is unknown.
        is_logged: whether it is worth a line where there is no terminal. A wait within another has
            none.

    Yields:
        The `Wait`, whose method `show` takes how much is done.
    """
    wait = Wait(text, total, is_logged)
    timer = threading.Timer(DELAY_SECS, wait.appear)
    timer.daemon = True
    _waits.append(wait)
    timer.start()
    try:
        yield wait
    finally:
        timer.cancel()
        wait.vanish()
        _waits.remove(wait)


def follow_steps(total: int, read: Callable[[], int]) -> None:
    """Let the innermost wait, if there is one, show the steps of a run that shows nothing."""
    if _waits:
        wait = _waits[-1]
        wait.follow(read, None if wait.total is not None else total)
