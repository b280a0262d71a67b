"""The process between a tournament and a program: it measures the program's CPU time, limits it,
and ends it with all that it started.

It runs as a script and imports the standard library alone. A JSON object, its argument, says what
to run; one on stdout says how it ended. SIGTERM, or the death of the tournament, ends the program.
"""

import contextlib
import ctypes
import json
import os
import random
import resource
import signal
import subprocess
import sys
import time

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


def read_living():
    """Return {pid: (of its parent, CPU seconds with those of children that it waited for)}."""
    processes, tick = {}, os.sysconf("SC_CLK_TCK")
    for name in os.listdir("/proc") if os.path.isdir("/proc/self") else ():
        with contextlib.suppress(OSError, ValueError, IndexError):
            with open(f"/proc/{int(name)}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
            processes[int(name)] = int(fields[1]), sum(map(int, fields[11:15])) / tick
    return processes


def descendants(root, processes):
    """Return {pid: CPU seconds} of all below a process, in a table of `read_living`."""
    found = {}
    queue = [root]
    while queue:
        parent = queue.pop()
        children = {pid: secs for pid, (above, secs) in processes.items() if above == parent}
        found.update(children)
        queue += children
    return found


class Supervisor:
    """Runs one program.

    As the subreaper of its descendants it becomes the parent of those whose own parent ends, so
    that none escapes its measurement or its kill.

    Args:
        request: "command" (a list of words), "log" (a file for stdout and stderr), "limit" (CPU
            seconds), "idle_secs" (without any CPU time, after which it hangs), "cores" (on which
            it may run; 0 for all), "parent" (the tournament's pid).
    """

    def __init__(self, request):
        self._request = request
        self._code = None  # of the program, when it has ended
        self._secs = 0.0  # of its CPU, as far as they were seen
        self._last, self._busy = 0.0, time.monotonic()  # CPU seconds, and when they changed
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
        if self._request["cores"]:
            with contextlib.suppress(OSError, AttributeError):  # Linux alone limits the cores
                cores = sorted(os.sched_getaffinity(0))
                count = min(self._request["cores"], len(cores))
                os.sched_setaffinity(0, random.sample(cores, count))

    def _interrupt(self, signum, frame):
        self._is_interrupted = True

    def run(self):
        """Wait for the end, and return it.

        Returns:
            "code" (as a shell shows it), "cpu_secs" (of all processes), "stopped" ("" or why it was
            killed: "interrupted", "limit" or "idle").
        """
        try:
            stopped = self._wait()
        finally:
            self._kill_all()
        return {"code": self._code, "cpu_secs": self._measure(), "stopped": stopped}

    def _wait(self):
        """Wait for the end of the program, or return why it has to be killed."""
        measured = 0.0  # monotonic seconds
        while self._code is None:
            if self._is_interrupted or os.getppid() != self._request["parent"]:
                return "interrupted"
            if time.monotonic() - measured >= _MEASURE_SECS:
                measured = time.monotonic()
                if self._measure() > self._request["limit"]:
                    return "limit"
                if measured - self._busy > self._request["idle_secs"]:
                    return "idle"
            time.sleep(_WAIT_SECS)
            self._reap()
        return ""

    def _measure(self):
        """Return the CPU seconds of those that live and of those that were waited for, by whomever.

        They never fall, although those of a process are lost if nobody waits for it.
        """
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        living = descendants(os.getpid(), read_living())
        secs = usage.ru_utime + usage.ru_stime + sum(living.values())
        if abs(secs - self._last) > 0.05:
            self._last, self._busy = secs, time.monotonic()
        self._secs = max(self._secs, secs)
        return self._secs

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
        """Kill the program and what it has left behind."""
        for _ in range(100):
            pids = set(descendants(os.getpid(), read_living()))
            if self._code is None:
                pids.add(self._process.pid)
            for pid in pids:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            self._reap()
            if not pids:
                break
            time.sleep(0.02)


if __name__ == "__main__":
    try:
        answer = Supervisor(json.loads(sys.argv[1])).run()
    except OSError as error:
        answer = {"error": str(error)}
    sys.stdout.write(json.dumps(answer) + "\n")
