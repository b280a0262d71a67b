"""Starts the processes of a job, passes signals on to them, and restarts them after a death."""

from __future__ import annotations

import functools
import os
import selectors
import shlex
import signal
import time
from typing import Any, List, Mapping, Optional

from ..child_process import COMMAND_LINE
from ..errors import is_verbose
from .chaos import POLL_SECS, Chaos
from .child import Child, Ending, child_code
from .layout import Command, Layout, held_ports, local_environments
from .output import LAUNCHER
from .signals import INTERRUPTED, handle_signals

GRACE_SECS = 15.0  # for the others after one has failed, and after the chief has finished
NOTICE_SECS = 3.0  # after a failure of the chief, others that have not joined it are ended
WAIT_SECS = 0.25  # at most, from one look at all processes to the next
CHIEF = "chief"


def _rank(ending: Ending) -> int:
    """Of several endings, the smallest number is the cause of the others."""
    if ending.code == 0:
        return 0
    if ending.signum:
        return 1
    return 3 if ending.code == 138 else 2  # 138 is what the others of a failed process end with


class Launcher:
    """Runs one job: the processes of a layout, each of which runs the command, with one log.

    After a death they start again, at most `restarts` times and after each kill of `chaos`. They
    run the statements with these variables. After a failure or the end of the chief, the others
    have `grace_secs` to end.
    """

    def __init__(
        self,
        layout: Layout,
        command: Command,
        log: Any,
        restarts: int = 3,
        chaos: Optional[Chaos] = None,
        variables: Mapping[str, str] = os.environ,
        statements: str = COMMAND_LINE,
        grace_secs: float = GRACE_SECS,
    ):
        self._layout, self._command, self._log = layout, command, log
        self._max_restarts, self._chaos, self._grace_secs = restarts, chaos, grace_secs
        self._variables, self._statements = variables, statements
        self._children: List[Child] = []
        self._victim = ""  # the task that was killed at random since the last start
        self._restarts = 0
        self._has_reported_interrupt = False
        self.interrupts: List[int] = []  # the signals that this process got
        self.hung: List[str] = []  # the tasks that were killed, as they did not end with the others
        self._result: List[str] = []  # a JSON object of the chief, until the job has ended
        self._selector = selectors.DefaultSelector()

    def run(self) -> int:
        """Run the job to its end; return its exit code."""
        with self._selector, handle_signals(self._interrupt) as wakeup:
            self._selector.register(wakeup, selectors.EVENT_READ, lambda: os.read(wakeup, 1 << 12))
            try:
                ending = self._run_to_end()
            finally:  # nothing runs, unless this process has failed
                for child in self._children:
                    child.send(signal.SIGKILL)
                while self._children:
                    self._wait()
        code = ending.code
        if len(self.interrupts) > 1 and ending.signum == signal.SIGKILL:
            code = 128 + self.interrupts[0]
        if self._chaos is not None:
            text = f"chaos: {self._chaos.summary()}; the job ended with exit code {code}"
            self._log.write(LAUNCHER, text)
        if self._result:
            self._log.write_result("".join(self._result))
        return code

    # ------------------------------------------------------------------------------ start, restart

    def _run_to_end(self) -> Ending:
        """Start the tasks, again and again after deaths; return how the last attempt ended."""
        ending = self._run_once(self._command.words)
        while self._is_to_restart(ending):
            ending = self._run_once(self._command.again)
        if ending.code and not self.interrupts and not self._layout.is_alone:
            self._log.write(LAUNCHER, f"{ending}, and with it the job")
        can_continue = ending.is_retryable or ending.code in INTERRUPTED
        if can_continue and self._command.is_started:
            run = shlex.quote(self._command.run_dir)
            text = f"Continue with: toolkit launch {self._layout.flags} -- resume {run}"
            self._log.write(LAUNCHER, text)
        return ending

    def _run_once(self, words: List[str]) -> Ending:
        """Start all tasks, and wait until all have ended."""
        decisive: Optional[Ending] = None  # the first failure, or the end of the chief
        ask_at = kill_at = float("inf")  # when those that still run are asked to end, and killed
        self._victim = ""
        self._result.clear()
        with held_ports(self._layout.num_servers + 1) as ports:
            for name, variables in local_environments(self._layout, ports).items():
                if not self.interrupts:
                    self._start(name, words, variables)
            if self._chaos is not None:
                self._chaos.plan_kill()
            while self._children:
                endings, now = self._wait(), time.monotonic()
                for ending in endings if decisive and not decisive.code else ():
                    if ending.code:
                        self._log.write(LAUNCHER, f"{ending}, after the chief had finished")
                ends = [ending for ending in endings if ending.code or ending.name == CHIEF]
                if ends and decisive is None:
                    decisive = min(ends, key=_rank)
                    kill_at = now + self._grace_secs
                if any(ending.name == CHIEF and ending.code for ending in ends):
                    ask_at = now + NOTICE_SECS
                    kill_at = min(kill_at, now + self._grace_secs / 2)
                if now > kill_at:
                    self._kill_rest()
                elif now > ask_at:
                    for child in self._children:
                        if not child.signals:
                            child.send(signal.SIGTERM)
                elif decisive is None:
                    self._kill_at_random()
        return decisive or Ending(LAUNCHER, 128 + self.interrupts[0])

    def _is_to_restart(self, ending: Ending) -> bool:
        if self._chaos and self._victim and ending.signum != signal.SIGKILL:
            self._chaos.take_back()  # the job had just ended by itself
        if self.interrupts or not ending.is_retryable:
            return False
        count = self._layout.num_servers
        again = "starting it again" if count == 1 else f"starting all {count} processes again"
        if self._chaos and self._victim and ending.signum == signal.SIGKILL:
            self._log.write(LAUNCHER, f"{ending} by --chaos; {again}")
            self._chaos.on_death()
            return True
        if self._restarts == self._max_restarts:
            return False
        self._restarts += 1
        number = f"restart {self._restarts} of {self._max_restarts}"
        self._log.write(LAUNCHER, f"{ending}; {again} ({number})")
        return True

    def _start(self, name: str, words: List[str], variables: Mapping[str, str]) -> None:
        is_chief = name == CHIEF
        take_result = self._result.append if "--json" in words else self._log.write_result
        child = Child(
            name,
            child_code(self._statements),
            words if is_chief else [word for word in words if word != "--json"],
            {**self._variables, **variables},
            self._selector,
            functools.partial(self._log.add, name),
            take_result if is_chief else None,
        )
        self._children.append(child)
        if is_verbose():
            self._log.write(LAUNCHER, f"{name}: process {child.pid}, {variables['TF_CONFIG']}")
        if self.interrupts and not child.signals:  # it did not run yet when the signal came
            child.send(self.interrupts[0])

    # -------------------------------------------------------------------------------- wait, output

    def _wait(self) -> List[Ending]:
        """Pass on output until something happens; return how children have ended, if any have."""
        is_chaotic = self._chaos is not None and self._chaos.is_active
        for key, _ in self._selector.select(POLL_SECS if is_chaotic else WAIT_SECS):
            key.data()
        endings = [ending for ending in map(Child.poll, list(self._children)) if ending]
        if len(self.interrupts) == 1 and not self._has_reported_interrupt:
            self._has_reported_interrupt = True
            text = f"Interrupted: waiting for {len(self._children)} to end; a second signal kills"
            self._log.write(LAUNCHER, text)
        names = [ending.name for ending in endings]
        self._children = [child for child in self._children if child.name not in names]
        return endings

    # ----------------------------------------------------------------------------------------- end

    def _interrupt(self, signum: int) -> None:
        """Pass the first signal on; the second kills. This runs in a signal handler."""
        self.interrupts.append(signum)
        for child in list(self._children):
            if len(self.interrupts) > 1:
                child.send(signal.SIGKILL)
            elif not child.signals:
                child.send(signum)

    def _kill_rest(self) -> None:
        """Kill those that had their time to end."""
        for child in self._children:
            if signal.SIGKILL not in child.signals:
                self._log.write(LAUNCHER, f"{child.name} did not end with the others; killing it")
                self.hung.append(child.name)
                child.send(signal.SIGKILL)

    def _kill_at_random(self) -> None:
        """Kill a process where that is due; before all have met, all: they would wait for it."""
        chaos = self._chaos
        if chaos is None or self.interrupts or not chaos.is_due():
            return
        victim = self._victim = chaos.choose([child.name for child in self._children])
        self._log.write(LAUNCHER, f"kill {len(chaos.victims)} of {chaos.count}: {victim}")
        for child in self._children:
            if child.name == victim or not chaos.has_begun:
                child.send(signal.SIGKILL)
