"""`toolkit search`: trials of many configurations at equal budgets."""

from __future__ import annotations

import functools
import os
import sys
from typing import Any, Dict, Optional, Sequence, Tuple

import click

from .. import cli_options as shared
from .. import options as typed
from ..display.escapes import escape_line
from ..display.numbers import format_count
from ..display.waits import waiting
from ..errors import CheckpointError, InterruptedRun, ToolkitError, UsageError
from ..files import TEMPORARY_PREFIX, make_folders
from ..plugins import Plugins, require_trust
from ..search import trial_options
from ..search.definition import EXAMPLES, STEPS, Budget, Definition
from ..search.planning import check_options, complete, with_more_trials
from ..search.space import parse_space
from ..search.study import STUDY_FILE, Stored, Study, read_study
from ..storage.folder_lock import LOCK
from ..storage.own_folders import is_run
from ..storage.run_folder import shell_argument
from .common import flag, model_flags, print_result, switch
from .plugin_command import PluginCommand, selection_options
from .plugin_options import Selection, missing_plugin_error, resolve

# The flags of the search itself that define a study.
_OWN_FLAGS = (
    *("vary", "sampler", "trials", "seeds", "examples", "halving", "metric", "study_seed"),
)


@click.command(
    cls=PluginCommand,
    most_used={
        "search_dir": "the folder of the search",
        "vary": "an option that varies: 1e-4..1e-2:log, 16..256 or a,b,c",
        "plugin": "model plugin: NAME, module:[attribute], ./file.py",
        "trials": "configurations [default 20; of a grid, all]",
        "seeds": "seeds with which each is trained [default 1]",
        "sampler": "how configurations are chosen",
        "examples": "budget: examples that each trial reads; else --steps, --epochs",
        "halving": "pause trials at rungs, and continue the best 1/N",
        "metric": "of the validation split, chooses",
        "workers": "trials at a time on this machine [default 1]",
        "dry_run": "check all, print the plan; train none",
    },
)
@flag("--search-dir", "DIR", "The folder of the search.")
@flag(
    "--vary",
    "NAME=VALUES",
    "An option that varies: 1e-4..1e-2:log, 0..0.5:step=0.1, 16..256 or a,b,c; "
    "A|B where values have commas.",
    multiple=True,
)
@selection_options
@flag("--trials", "N", "Configurations [default 20; of a grid, all].", click.IntRange(1, 9999))
@flag(
    "--seeds",
    "K",
    "Seeds with which each is trained, from --seed on [default 1]; without --vary, of one "
    "configuration.",
    click.IntRange(1, 100),
)
@flag(
    "--sampler",
    "tpe|random|grid",
    "How configurations are chosen [default tpe; grid for at most 64 of lists].",
    click.Choice(["tpe", "random", "grid"]),
)
@flag(
    "--examples",
    "N",
    "Budget: examples that each trial reads; else --steps, --epochs or a usual run.",
    click.IntRange(1),
)
@flag("--halving", "N", "Pause trials at rungs, and continue the best 1/N.", click.IntRange(2, 100))
@flag(
    "--metric",
    "[min:|max:]NAME",
    "Metric of the validation split that chooses [default --best-metric, else the first].",
)
@flag("--study-seed", "N", "Seed of the sampler.", click.IntRange(0))
@flag("--workers", "N", "Trials at a time on this machine.", click.IntRange(1, 256), default=1)
@switch("--dry-run", "Check all, print the plan; train none.")
@model_flags
@click.pass_context
def search(
    ctx: click.Context,
    search_dir: Optional[str],
    workers: int,
    dry_run: bool,
    as_json: bool,
    **flags: Any,
) -> None:
    """Train many configurations at equal budgets, and say which is best.

    Trials are runs in DIR/trials. All configurations that are known beforehand are checked first.

    \b
      toolkit search --search-dir DIR --plugin NAME --vary width=16,32,64
      toolkit search --search-dir DIR               continue it after an interrupt
      toolkit search --search-dir DIR --trials N    train more trials, N in all
    """
    own = {name: flags.pop(name) for name in _OWN_FLAGS}
    values = {name: value for name, value in flags.items() if value is not None}
    selection: Selection = ctx.obj
    if not search_dir:
        raise UsageError(
            "The folder of the search is missing.", hint="Add --search-dir DIR; a new one is made."
        )
    folder = os.path.abspath(os.path.expanduser(search_dir))  # a shell leaves the ~ of --flag=~/x
    try:
        files = set(os.listdir(folder)) if os.path.exists(folder) else set()
    except OSError as error:  # it is a file, or may not be read
        text = f"{folder} cannot be listed: {error.strerror}."
        raise UsageError(text, hint="Name a folder with --search-dir.") from None
    # Of a process that is about to begin the search, or was killed when it did.
    files -= {LOCK, *(name for name in files if name.startswith(TEMPORARY_PREFIX))}
    if files and STUDY_FILE not in files:
        kind = "a run, not a search" if is_run(folder) else "not empty, and no search"
        raise UsageError(f"{folder} is {kind}.", hint="Name a new folder with --search-dir.")
    stored = read_study(folder)
    names = [name for name, value in own.items() if value not in (None, ())] + list(values)
    names += ["with"] * bool(selection.extensions) + ["config"] * bool(selection.layers)
    variable = os.environ.get(typed.variable_name("plugin"))
    is_bare = selection.plugin == variable and {"trials"} >= {*names}
    if selection.plugins is None or (stored and is_bare):  # its own plugin, not the variable's
        definition, plugins = _reopen(folder, stored, names)
        definition = definition._replace(trials=own["trials"] or definition.trials)
    else:
        plugins = selection.plugins
        resolved = resolve(selection, values)
        stated = _state(selection, plugins, own, resolved, workers)
        definition = _plan(folder, stored, stated, resolved)
    definition = _check(definition, stored, plugins)
    if not dry_run:
        return _train(definition, plugins, folder, workers, as_json)
    from ..search.sampler import count_trials

    counts = count_trials(definition)
    rungs = f"; {', '.join(map(str, counts))} train to the rungs" if definition.reduction else ""
    text = f"{format_count(counts[0], 'trial')}{rungs}; nothing was trained"
    facts = {"study": definition.as_json(), "trials": sum(counts)}
    print_result(as_json, facts, [("plan", text)], width=9)


def _reopen(
    folder: str, stored: Optional[Stored], names: Sequence[str]
) -> Tuple[Definition, Plugins]:
    """Return the study that is in the folder, and its plugins; `names` are set besides."""
    if stored is None:
        if names or os.path.exists(folder):
            raise missing_plugin_error()
        raise UsageError(
            f"{folder} does not exist.",
            hint="For a new search, add --plugin NAME and --vary NAME=VALUES.",
        )
    flags = [typed.flag_name(name) for name in names if name != "trials"]
    if flags:
        raise UsageError(
            f"{', '.join(flags)} cannot be set alone for a search that has begun.",
            hint="Leave it out, or repeat the whole command.",
        )
    definition, place = stored[0], os.path.join(folder, STUDY_FILE)
    for reference in (definition.plugin, *definition.extensions):
        require_trust(reference, place)
    plugins = trial_options.load_plugins(definition)
    fields = typed.merge(plugins.options()).model_fields
    texts = [(d.name, choice) for d in definition.space for choice in d.choices or [None]]
    for name, text in [*texts, *definition.options.items()]:
        if name not in fields:  # it would be a flag of the command that trains, such as --with
            raise CheckpointError(
                f"{place} sets '{name}', which is no option of {definition.plugin}.",
                hint="Repeat the whole command with another --search-dir.",
            )
        extra = fields[name].json_schema_extra
        if isinstance(extra, dict) and extra.get("path") == "reference" and text:
            require_trust(str(text), place)
    return definition, plugins


def _plan(
    folder: str, stored: Optional[Stored], stated: Definition, resolved: typed.Resolved
) -> Definition:
    """Return the study that the whole command defines, which states what `_state` returns."""
    options = resolved.options
    check_options(options)
    if stated.seeds[-1] >= 2**31:
        raise UsageError(
            f"--seed {options.seed} leaves no room for {len(stated.seeds)} seeds below 2**31.",
            hint="Set a smaller --seed.",
        )
    if stored is not None:
        definition = complete(stated, stored[0])
        stored[0].refuse_difference(definition, folder)
        return definition
    varies = any(dimension.name == "batch_size" for dimension in stated.space)
    if varies and stated.budget.kind == STEPS:
        shared.warn(
            "batch_size varies, and a budget of steps reads more examples with larger batches; "
            "--examples makes these equal."
        )
    if options.early_stopping:
        shared.warn("--early-stopping may end trials before their budget.")
    if resolved.origins["steps"].is_choice and options.steps and not stated.budget.amount:
        stated = stated._replace(budget=Budget(STEPS, options.steps))
    return complete(stated, stated)


def _state(
    selection: Selection,
    plugins: Plugins,
    own: Dict[str, Any],
    resolved: typed.Resolved,
    workers: int,
) -> Definition:
    """Return what the command says of the study; what it leaves open is false."""
    if not own["vary"] and own["seeds"] is None:
        raise UsageError(
            "No option varies.",
            hint="Add --vary NAME=VALUES, or --seeds K for one configuration; 'toolkit run' trains "
            "a single run.",
        )
    options, origins = resolved.options, resolved.origins
    cls, find_path = type(options), trial_options.absolute_path
    lengths = [f"--{n}" for n in ("steps", "epochs") if origins[n].kind == typed.FLAG]
    lengths += ["--examples"] * (own["examples"] is not None)
    if len(lengths) > 1:
        raise UsageError(
            f"Both {lengths[0]} and {lengths[1]} set the budget of a trial.",
            hint="Set one of them.",
        )
    budget = Budget(EXAMPLES, own["examples"] or 0)
    if lengths == ["--steps"] and options.steps is not None:
        budget = Budget(STEPS, options.steps)
    has_epochs = origins["epochs"].is_choice and not budget.amount
    common, flags = trial_options.shared_options(resolved)
    has_threads = any(getattr(options, name) for name in trial_options.THREADS)
    direction, _, metric = (own["metric"] or "").rpartition(":")
    stated = Definition(
        plugin=typed.map_reference(selection.plugin, find_path),
        extensions=tuple(typed.map_reference(each, find_path) for each in selection.extensions),
        options=common,
        flags=flags,
        space=(),
        sampler=own["sampler"] or "",
        trials=own["trials"] or 0,
        seeds=tuple(range(options.seed, options.seed + (own["seeds"] or 1))),
        budget=budget,
        rungs=(),
        reduction=own["halving"] or 0,
        metric=metric,
        direction=direction,
        moment="",
        interval=(options.evaluate_steps or 0) * origins["evaluate_steps"].is_choice,
        study_seed=own["study_seed"] or 0,
        threads=0 if has_threads else max(1, len(os.sched_getaffinity(0)) // workers),
        epochs=options.epochs if has_epochs else 0.0,
    )

    def check(name: str, value: Any) -> Any:
        values = {name: typed.map_paths(cls, name, value, find_path)}
        options = trial_options.resolve_trial(plugins, stated, values).options
        return options.model_dump(mode="json")[name]

    space = parse_space(own["vary"], cls, check)
    for name in (dimension.name for dimension in space if dimension.name in flags):
        text = f"{typed.flag_name(name)} is set to {typed.format_value(common[name])}, and varies."
        raise UsageError(text, hint="Leave one of them out.")
    return stated._replace(space=space)


def _check(definition: Definition, stored: Optional[Stored], plugins: Plugins) -> Definition:
    """Check what is known beforehand and new, and say what is going to be trained."""
    from ..search.checks import validate

    checked, former = "", 0
    if stored is not None:
        definition, former = with_more_trials(stored[0], definition.trials), stored[0].trials
    if definition.trials != former:
        definition, checked = validate(definition, plugins)
    lines = [f"search   {definition.summary}"]
    lines += [f"vary     {dimension.name}={dimension}" for dimension in definition.space]
    better = "lowest" if definition.direction == "min" else "highest"
    moment = "best checkpoint" if definition.moment == "best" else "last evaluation"
    lines += [f"choose   the {better} {definition.metric} of the validation split, {moment}"]
    count = definition.trials - former
    if former and count:
        lines += [f"more     {format_count(count, 'trial')}, {definition.trials} in all"]
    lines += [f"checked  {checked}"] if checked else []
    sys.stderr.writelines(f"{escape_line(line)}\n" for line in lines)
    return definition


def _train(
    definition: Definition, plugins: Plugins, folder: str, workers: int, as_json: bool
) -> None:
    """Train all trials, and print what came of them."""
    from ..search import outcome
    from ..search.sampler import count_trials
    from ..search.training import find_due, train_all, train_trial

    try:
        make_folders(folder)
    except OSError as error:
        raise UsageError(f"{folder} cannot be created: {error.strerror}.") from None
    find_length = functools.partial(trial_options.find_length, plugins, definition)
    study = Study(definition, folder, find_length)
    try:
        find_due(study)
        with waiting("Training the trials", is_logged=False) as wait:
            wait.show(len(study.results), sum(count_trials(study.definition)))
            train_all(study, workers, outcome.reporter(study, wait.show), train_trial)
    except InterruptedRun as error:
        error.hint = f"Continue with: toolkit search --search-dir {shell_argument(folder)}"
        raise
    table = outcome.make_table(study)
    page = ""
    try:
        page = outcome.write_outcome(table, folder)
    except OSError as error:
        shared.warn(f"The table cannot be written to {folder}: {error.strerror}.")
    if as_json:
        shared.print_json(dict(table, folder=folder))
    else:
        for line in outcome.format_outcome(study.definition, table):
            sys.stdout.write(line + "\n")
        sys.stdout.write(f"page     {page}\n" if page else "")
    if table["best"] is None:
        raise ToolkitError(
            "No configuration finished.",
            hint=f"The table says why; the logs are in {os.path.join(folder, 'trials')}.",
        )
