"""What drive and dry run share: a script runs, and each call of it is found and answered."""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, List, Mapping, Tuple

from . import script
from .calls import Calls, Kind
from .entropy import fix_entropy
from .noise import fix_op_seeds, make_stateless, with_number
from .observations import observe
from .order import Order
from .patches import Patches
from .queues import Queues
from .session import Sessions


class Observer:
    """Observes a script; a subclass answers its calls.

    Args:
        settings: as of a run: "script", "seed" and "threads".
        as_written: leave noise and order as the script has them, for a graph that is lifted.

    Attributes:
        number: of the last call.
    """

    def __init__(self, settings: Mapping[str, Any], as_written: bool = False):
        self.settings, self._as_written = settings, as_written
        self.calls = Calls(
            settings["script"], (lambda graph: ()) if as_written else Order().complete
        )
        self.refuse = self.calls.refusal
        self.sessions = Sessions(self, settings["threads"])
        self.queues = Queues(self.calls, self.sessions.run)
        self.number = 0

    def install(self, patches: Patches) -> None:
        """Patch what the script calls."""
        seed = self.settings["seed"]
        fix_entropy(patches, seed)
        (fix_op_seeds if self._as_written else make_stateless)(patches, seed)
        self.calls.record_losses(patches)
        self.sessions.install(patches)
        observe(patches, self.sessions, self.see, os.path.dirname(self.settings["script"]))
        self.queues.install(patches)

    def run_script(self) -> None:
        """Execute the script, observed. Whatever it raises comes out of here."""
        with Patches() as patches:
            self.install(patches)
            script.run(self.settings, self.refuse)

    def prepare(self, session, targets, fetches, feeds) -> Tuple[Kind, Dict[Any, Any]]:
        """The kind of the next call, and its feeds with the hidden ones."""
        self.number += 1
        kind = self.calls.find(session.graph, targets, fetches, feeds)
        return kind, {**with_number(session.graph, feeds, self.number), **kind.closed}

    def answer(self, session, targets, fetches, feeds, run) -> List[Any]:
        """The values of the fetches of a call: tensors, with `feeds`: tensor -> array.

        `run` makes it, with other `targets`, `fetches` and `feeds` where it is given those.
        """
        raise NotImplementedError

    def see(self, name: str, read: Callable[[], Any]) -> Any:
        """The JSON value that the script sees besides, by a name; `read` gets it."""
        return read()

    def close(self, number: int, session: Any) -> None:
        """Called before a session is closed."""
