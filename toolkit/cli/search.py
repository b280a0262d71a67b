"""`toolkit search`: trials of many configurations at equal budgets."""

from __future__ import annotations

import functools
import os
import sys
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Sequence, Tuple

import click

from .. import options as typed
from ..cli_options import (
    json_option,
    optional_output,
    print_json,
    trust_option,
    verbose_option,
    warn,
)
from ..config import json_values
from ..display.escapes import escape_line
from ..display.waits import waiting
from ..errors import CheckpointError, InterruptedRun, ToolkitError, UsageError
from ..files import make_folders
from ..plugins import Plugins, require_trust
from ..storage.folder import shell_argument
from .plugin_command import PluginCommand
from .plugin_options import (
    Selection,
    missing_plugin_error,
    option_values,
    resolve,
)

if TYPE_CHECKING:
    from ..search.definition import Definition
    from ..search.outcome import Outcome

# The flags of the search itself that define a study.
_OWN_FLAGS = (
    *("vary", "sampler", "trials", "seeds", "examples", "halving", "rungs", "metric"),
    "study_seed",
)


@click.command(cls=PluginCommand)
@click.option("--search-dir", metavar="DIR", help="The folder of the search.")
@click.option(
    "--vary",
    multiple=True,
    metavar="NAME=VALUES",
    help="An option that varies: 1e-4..1e-2:log, 0..0.5:step=0.1, 16..256 or a,b,c; "
    "A|B where values have commas.",
)
@click.option("--plugin", metavar="NAME", help="Model plugin: NAME, module:[attribute], ./file.py.")
@click.option("--with", "extensions", multiple=True, metavar="NAME", help="Add an extension.")
@click.option("--config", multiple=True, metavar="FILE", help="TOML or JSON file with options.")
@click.option("--set", "sets", multiple=True, metavar="NAME=VALUE", help="Set any option.")
@click.option(
    "--trials",
    type=click.IntRange(1, 9999),
    metavar="N",
    help="Configurations [default 20; of a grid, all].",
)
@click.option(
    "--seeds",
    type=click.IntRange(1, 100),
    metavar="K",
    help="Seeds with which each is trained, from --seed on [default 1]; without --vary, of one "
    "configuration.",
)
@click.option(
    "--sampler",
    type=click.Choice(["tpe", "random", "grid"]),
    help="How configurations are chosen [default tpe; grid for at most 64 of lists].",
)
@click.option(
    "--examples",
    type=click.IntRange(1),
    metavar="N",
    help="Budget: examples that each trial reads; else --steps, --epochs or a usual run.",
)
@click.option(
    "--halving",
    type=click.IntRange(2, 100),
    metavar="N",
    help="Pause trials at rungs, and continue the best 1/N.",
)
@click.option("--rungs", metavar="A,B", help="Amounts or shares (10%) of the budget for --halving.")
@click.option(
    "--metric",
    metavar="[min:|max:]NAME",
    help="Metric of the validation split that chooses [default --best-metric, else the first].",
)
@click.option("--study-seed", type=click.IntRange(0), metavar="N", help="Seed of the sampler.")
@click.option(
    "--workers",
    type=click.IntRange(1, 256),
    default=1,
    metavar="N",
    help="Trials at a time on this machine [default 1].",
)
@click.option("--dry-run", is_flag=True, help="Check all, print the plan; train none.")
@trust_option
@json_option
@verbose_option
@click.pass_context
def search(
    ctx: click.Context,
    search_dir: Optional[str],
    plugin: Optional[str],
    extensions: Sequence[str],
    config: Sequence[str],
    sets: Sequence[str],
    workers: int,
    dry_run: bool,
    as_json: bool,
    **flags: Any,
) -> int:
    """Train many configurations at equal budgets, and say which is best.

    Trials are runs in DIR/trials. All configurations that are known beforehand are checked first.

    \b
      toolkit search --search-dir DIR --plugin NAME --vary width=16,32,64
      toolkit search --search-dir DIR               continue it after an interrupt
      toolkit search --search-dir DIR --trials N    train more trials, N in all
    """
    own = {name: flags.pop(name) for name in _OWN_FLAGS}
    values = option_values(flags, sets)
    selection: Selection = ctx.obj
    if not search_dir:
        raise UsageError(
            "The folder of the search is missing.", hint="Add --search-dir DIR; a new one is made."
        )
    folder = os.path.abspath(search_dir)
    is_study = _check_folder(folder)
    is_continued = selection.plugins is None and (not own["vary"] or is_study)
    if is_continued:
        definition, plugins = _read_study(folder, own, values)
    else:
        definition, plugins = _plan(folder, selection, own, values, workers)
    if dry_run:
        return _print_plan(definition, as_json)
    return _print_outcome(_train(definition, plugins, folder, workers), folder, as_json)


def _check_folder(folder: str) -> bool:
    """Return whether a folder has a study; refuse one with something else in it."""
    from ..search.definition import DEFINITION_FILE
    from ..search.study import LOCK_FILE

    if os.path.exists(folder) and not os.path.isdir(folder):
        raise UsageError(f"{folder} is a file.", hint="Name a folder with --search-dir.")
    names = set(os.listdir(folder)) if os.path.isdir(folder) else set()
    if names - {LOCK_FILE} and DEFINITION_FILE not in names:
        kind = "a run, not a search" if "manifest.json" in names else "not empty, and no search"
        raise UsageError(f"{folder} is {kind}.", hint="Name a new folder with --search-dir.")
    return DEFINITION_FILE in names


# ---------------------------------------------------------------------------------------- continue


def _read_study(
    folder: str, own: Dict[str, Any], values: Dict[str, typed.Value]
) -> Tuple[Definition, Plugins]:
    """Return the study that is in the folder."""
    from ..search.definition import DEFINITION_FILE, read_study
    from ..search.trial_options import load_plugins

    names = [name for name, value in own.items() if value not in (None, ())] + list(values)
    stored = read_study(folder)
    if stored is None:
        if not names and not os.path.exists(folder):
            raise UsageError(
                f"{folder} does not exist.",
                hint="For a new search, add --plugin NAME and --vary NAME=VALUES.",
            )
        raise missing_plugin_error()
    flags = [typed.flag_name(name) for name in names if name != "trials"]
    if flags:
        raise UsageError(
            f"{', '.join(flags)} cannot be set alone for a search that has begun.",
            hint="Leave it out, or repeat the whole command.",
        )
    definition, place = stored.definition, os.path.join(folder, DEFINITION_FILE)
    for reference in (definition.plugin, *definition.extensions):
        require_trust(reference, place)
    plugins = load_plugins(definition)
    _check_values(definition, plugins, place)
    return _add_trials(definition, own["trials"] or definition.trials, plugins), plugins


def _add_trials(existing: Definition, trials: int, plugins: Plugins) -> Definition:
    """Return a study, perhaps with more trials, after checking those that are known beforehand."""
    from ..search.planning import with_more_trials
    from ..search.validation import validate

    definition = with_more_trials(existing, trials)
    _describe(definition)
    count = definition.trials - existing.trials
    if count:
        _say(f"more     {count} trial{'s' * (count != 1)}, {definition.trials} in all")
        _say(f"checked  {validate(definition, plugins)}")
    return definition


def _check_values(definition: Definition, plugins: Plugins, place: str) -> None:
    """Check that a study sets options alone, and that plugins in their values are trusted, too.

    A name that is none of an option would be a flag of the command that trains, such as --with.
    """
    options = typed.merge(plugins.options())
    texts = [(d.name, choice) for d in definition.space for choice in d.choices or [None]]
    for name, text in [*texts, *definition.options.items()]:
        field = options.model_fields.get(name)
        if field is None:
            raise CheckpointError(
                f"{place} sets '{name}', which is no option of {definition.plugin}.",
                hint="Repeat the whole command with another --search-dir.",
            )
        extra = field.json_schema_extra
        if isinstance(extra, dict) and extra.get("path") == "reference" and text:
            require_trust(str(text), place)


# -------------------------------------------------------------------------------------------- plan


def _plan(
    folder: str,
    selection: Selection,
    own: Dict[str, Any],
    values: Dict[str, typed.Value],
    workers: int,
) -> Tuple[Definition, Plugins]:
    """Return the study that the command defines, after checking its configurations if it is new."""
    from ..search.definition import read_study, refuse_differences
    from ..search.planning import check_stated, complete, plan_study
    from ..search.validation import validate

    plugins = selection.plugins
    if plugins is None:
        raise missing_plugin_error()
    if not own["vary"] and own["seeds"] is None:
        raise UsageError(
            "No option varies.",
            hint="Add --vary NAME=VALUES, or --seeds K for one configuration; 'toolkit run' trains "
            "a single run.",
        )
    resolved, rungs = resolve(selection, values), own["rungs"] or ""
    stated = _state(selection, plugins, own, resolved, workers)
    check_stated(stated, resolved.options, rungs)
    stored = read_study(folder)
    if stored is not None:
        existing = stored.definition
        now = complete(stated, existing, rungs)
        like = existing._replace(trials=now.trials)
        if now.trials != existing.trials:
            like = like._replace(rungs=now.rungs)
        refuse_differences(like, now, folder)
        return _add_trials(existing, now.trials, plugins), plugins
    for note in _notes(stated, resolved.options):
        warn(note)
    definition = plan_study(stated, resolved.options, rungs)
    _describe(definition)
    _say(f"checked  {validate(definition, plugins)}")
    return definition, plugins


def _state(
    selection: Selection,
    plugins: Plugins,
    own: Dict[str, Any],
    resolved: typed.Resolved,
    workers: int,
) -> Definition:
    """Return what the command says of the study; what it leaves open is false."""
    from ..search.definition import EXAMPLES, STEPS, Budget, Definition
    from ..search.space import parse_space
    from ..search.trial_options import THREADS, absolute_path, shared_options

    options, origins = resolved.options, resolved.origins
    cls = type(options)
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
    shared, flags = shared_options(resolved)
    has_threads = any(getattr(options, name) for name in THREADS)
    direction, _, metric = (own["metric"] or "").rpartition(":")
    stated = Definition(
        plugin=typed.map_reference(selection.plugin, absolute_path),
        extensions=tuple(typed.map_reference(r, absolute_path) for r in selection.extensions),
        options=shared,
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
    )
    space = parse_space(own["vary"], cls, functools.partial(_check_value, plugins, stated, cls))
    for dimension in space:
        if dimension.name in flags:
            raise UsageError(
                f"{typed.flag_name(dimension.name)} is set to "
                f"{typed.format_value(shared[dimension.name])}, and varies.",
                hint="Leave one of them out.",
            )
    return stated._replace(space=tuple(space))


def _check_value(plugins: Plugins, stated: Definition, cls: Any, name: str, value: Any) -> Any:
    """Return the value of an option as JSON has it, paths absolute; raise UsageError if wrong."""
    from ..search.trial_options import absolute_path, resolve_trial

    value = typed.map_paths(cls, name, value, absolute_path)
    return json_values(resolve_trial(plugins, stated, {name: value}).options)[name]


def _notes(stated: Definition, options: typed.CoreOptions) -> List[str]:
    """Return what a user may not expect of the study, a sentence for each."""
    notes = []
    names = [dimension.name for dimension in stated.space]
    if "batch_size" in names and stated.budget.kind == "steps":
        notes.append(
            "batch_size varies, and a budget of steps reads more examples with larger batches; "
            "--examples makes these equal."
        )
    cls = type(options)
    if options.early_stopping:
        notes.append("--early-stopping may end trials before their budget.")
    presets = getattr(cls, "presets", {})
    if presets and cls.preset_option in names:
        members = {name for preset in presets.values() for name in preset}
        for name in [name for name in names if name in members]:
            notes.append(f"{name} varies, and takes precedence over what {cls.preset_option} sets.")
    return notes


# -------------------------------------------------------------------------------------------- text


def _say(line: str) -> None:
    sys.stderr.write(escape_line(line) + "\n")


def _describe(definition: Definition) -> None:
    """Say what is going to be trained."""
    from ..search.outcome import describe_budget

    _say(f"search   {describe_budget(definition)}")
    for dimension in definition.space:
        _say(f"vary     {dimension.name}={dimension}")
    better = "lowest" if definition.direction == "min" else "highest"
    moment = "best checkpoint" if definition.moment == "best" else "last evaluation"
    _say(f"choose   the {better} {definition.metric} of the validation split, {moment}")


def _print_plan(definition: Definition, as_json: bool) -> int:
    from ..search.sampler import count_results, rung_counts

    if as_json:
        print_json({"study": definition.as_json(), "trials": count_results(definition)})
        return 0
    counts = [str(count * len(definition.seeds)) for count in rung_counts(definition)]
    rungs = f"; {', '.join(counts)} train to the rungs" if definition.reduction else ""
    plural = "s" * (counts[0] != "1")
    sys.stdout.write(f"plan     {counts[0]} trial{plural}{rungs}; nothing was trained\n")
    return 0


def _print_outcome(outcome: Outcome, folder: str, as_json: bool) -> int:
    from ..search.outcome import PAGE_FILE, format_outcome

    with optional_output():
        if as_json:
            print_json(dict(outcome.as_json(), folder=folder))
        else:
            for line in format_outcome(outcome, folder):
                sys.stdout.write(line + "\n")
            sys.stdout.write(f"page     {os.path.join(folder, PAGE_FILE)}\n")
    if outcome.best is None:
        raise ToolkitError(
            "No configuration finished.",
            hint=f"The table says why; the logs are in {os.path.join(folder, 'trials')}.",
        )
    return 0


# ------------------------------------------------------------------------------------------- train


def _train(definition: Definition, plugins: Plugins, folder: str, workers: int) -> Outcome:
    """Train all trials, and return what came of them."""
    from ..search.outcome import read_outcome, write_outcome
    from ..search.progress import ProgressLines
    from ..search.sampler import count_results
    from ..search.study import Study
    from ..search.trial_options import find_length
    from ..search.trial_run import run_trial
    from ..search.workers import run_workers

    try:
        make_folders(folder)
    except OSError as error:
        raise UsageError(f"{folder} cannot be created: {error.strerror}.") from None
    study = Study(definition, folder, functools.partial(find_length, plugins, definition))
    try:
        study.find_due()
        with waiting("Training the trials", is_logged=False) as wait:
            wait.show(study.num_results, count_results(study.definition))
            run_workers(
                study,
                workers,
                lambda trial, log, children: run_trial(
                    study.definition, trial, folder, log, children
                ),
                ProgressLines(study, wait.show).report,
            )
    except InterruptedRun as error:
        error.hint = f"Continue with: toolkit search --search-dir {shell_argument(folder)}"
        raise
    outcome = read_outcome(study, folder)
    try:
        write_outcome(outcome, folder)
    except OSError as error:
        warn(f"The table cannot be written to {folder}: {error.strerror}.")
    return outcome
