"""The process between a tournament and a program: it measures the program's CPU time, limits it,
and ends it with all that it started.

It runs as a script and imports the standard library alone. A JSON object on the first line of stdin
says what to run; one on stdout says how it ended. The end of stdin, so also the death of the
tournament, ends the program.
"""

import contextlib
import ctypes
import json
import os
import random
import resource
import select
import signal
import subprocess
import sys
import time
from typing import Dict, List

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36  # of Linux's <sys/prctl.h>
_WAIT_SECS = 0.1  # from one look at the program to the next
_MEASURE_SECS = 1.0  # from one measurement of its CPU time to the next


def set_process_flag(flag, value):
    """Call `prctl` where there is one."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(flag, value, 0, 0, 0)


def end_with_parent(signum):
    """Let this process get a signal when its parent ends."""
    set_process_flag(_PR_SET_PDEATHSIG, signum)


def limit_cores(count):
    """Let this process, and all that it starts, run on that many cores, chosen at random."""
    with contextlib.suppress(OSError, AttributeError):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, random.sample(cores, min(count, len(cores))))


def read_processes():
    """Return {pid: (pid of the parent, CPU seconds, those of children that it waited for)}."""
    processes, tick = {}, os.sysconf("SC_CLK_TCK")
    for name in os.listdir("/proc") if os.path.isdir("/proc/self") else ():
        with contextlib.suppress(OSError, ValueError, IndexError):
            pid = int(name)
            with open(f"/proc/{pid}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
            own, waited = (sum(map(int, fields[start : start + 2])) / tick for start in (11, 13))
            processes[pid] = int(fields[1]), own, waited
    return processes


def descendants(root, processes):
    """Return {pid: (CPU seconds, those of children that it waited for)} below a process."""
    children: Dict[int, List[int]] = {}
    for pid, (parent, _, _) in processes.items():
        children.setdefault(parent, []).append(pid)
    pids, queue = [], [root]
    while queue:
        offspring = children.get(queue.pop(), [])
        pids += offspring
        queue += offspring
    return {pid: processes[pid][1:] for pid in pids}


class Supervisor:
    """Runs one program.

    As the subreaper of its descendants it becomes the parent of those whose own parent ends, so
    that none escapes its measurement or its kill.

    Args:
        request: "command" (a list of words), "log" (a file for stdout and stderr), "limit" (CPU
            seconds), "mark" (a file by which the program says that its training has ended),
            "drawing_limit" (CPU seconds from then on), "idle_secs" (without any CPU time, after
            which it hangs), "cores" (on which it may run; all without).
    """

    def __init__(self, request):
        self._request = request
        self._code = None  # of the program, when it has ended
        self._training_secs = None  # of its CPU, when it has marked the end of its training
        self._is_interrupted = False
        set_process_flag(_PR_SET_CHILD_SUBREAPER, 1)
        signal.signal(signal.SIGTERM, self._interrupt)
        with open(request["log"], "wb") as log:
            self._process = subprocess.Popen(  # which would be waited for if it were deleted
                request["command"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=self._prepare,
            )

    def _prepare(self):
        """Prepare the process in which the program begins."""
        end_with_parent(signal.SIGKILL)
        if self._request.get("cores"):
            limit_cores(self._request["cores"])

    def _interrupt(self, signum, frame):
        self._is_interrupted = True

    def run(self):
        """Wait for the end, and return it.

        Returns:
            "code" (as a shell shows it), "cpu_secs" (of all), "training_cpu_secs" (None if it did
            not mark the end of its training), "stopped" ("" or why it was killed: "interrupted",
            "training", "drawing" or "idle").
        """
        stopped = ""
        try:
            stopped = self._wait()
        finally:
            cpu_secs = self._kill_all()
        self._check_mark(cpu_secs)
        return {
            "code": self._code,
            "cpu_secs": cpu_secs,
            "training_cpu_secs": self._training_secs,
            "stopped": stopped,
        }

    def _wait(self):
        """Wait for the end of the program, or return why it has to be killed."""
        measured = 0.0  # monotonic seconds
        # Less than before where the times of children that ended are lost.
        last_secs, most_secs, busy = 0.0, 0.0, time.monotonic()
        while True:
            self._reap()
            if self._code is not None:
                return ""
            if self._is_interrupted or self._has_parent_ended():
                return "interrupted"
            now = time.monotonic()
            has_new_mark = self._training_secs is None and os.path.exists(self._request["mark"])
            if now - measured < _MEASURE_SECS and not has_new_mark:
                continue
            measured, secs = now, self._cpu_secs()
            most_secs = max(most_secs, secs)
            self._check_mark(most_secs)
            if abs(secs - last_secs) > 0.05:
                last_secs, busy = secs, now
            reason = self._excess(most_secs) or (
                "idle" if now - busy > self._request["idle_secs"] else ""
            )
            if reason:
                return reason

    def _has_parent_ended(self):
        """Wait a moment; return whether the other end of stdin is closed."""
        readable, _, _ = select.select([sys.stdin], [], [], _WAIT_SECS)
        return bool(readable) and not os.read(sys.stdin.fileno(), 1)

    def _check_mark(self, secs):
        if self._training_secs is None and os.path.exists(self._request["mark"]):
            self._training_secs = secs

    def _excess(self, secs):
        """Return what takes too long, "training" or "drawing"; "" if nothing does."""
        if self._training_secs is None:
            return "training" if secs > self._request["limit"] else ""
        return "drawing" if secs - self._training_secs > self._request["drawing_limit"] else ""

    def _cpu_secs(self):
        """The CPU seconds of those that live and of those that were waited for, by whomever."""
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        living = descendants(os.getpid(), read_processes())
        return usage.ru_utime + usage.ru_stime + sum(map(sum, living.values()))

    def _reap(self):
        """Wait for those that have ended, of which one may be the program."""
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if not pid:
                    return
                if pid == self._process.pid:
                    is_signal = os.WIFSIGNALED(status)
                    self._code = 128 + os.WTERMSIG(status) if is_signal else os.WEXITSTATUS(status)

    def _kill_all(self):
        """Kill the program and what it has left behind; return the CPU seconds of all."""
        for _ in range(100):
            pids = set(descendants(os.getpid(), read_processes()))
            if self._code is None:
                pids.add(self._process.pid)
            for pid in pids:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            self._reap()
            if not pids:
                break
            time.sleep(0.02)
        return self._cpu_secs()


def main():
    # Unbuffered: what follows the line decides only whether stdin is still open.
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(sys.stdin.fileno(), 1)
        if not byte:
            return
        line += byte
    try:
        answer = Supervisor(json.loads(line.decode())).run()
    except OSError as error:
        answer = {"error": str(error)}
    sys.stdout.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
