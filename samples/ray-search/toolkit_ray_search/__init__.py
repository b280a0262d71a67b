"""Search the options of a plugin with Ray Tune: each trial is a run of `toolkit.train`.

A trial has a folder of its own, named by the trial. `toolkit.train` continues the run that is
there, so whoever starts the trial again, after the death of its worker or of the whole search, ends
it with the bits of a trial that nobody killed.
"""

from __future__ import annotations

import os

from ray import tune

import toolkit


def search(
    plugin,
    folder,
    space,
    options=None,
    extensions=(),
    metric="accuracy",
    mode="max",
    trials=10,
    cpus=1,
    max_failures=3,
):
    """Train trials of a plugin on all workers of Ray, or continue the search that is in `folder`.

    Args:
        plugin, extensions: references, as for `toolkit.train`.
        folder: where the runs (`runs/TRIAL`) and Ray's own state are; on several machines, on a
            disk that they share. Other relative paths start at the working directory, too.
        space: option name -> what Ray samples, such as `tune.loguniform(1e-4, 1e-1)`.
        options: values of all trials by option name.
        metric: of the validation split, by which the trials are compared.
        mode: "max" or "min".
        trials: how many.
        cpus: the cores of a trial, which are also its threads.
        max_failures: how often a trial is started again whose worker died or that failed.

    Returns:
        Ray's `ResultGrid`; `get_best_result()` has the `config` of the best trial, and `run_dir`
        and the metric among its `metrics`.
    """
    start, folder = os.getcwd(), os.path.abspath(folder)
    values = {"intra_op_threads": cpus, "inter_op_threads": cpus, **(options or {})}

    def train(sampled):  # in a worker of Ray, whose working directory is another one
        os.chdir(start)
        run_dir = os.path.join(folder, "runs", tune.get_context().get_trial_id())
        with toolkit.train(
            plugin, run_dir, {**values, **sampled}, say=False, extensions=extensions
        ) as trained:
            score = trained.evaluate("validation")["metrics"][metric]
        tune.report({metric: score, "run_dir": run_dir})

    trainable, state = tune.with_resources(train, {"cpu": cpus}), os.path.join(folder, "ray")
    if tune.Tuner.can_restore(state):
        return tune.Tuner.restore(state, trainable, restart_errored=True, param_space=space).fit()
    return tune.Tuner(
        trainable,
        param_space=space,
        tune_config=tune.TuneConfig(metric=metric, mode=mode, num_samples=trials),
        run_config=tune.RunConfig(
            name="ray",
            storage_path=folder,
            failure_config=tune.FailureConfig(max_failures=max_failures),
        ),
    ).fit()
