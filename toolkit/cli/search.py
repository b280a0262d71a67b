"""`toolkit search`: trials of many configurations at equal budgets."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import tempfile
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, NamedTuple, Optional, Sequence

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
from ..plugins import Plugins, require_trust
from ..storage.folder import shell_argument
from .plugin_options import (
    PluginCommand,
    Selection,
    missing_plugin_error,
    option_values,
    resolve,
)

if TYPE_CHECKING:
    from ..search.definition import Definition
    from ..search.outcome import Outcome
    from ..search.planning import Draft
    from ..search.resolution import TrialOptions

# Flags of `run` that each trial has already.
_RUN_FLAGS = {
    "--run-dir": "The runs of a search are in DIR/trials of --search-dir DIR.",
    "--resume": "A search always continues what is in --search-dir.",
    "--force": "Name another --search-dir for another search.",
    "--pause-at": "Set the budget with --steps, and rungs with --halving.",
}

_STORAGE_FILES = ("storage.json", "study.journal")  # what a folder may have before study.json


class SearchCommand(PluginCommand):
    """The command, which says of some flags of `run` why it has none."""

    def parse_args(self, ctx: click.Context, args: List[str]) -> List[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if error.option_name in _RUN_FLAGS:
                raise UsageError(
                    f"'toolkit search' has no {error.option_name}.",
                    hint=_RUN_FLAGS[error.option_name],
                ) from None
            raise


class _Flags(NamedTuple):
    """The values of the flags of the search itself that define a study."""

    vary: Sequence[str]
    sampler: Optional[str]
    trials: Optional[int]
    seeds: Optional[int]
    examples: Optional[int]
    cpu_secs: Optional[float]
    halving: Optional[int]
    rungs: Optional[str]
    metric: Optional[str]
    study_seed: Optional[int]

    def names(self) -> List[str]:
        """Return the flags that are set."""
        pairs = zip(self._fields, self)
        return [typed.flag_name(name) for name, value in pairs if value not in (None, ())]


@click.command(cls=SearchCommand)
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
    "--cpu-secs",
    type=click.FloatRange(0, min_open=True),
    metavar="S",
    help="Budget: CPU seconds of training, timed before the first trial of a configuration.",
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
@click.option(
    "--storage",
    metavar="FILE",
    help="Records that several machines share, on a shared disk: a journal, or an SQLite file.",
)
@click.option("--dry-run", is_flag=True, help="Check all, print the plan and its cost; train none.")
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
    storage: Optional[str],
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
    own = _Flags(**{name: flags.pop(name) for name in _Flags._fields})
    values = option_values(flags, sets)
    selection: Selection = ctx.obj
    if not search_dir:
        raise UsageError(
            "The folder of the search is missing.", hint="Add --search-dir DIR; a new one is made."
        )
    folder = os.path.abspath(search_dir)
    _check_folder(folder)
    is_continued = selection.plugins is None and (not own.vary or _has_study(folder))
    if storage is not None:
        _check_storage(folder, storage)
    plan = (
        _read_study(folder, storage, own, values)
        if is_continued
        else _plan(folder, selection, own, values, workers, dry_run)
    )
    for line in plan.lines:
        sys.stderr.write(escape_line(line) + "\n")
    if dry_run:
        return _print_plan(plan, as_json)
    outcome = _train(plan, folder, storage, workers)
    return _print_outcome(outcome, folder, as_json)


class _Plan(NamedTuple):
    """What is going to be trained.

    Attributes:
        definition: of the study.
        lines: that describe it.
        seconds: what it takes, roughly; None if that was not measured.
        former: the study without the trials that this command adds; None if it adds none.
    """

    definition: Definition
    lines: List[str]
    seconds: Optional[float] = None
    former: Optional[Definition] = None


def _check_folder(folder: str) -> None:
    """Refuse a folder with something else in it."""
    from ..search.definition import DEFINITION_FILE

    if os.path.exists(folder) and not os.path.isdir(folder):
        raise UsageError(f"{folder} is a file.", hint="Name a folder with --search-dir.")
    names = set(os.listdir(folder)) if os.path.isdir(folder) else set()
    if names and DEFINITION_FILE not in names and not names <= set(_STORAGE_FILES):
        kind = "a run, not a search" if "manifest.json" in names else "not empty, and no search"
        raise UsageError(f"{folder} is {kind}.", hint="Name a new folder with --search-dir.")


def _check_storage(folder: str, storage: str) -> None:
    """Check the storage before anything else takes time."""
    from ..search.place import find_place
    from ..search.storage import check_storage

    check_storage(find_place(folder, storage))


# ---------------------------------------------------------------------------------------- continue


def _read_study(
    folder: str, storage: Optional[str], own: _Flags, values: Dict[str, typed.Value]
) -> _Plan:
    """Return the study that is in the folder, or in the storage."""
    from ..search.definition import DEFINITION_FILE, read_definition

    names = own.names() + [typed.flag_name(name) for name in values]
    definition = read_definition(folder)
    place = os.path.join(folder, DEFINITION_FILE)
    if definition is None and (storage is not None or _has_records(folder)):
        from ..search.study import stored_definition

        definition, place = stored_definition(folder, storage), "The storage"
    if definition is None:
        if not names and storage is None and not os.path.exists(folder):
            raise UsageError(
                f"{folder} does not exist.",
                hint="For a new search, add --plugin NAME and --vary NAME=VALUES.",
            )
        raise missing_plugin_error()
    names = [name for name in names if name != "--trials"]
    if names:
        raise UsageError(
            f"{', '.join(names)} cannot be set alone for a search that has begun.",
            hint="Leave it out, or repeat the whole command.",
        )
    for reference in (definition.plugin, *definition.extensions):
        require_trust(reference, place)
    _check_values(definition, place)
    if own.trials is None or own.trials == definition.trials:
        return _Plan(definition, _describe(definition))
    from ..search.length import load_plugins

    return _plan_more_trials(definition, own.trials, load_plugins(definition))


def _plan_more_trials(definition: Definition, trials: int, plugins: Plugins) -> _Plan:
    """Return a study with more trials, after checking those that are known beforehand."""
    from ..search.planning import with_more_trials
    from ..search.resolution import TrialOptions
    from ..search.validation import validate

    extended = with_more_trials(definition, trials)
    options = TrialOptions(plugins, extended.layers, extended.flags)
    with _temporary_folder() as place:
        validation = validate(extended, options, place)
    count = extended.trials - definition.trials
    more = f"more     {count} trial{'s' * (count != 1)}, {extended.trials} in all"
    lines = [*_describe(extended), more, f"checked  {validation}"]
    return _Plan(extended, lines, former=definition)


@contextlib.contextmanager
def _temporary_folder() -> Iterator[str]:
    """Create a folder for the block, which a signal that ends this process removes, too."""

    def interrupt(signum: int, frame: Any) -> None:
        raise InterruptedRun("Interrupted; nothing was trained.", signum=signum)

    before = {}
    with contextlib.suppress(ValueError):  # not in the main thread: others handle the signals
        for signum in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(signum) == signal.SIG_DFL:
                before[signum] = signal.signal(signum, interrupt)
    try:
        with tempfile.TemporaryDirectory(prefix="toolkit-search-") as folder:
            yield folder
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _has_study(folder: str) -> bool:
    from ..search.definition import DEFINITION_FILE

    return os.path.lexists(os.path.join(folder, DEFINITION_FILE))


def _has_records(folder: str) -> bool:
    """Return whether a search that was killed at its start has records without a study.json."""
    from ..search.place import JOURNAL_FILE, PLACE_FILE

    return any(os.path.exists(os.path.join(folder, n)) for n in (JOURNAL_FILE, PLACE_FILE))


def _check_values(definition: Definition, place: str) -> None:
    """Check that a study sets options alone, and that plugins in their values are trusted, too.

    A name that is none of an option would be a flag of the command that trains, such as --with.
    """
    from ..search.length import load_plugins

    options = typed.merge(load_plugins(definition).options())
    texts = [(d.name, choice) for d in definition.space for choice in d.choices or [None]]
    texts += list(definition.flags.items())
    texts += [pair for layer in definition.layers for pair in layer.values.items()]
    names = typed.alias_names(options)
    for name, text in texts:
        field = options.model_fields.get(names.get(name, name))
        if field is None and name != typed.ORIGINS:
            raise CheckpointError(
                f"{place} sets '{name}', which is no option of {definition.plugin}.",
                hint="Repeat the whole command with another --search-dir.",
            )
        extra = field.json_schema_extra if field is not None else None
        if isinstance(extra, dict) and extra.get("path") == "reference" and text:
            require_trust(str(text), place)


# -------------------------------------------------------------------------------------------- plan


def _plan(
    folder: str,
    selection: Selection,
    own: _Flags,
    values: Dict[str, typed.Value],
    workers: int,
    dry_run: bool,
) -> _Plan:
    """Return the study that the command defines, after checking its configurations if it is new."""
    from ..search.definition import read_definition, refuse_differences
    from ..search.planning import check_draft, continue_study, plan_study
    from ..search.resolution import TrialOptions
    from ..search.validation import validate

    if selection.plugins is None:
        raise missing_plugin_error()
    if not own.vary and own.seeds is None:
        raise UsageError(
            "No option varies.",
            hint="Add --vary NAME=VALUES, or --seeds K for one configuration; 'toolkit run' trains "
            "a single run.",
        )
    draft = _draft(selection, own, values, workers)
    check_draft(draft)
    existing = read_definition(folder)
    if existing is not None:
        now = continue_study(draft, existing)
        if now.trials != existing.trials:
            like = existing._replace(trials=now.trials, rungs=now.rungs)
            refuse_differences(like, now, folder, folder)
            return _plan_more_trials(existing, now.trials, selection.plugins)
        refuse_differences(existing, now, folder, folder)
        return _Plan(existing, _describe(existing))
    for note in _notes(draft):
        warn(note)
    with _temporary_folder() as place:
        definition = plan_study(draft, place)
        options = TrialOptions(selection.plugins, definition.layers, definition.flags)
        validation = validate(definition, options, place, times=dry_run)
    lines = _describe(definition) + [f"checked  {validation}"]
    if not dry_run:
        return _Plan(definition, lines)
    from ..search.cost import estimate_secs

    return _Plan(definition, lines, estimate_secs(definition, validation.answers[0], workers))


def _draft(
    selection: Selection, own: _Flags, values: Dict[str, typed.Value], workers: int
) -> Draft:
    """Return what the command says of the study."""
    from ..search.planning import Draft
    from ..search.resolution import (
        TrialOptions,
        absolute_reference,
        absolute_texts,
        file_layer,
        variable_layers,
    )
    from ..search.space import parse_space

    assert selection.plugins is not None
    resolved = resolve(selection, values)
    cls = type(resolved.options)
    layers = [file_layer(layer, cls) for layer in selection.layers]
    layers += variable_layers(typed.environment(), cls)
    flags = absolute_texts({name: each.value for name, each in values.items()}, cls)
    aliases = typed.alias_names(cls)
    flags = {aliases.get(name, name): text for name, text in flags.items()}
    trial_options = TrialOptions(selection.plugins, layers, flags)
    space = parse_space(own.vary, cls, lambda name, value: _check(trial_options, name, value))
    for dimension in space:
        if dimension.name in flags:
            raise UsageError(
                f"{typed.flag_name(dimension.name)} is set to {flags[dimension.name]}, and varies.",
                hint="Leave one of them out.",
            )
    return Draft(
        plugin=absolute_reference(selection.plugin),
        extensions=tuple(map(absolute_reference, selection.extensions)),
        layers=tuple(layers),
        flags=flags,
        space=tuple(space),
        options=resolved.options,
        sampler=own.sampler,
        trials=own.trials,
        num_seeds=own.seeds or 1,
        examples=own.examples,
        cpu_secs=own.cpu_secs,
        reduction=own.halving or 0,
        rungs=own.rungs or "",
        metric=own.metric or "",
        study_seed=own.study_seed or 0,
        threads=_threads(flags, resolved, workers),
    )


def _check(trial_options: TrialOptions, name: str, value: Any) -> Any:
    """Return the value of an option as JSON has it, paths absolute; raise UsageError if wrong."""
    if isinstance(value, str):
        from ..search.resolution import absolute_texts

        value = absolute_texts({name: value}, trial_options.cls)[name]
    return json_values(trial_options.resolve({name: value}).options)[name]


def _threads(flags: Dict[str, str], resolved: typed.Resolved, workers: int) -> int:
    """Return the threads of each trial: a fair share of the cores, unless the user sets them."""
    from ..search.commands import THREADS

    if any(name in flags or getattr(resolved.options, name) for name in THREADS):
        return 0
    return max(1, len(os.sched_getaffinity(0)) // workers)


def _notes(draft: Draft) -> List[str]:
    """Return what a user may not expect of the study, a sentence for each."""
    notes = []
    names = [dimension.name for dimension in draft.space]
    if "batch_size" in names and draft.examples is None and "steps" in draft.flags:
        notes.append(
            "batch_size varies, and a budget of steps reads more examples with larger batches; "
            "--examples makes these equal."
        )
    cls = type(draft.options)
    if draft.options.early_stopping:
        notes.append("--early-stopping may end trials before their budget.")
    presets = getattr(cls, "presets", {})
    if presets and cls.preset_option in names:
        members = {name for preset in presets.values() for name in preset}
        for name in [name for name in names if name in members]:
            notes.append(f"{name} varies, and takes precedence over what {cls.preset_option} sets.")
    return notes


# -------------------------------------------------------------------------------------------- text


def _describe(definition: Definition) -> List[str]:
    """Return the lines that say what is going to be trained."""
    from ..search.outcome import describe_budget

    lines = [f"search   {describe_budget(definition)}"]
    for dimension in definition.space:
        lines.append(f"vary     {dimension.name}={dimension}")
    better = "lowest" if definition.direction == "min" else "highest"
    moment = "best checkpoint" if definition.moment == "best" else "last evaluation"
    lines.append(f"choose   the {better} {definition.metric} of the validation split, {moment}")
    return lines


def _print_plan(plan: _Plan, as_json: bool) -> int:
    from ..search.cost import count_results, describe_secs, rung_counts

    trials = count_results(plan.definition)
    definition = plan.definition
    counts = [str(count * len(definition.seeds)) for count in rung_counts(definition)]
    if as_json:
        print_json({"study": plan.definition.as_json(), "trials": trials, "seconds": plan.seconds})
        return 0
    cost = "" if plan.seconds is None else f", about {describe_secs(plan.seconds)}"
    plural = "s" * (counts[0] != "1")
    rungs = f"; {', '.join(counts)} train to the rungs" if definition.reduction else ""
    sys.stdout.write(f"plan     {counts[0]} trial{plural}{rungs}{cost}; nothing was trained\n")
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


def _train(plan: _Plan, folder: str, storage: Optional[str], workers: int) -> Outcome:
    """Train all trials, and return what came of them."""
    from ..files import make_folders
    from ..search.cost import count_results
    from ..search.definition import write_definition
    from ..search.length import find_length
    from ..search.outcome import read_outcome, write_outcome
    from ..search.progress import ProgressLines
    from ..search.study import Study
    from ..search.trial_run import run_trial
    from ..search.workers import run_workers

    try:
        make_folders(folder)
    except OSError as error:
        raise UsageError(f"{folder} cannot be created: {error.strerror}.") from None
    study = Study(plan.former or plan.definition, folder, storage)
    try:
        study.add_trials(plan.definition.trials)
        definition = study.definition
        write_definition(folder, definition, study.former_trials)
        with waiting("Training the trials", is_logged=False) as wait:
            wait.show(study.progress().trials, count_results(definition))
            progress = ProgressLines(study, workers, wait.show)
            run_workers(
                study,
                workers,
                lambda trial, children: run_trial(definition, trial, folder, children),
                lambda trial, children: find_length(
                    definition, trial.configuration, folder, children
                ),
                progress.report,
            )
        outcome = read_outcome(study, folder)
        try:
            write_outcome(outcome, folder)
        except OSError as error:
            warn(f"The table cannot be written to {folder}: {error.strerror}.")
        return outcome
    except InterruptedRun as error:
        error.hint = f"Continue with: toolkit search --search-dir {shell_argument(folder)}"
        raise
    finally:
        study.close()
