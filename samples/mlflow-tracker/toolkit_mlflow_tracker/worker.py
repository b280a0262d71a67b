"""A thread that carries out the latest of the requests."""

from __future__ import annotations

import threading
from typing import Any, Callable


class Worker:
    """Calls a function with requests, in a thread. A request replaces one that still waits.

    The thread is a daemon: it never keeps a process from its end.

    Args:
        function: takes a request; what it raises becomes `failure`, and the thread continues.
    """

    def __init__(self, function: Callable[[Any], None]):
        self.failure = ""
        self._function = function
        self._request: Any = None
        self._is_busy = False
        self._condition = threading.Condition()
        threading.Thread(target=self._work, name="mlflow", daemon=True).start()

    def request(self, request: Any) -> None:
        """Have a request carried out soon."""
        with self._condition:
            self._request = request
            self._condition.notify_all()

    def wait(self, secs: float) -> bool:
        """Wait until all is done, for some seconds at most; return whether it is."""
        with self._condition:
            return self._condition.wait_for(self._is_idle, secs)

    def _is_idle(self) -> bool:
        return self._request is None and not self._is_busy

    def _work(self) -> None:
        while True:
            with self._condition:
                self._condition.wait_for(lambda: self._request is not None)
                request, self._request, self._is_busy = self._request, None, True
            failure = self._carry_out(request)
            with self._condition:
                self.failure, self._is_busy = failure, False
                self._condition.notify_all()

    def _carry_out(self, request: Any) -> str:
        """Return why a request failed; "" if it did not."""
        try:
            self._function(request)
        except Exception as error:  # whatever a server, a network or a disk does
            lines = str(error).strip().splitlines() or [""]
            return f"{type(error).__name__}: {lines[0]}"[:300]
        return ""
