"""What the process of a program does before it becomes the program: it takes its limits.

It runs as a script, with the standard library alone: PARENT CPU_SECS CORES COMMAND...
"""

import contextlib
import ctypes
import os
import random
import resource
import signal
import sys

_PR_SET_PDEATHSIG = 1  # of Linux's <sys/prctl.h>


def main(parent, cpu_secs, cores, *command):
    """Become the program of these words. It ends with the tournament, whose pid is `parent`, and
    gets SIGXCPU after the CPU seconds, as does each process that it starts. `cores` says on how
    many it may run; 0 for all.
    """
    with contextlib.suppress(OSError, AttributeError):  # not on Linux
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != int(parent):
        sys.exit(128 + signal.SIGKILL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # which the signal of the limit would leave
    most = resource.getrlimit(resource.RLIMIT_CPU)[1]  # of the tournament, which it cannot raise
    most = sys.maxsize if most == resource.RLIM_INFINITY else most
    limits = min(int(cpu_secs), most), min(int(cpu_secs) + 5, most)
    resource.setrlimit(resource.RLIMIT_CPU, limits)
    if int(cores):
        with contextlib.suppress(OSError, AttributeError):  # Linux alone limits the cores
            present = sorted(os.sched_getaffinity(0))
            os.sched_setaffinity(0, random.sample(present, min(int(cores), len(present))))
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.exit(f"it did not start: {error.strerror}")


if __name__ == "__main__":
    main(*sys.argv[1:])
