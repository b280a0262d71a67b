"""Starts the processes of a job, passes signals on to them, and restarts them after a death."""

from __future__ import annotations

import contextlib
import functools
import os
import select
import shlex
import signal
import sys
import time
from typing import Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ..child_process import COMMAND_LINE
from ..cluster.tasks import Task
from ..errors import is_verbose
from .chaos import POLL_SECS, Chaos
from .child import Child, Ending, child_code, python_arguments
from .command import Command
from .layout import Layout, local_environments
from .output import LAUNCHER, MergedLog
from .ports import held_ports
from .signals import handle_signals

GRACE_SECS = 15.0  # for the others after one has failed, and after the chief has finished
NOTICE_SECS = 3.0  # after a failure of the chief, others that have not joined it are ended
WAIT_SECS = 0.25  # at most, from one look at all processes to the next
INTERRUPTED = (128 + signal.SIGINT, 128 + signal.SIGTERM)  # exit codes; the state is committed
EVALUATOR = Task("evaluator", 0, "").name


class LaunchOptions(NamedTuple):
    """How to start and restart.

    Attributes:
        restarts: how often, at most.
        chaos: kills processes; None for no kills.
        variables: the environment of this process.
        statements: the code of each process.
        grace_secs: how long the others may take to end after a failure or the end of the chief.
    """

    restarts: int = 3
    chaos: Optional[Chaos] = None
    variables: Mapping[str, str] = os.environ
    statements: str = COMMAND_LINE
    grace_secs: float = GRACE_SECS


class Attempt:
    """What has happened since the tasks were last started.

    Attributes:
        ending: what decides on the job: the first failure, or the end of the chief.
        deadline: the time at which the rest is killed; None as long as nothing is decided.
        evaluator_restarts: how often the evaluator was restarted after a fault of the machine.
    """

    def __init__(self, grace_secs: float):
        self.ending: Optional[Ending] = None
        self.deadline: Optional[float] = None
        self.evaluator_restarts = 0
        self._grace_secs = grace_secs
        self._chief_failure: Optional[float] = None

    def add(self, endings: Sequence[Ending]) -> None:
        """Note what ended at the same time, about."""
        now = time.monotonic()
        decisive = [e for e in endings if e.code or e.name == "chief"]
        if decisive and self.ending is None:
            self.ending = min(decisive, key=_rank)
            self.deadline = now + self._grace_secs
        if any(ending.name == "chief" and ending.code for ending in endings):
            self._chief_failure = now
            self.deadline = min(self.deadline or now, now + self._grace_secs / 2)

    @property
    def has_failed(self) -> bool:
        return self.ending is not None and self.ending.code != 0

    @property
    def has_failed_chief(self) -> bool:
        """Whether the chief has failed so long ago that the others, if they could, would know."""
        failure = self._chief_failure
        return failure is not None and time.monotonic() > failure + NOTICE_SECS

    @property
    def is_overdue(self) -> bool:
        return self.deadline is not None and time.monotonic() > self.deadline


def _rank(ending: Ending) -> int:
    """Of several endings, the smallest number is the cause of the others."""
    if ending.code == 0:
        return 0
    if ending.signum:
        return 1
    return 3 if ending.code == 138 else 2  # 138 is what the others of a failed process end with


class Launcher:
    """Runs one job.

    Args:
        layout: which processes there are.
        command: what each of them runs.
        log: where their lines go.
        options: how to start and restart.
    """

    def __init__(
        self,
        layout: Layout,
        command: Command,
        log: MergedLog,
        options: LaunchOptions = LaunchOptions(),  # noqa: B008 (immutable)
    ):
        self._layout = layout
        self._command = command
        self._log = log
        self._options = options
        self._chaos = options.chaos
        self._children: List[Child] = []
        self._attempt = self._evaluator_attempt = Attempt(options.grace_secs)
        self._restarts = 0
        self._has_reported_interrupt = False
        self._interrupts: List[int] = []
        self._evaluator_start: Tuple[List[str], Dict[str, str]] = ([], {})
        self._evaluator_code = 0
        self._result = ""  # a JSON object, until the job has ended
        self._wakeup = -1

    def run(self) -> int:
        """Run the job to its end; return its exit code."""
        with handle_signals(self._interrupt) as self._wakeup:
            try:
                ending = self._run_to_end()
                self._end_evaluator(ending)
            finally:
                self._kill_all()
        code = self._exit_code(ending)
        if self._chaos is not None:
            text = f"chaos: {self._chaos.summary()}; the job ended with exit code {code}"
            self._log.write(LAUNCHER, text)
        if self._result:
            sys.stdout.write(self._result)
        return code

    def _exit_code(self, ending: Ending) -> int:
        if len(self._interrupts) > 1 and ending.signum == signal.SIGKILL:
            return 128 + self._interrupts[0]
        return ending.code or self._evaluator_code

    # ------------------------------------------------------------------------------ start, restart

    def _run_to_end(self) -> Ending:
        """Start the tasks, again and again after deaths; return how the last attempt ended."""
        ending = self._run_once(self._command.words)
        while self._is_to_restart(ending):
            self._result = ""
            ending = self._run_once(self._command.again)
        if ending.code and not self._interrupts and not self._layout.is_alone:
            self._log.write(LAUNCHER, f"{ending}, and with it the job")
        can_continue = ending.is_retryable or ending.code in INTERRUPTED
        if can_continue and self._command.is_started:
            run = shlex.quote(self._command.run_dir)
            text = f"Continue with: toolkit launch {self._layout.flags} -- resume {run}"
            self._log.write(LAUNCHER, text)
        return ending

    def _run_once(self, words: List[str]) -> Ending:
        """Start all tasks, and wait until all have ended."""
        attempt = self._attempt = Attempt(self._options.grace_secs)
        with held_ports(self._layout.num_servers + 1) as ports:
            self._start_all(words, local_environments(self._layout, ports))
            self._wait_for_end(attempt)
        return attempt.ending or Ending(LAUNCHER, 128 + self._interrupts[0])

    def _wait_for_end(self, attempt: Attempt) -> None:
        if self._chaos is not None:
            self._chaos.plan_kill()
        while self._trainers_and_servers():
            endings = self._wait()
            attempt.add([ending for ending in endings if ending.name != EVALUATOR])
            self._report_late_failures(endings)
            self._restart_evaluator(endings)
            if attempt.is_overdue:
                self._kill_rest(self._trainers_and_servers())
            elif attempt.has_failed_chief:
                self._end_rest(self._trainers_and_servers())
            elif attempt.ending is None:
                self._kill_at_random()

    def _is_to_restart(self, ending: Ending) -> bool:
        if self._interrupts or ending.code == 0:
            return False
        if not ending.is_retryable:
            return False
        self._restarts -= self._attempt.evaluator_restarts  # it ended because the others did
        if self._is_by_chaos(ending):
            self._log.write(LAUNCHER, f"{ending} by --chaos; {self._again}")
            return True
        if self._restarts == self._options.restarts:
            return False
        self._restarts += 1
        number = f"restart {self._restarts} of {self._options.restarts}"
        self._log.write(LAUNCHER, f"{ending}; {self._again} ({number})")
        return True

    def _is_by_chaos(self, ending: Ending) -> bool:
        victims = [] if self._chaos is None else self._chaos.victims[-1:]
        return ending.signum == signal.SIGKILL and ending.name in victims

    @property
    def _again(self) -> str:
        count = self._layout.num_servers
        return "starting it again" if count == 1 else f"starting all {count} processes again"

    def _start_all(self, words: List[str], environments: Dict[str, Dict[str, str]]) -> None:
        running = [child.name for child in self._children]  # the evaluator
        for name, variables in environments.items():
            if name == EVALUATOR:
                self._evaluator_start = words, variables
            if name not in running and not self._interrupts:
                self._start(name, words, variables)

    def _start(self, name: str, words: List[str], variables: Mapping[str, str]) -> None:
        environment = {**self._options.variables, **variables}
        is_chief = name == "chief"
        if name == EVALUATOR:
            self._evaluator_attempt = self._attempt
            self._evaluator_code = 0
        child = Child(
            name,
            python_arguments(
                child_code(self._options.statements),
                words if is_chief else [word for word in words if word != "--json"],
            ),
            environment,
            functools.partial(self._log.add, name),
            self._take_result if is_chief else None,
        )
        self._children.append(child)
        if is_verbose():
            self._log.write(LAUNCHER, f"{name}: process {child.pid}, {variables['TF_CONFIG']}")
        if self._interrupts and not child.signals:  # it did not run yet when the signal came
            child.send(_signal_to_pass_on(self._interrupts[0]))

    # -------------------------------------------------------------------------------- wait, output

    def _wait(self) -> List[Ending]:
        """Pass on output until something happens; return how children have ended, if any have."""
        poll = select.poll()
        poll.register(self._wakeup, select.POLLIN)
        owners = {s.descriptor: child for child in self._children for s in child.streams}
        for descriptor in owners:
            poll.register(descriptor, select.POLLIN)
        is_chaotic = self._chaos is not None and self._chaos.is_active
        ready = poll.poll(1000 * (POLL_SECS if is_chaotic else WAIT_SECS))
        for child in {owners[number] for number, _ in ready if number in owners}:
            child.pump()
        with contextlib.suppress(BlockingIOError):
            os.read(self._wakeup, 1 << 12)
        endings = [ending for ending in map(Child.poll, list(self._children)) if ending]
        self._report_interrupt()
        names = [ending.name for ending in endings]
        self._children = [child for child in self._children if child.name not in names]
        return endings

    def _take_result(self, text: str) -> None:
        if self._command.has_json:
            self._result += text
        else:
            self._log.write_result(text)

    # ----------------------------------------------------------------------------------------- end

    def _trainers_and_servers(self) -> List[Child]:
        return [child for child in self._children if child.name != EVALUATOR]

    def _interrupt(self, signum: int) -> None:
        """Pass the first signal on; the second kills. This runs in a signal handler."""
        is_second = bool(self._interrupts) and signum != signal.SIGHUP
        self._interrupts.append(signum)
        for child in list(self._children):
            if is_second:
                child.send(signal.SIGKILL)
            elif not child.signals:
                child.send(_signal_to_pass_on(signum))

    def _report_interrupt(self) -> None:
        if len(self._interrupts) == 1 and not self._has_reported_interrupt:
            self._has_reported_interrupt = True
            count = len(self._children)
            rest = "1 process; a second signal kills it"
            if count > 1:
                rest = f"{count} processes; a second signal kills them"
            self._log.write(LAUNCHER, f"Interrupted: waiting for {rest}")

    def _end_rest(self, children: List[Child]) -> None:
        """Ask those to end for whom there is nothing left to do."""
        for child in children:
            if not child.signals:
                child.send(signal.SIGTERM)

    def _kill_rest(self, children: List[Child]) -> None:
        """Kill those that had their time to end."""
        for child in children:
            if signal.SIGKILL not in child.signals:
                self._log.write(LAUNCHER, f"{child.name} did not end with the others; killing it")
                child.send(signal.SIGKILL)

    def _kill_all(self) -> None:
        """Kill what still runs: nothing, unless this process has failed."""
        for child in self._children:
            child.send(signal.SIGKILL)
        while self._children:
            self._wait()

    def _report_late_failures(self, endings: Sequence[Ending]) -> None:
        """Report failures after the chief has finished; its result stands."""
        decisive = self._attempt.ending
        for ending in endings:
            is_failure = ending.code and ending.name not in (EVALUATOR, "chief")
            if is_failure and decisive is not None and decisive.code == 0:
                self._log.write(LAUNCHER, f"{ending}, after the chief had finished")

    def _restart_evaluator(self, endings: Sequence[Ending]) -> None:
        """Restart the evaluator alone if it has died; the training continues without it."""
        for ending in endings:
            if ending.name != EVALUATOR or not ending.code or self._interrupts:
                continue
            if self._has_job_died(ending):
                if not self._attempt.has_failed:  # else it starts with the next attempt
                    self._start(EVALUATOR, *self._evaluator_start)
                continue
            is_counted = not self._is_by_chaos(ending)
            if not ending.is_retryable or is_counted and self._restarts == self._options.restarts:
                self._evaluator_code = ending.code
                self._log.write(LAUNCHER, f"{ending}; the training continues without it")
                continue
            self._restarts += is_counted
            self._attempt.evaluator_restarts += is_counted and ending.code == 138
            self._log.write(LAUNCHER, f"{ending}; starting it again")
            self._start(EVALUATOR, *self._evaluator_start)
            if self._chaos is not None and not is_counted:
                self._chaos.plan_kill()

    def _has_job_died(self, ending: Ending) -> bool:
        """Whether the evaluator ended because the run that it follows had died."""
        has_restarted = self._evaluator_attempt is not self._attempt
        return ending.code == 138 and (has_restarted or self._attempt.has_failed)

    def _end_evaluator(self, ending: Ending) -> None:
        """Wait until the evaluator has evaluated the last checkpoint; end it if the job failed."""
        deadline = None
        for child in self._children:
            if ending.code and not child.signals:
                child.send(signal.SIGTERM)
                deadline = time.monotonic() + self._options.grace_secs
        while self._children:
            endings = self._wait()
            if not ending.code:
                self._restart_evaluator(endings)
            elif deadline is not None and time.monotonic() > deadline:
                self._kill_rest(self._children)

    def _kill_at_random(self) -> None:
        chaos = self._chaos
        if chaos is not None and chaos.is_due() and not self._interrupts:
            victim = chaos.choose([child.name for child in self._children])
            self._log.write(LAUNCHER, f"kill {len(chaos.victims)} of {chaos.count}: {victim}")
            for child in self._children:
                if child.name == victim:
                    child.send(signal.SIGKILL)


def _signal_to_pass_on(signum: int) -> int:
    """The signal for a child: it does not handle SIGHUP."""
    return signal.SIGTERM if signum == signal.SIGHUP else signum
