"""The mutants: single faults in the core and the plugins, each with the tests that should see it.

They are in `mutants.txt`, each like a diff, below a line with its file and its tests:

    @@ toolkit/cluster/channel.py tests/cluster/test_channel_end.py
    silent-process-is-alive
    -last_heard > self._peer_secs and
    +last_heard > 1000 and

A mutant is named after what goes wrong. The text after `-`, of one line or several, occurs once in
the file, as a part of lines or as whole ones; `run_mutants.py` checks that before it runs any. The
text after `+` takes its place. Without a `+`, whole lines are removed.
"""

from __future__ import annotations

import os
from typing import List, NamedTuple, Tuple


class Mutant(NamedTuple):
    """One fault."""

    name: str  # what goes wrong, in lower case with hyphens
    path: str  # of the file, from the repository's root
    old: str  # text that occurs once in the file
    new: str  # the text in its place
    tests: Tuple[str, ...]  # paths or node ids for pytest, from the repository's root

    def apply(self, text: str) -> str:
        """The file's text with the fault."""
        assert text.count(self.old) == 1, f"{self.name}: the text is not unique in {self.path}"
        return text.replace(self.old, self.new)


def read_mutants(text: str) -> List[Mutant]:
    """The mutants of a text like that of `mutants.txt`."""
    mutants = []
    for group in text.split("@@ ")[1:]:
        header, *lines = group.rstrip("\n").split("\n")
        path, *tests = header.split()
        starts = [number for number, line in enumerate(lines) if line[:1] not in ("-", "+")]
        for start, end in zip(starts, [*starts[1:], len(lines)]):
            removed = [line[1:] for line in lines[start:end] if line.startswith("-")]
            added = [line[1:] for line in lines[start:end] if line.startswith("+")]
            old = "\n".join(removed) if added else "\n".join([*removed, ""])
            mutants.append(Mutant(lines[start], path, old, "\n".join(added), tuple(tests)))
    return mutants


with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "mutants.txt")) as _file:
    MUTANTS = read_mutants(_file.read())
