"""`--with profiler`: what a step spends its time and memory on.

For each step of --profile-steps (20 by default), RUN/profile has the Chrome trace step-N.json
(chrome://tracing), which the core writes, and step-N.csv with a row for each op: time, calls, and
the bytes that it allocated. The log shows the types of ops that take most of the time. A traced
step runs slower than others, and ops of several threads overlap: the times are shares, not seconds
of a step. What XLA compiles is one op.
"""

from __future__ import annotations

import os

from toolkit import Options, hookimpl, option


class ProfilerOptions(Options):
    core_defaults = {"profile_steps": [20]}
    zero_strength = {}

    profiler_rows: int = option(
        10,
        "types of ops in the log, those that take the most time",
        group="Profiler",
        affects_result=False,
        ge=0,
    )


@hookimpl
def options():
    return ProfilerOptions


@hookimpl
def session_hooks(run):
    from .op_times import OpTimes

    folder = os.path.join(run.folder, "profile")
    return [OpTimes(folder, run.options.profile_steps, run.options.profiler_rows)]
