"""Presets that the data choose: where the option of presets is "auto", and the data are open."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, Mapping, Type

from .config import read_run_config
from .errors import ToolkitError
from .options import AUTO, DATA, NOT_SET, ORIGINS, Options, Origin, Resolved, Value
from .plugins import Plugins, describe_failure
from .storage.run_folder import RunFolder

if TYPE_CHECKING:
    from .run_data import RunData


def choose_presets(resolved: Resolved, run_data: RunData) -> Resolved:
    """Resolve the options with which the data were opened again with the presets that the data
    choose. The first of their notes say why; they are the same if no preset is open.

    Raises ToolkitError if a plugin chooses nothing that it has, or what the data depend on.
    """
    if not resolved.open_presets:
        return resolved
    choices = {
        option: _choose(plugin, cls, run_data)
        for option, (plugin, cls) in resolved.open_presets.items()
    }
    now = resolved.choose(choices)
    for name in run_data.dataset.option_names:
        values = [getattr(each.options, name) for each in (resolved, now)]
        if values[0] != values[1]:
            raise ToolkitError(
                f"'{name}' is {values[1]} ({now.origins[name]}), and the data were opened with "
                f"{values[0]}.",
                hint="A preset that the data choose does not set what the data depend on: name "
                "the preset.",
            )
    reasons = [
        f"{option} {name}" + (f", because {why.place}" if why.place else "")
        for option, (name, why) in choices.items()
    ]
    return now._replace(notes=[*reasons, *now.notes])


def choose_by_data(plugins: Plugins, resolved: Resolved) -> Resolved:
    """As `choose_presets`; the data are opened, but only if a preset is open."""
    if not resolved.open_presets:
        return resolved
    from .run_data import open_run_data  # imports TensorFlow

    data = open_run_data(plugins, resolved.options, origins=resolved.origins)
    return choose_presets(resolved, data)


def _choose(plugin: str, cls: Type[Options], run_data: RunData) -> Value:
    """Ask a plugin for a preset."""
    count = sum(run_data.spec.class_counts) or len(run_data.splits["train"])
    try:
        name, reason = cls.choose_preset(run_data.spec, count)
    except ToolkitError:
        raise
    except Exception as error:
        raise ToolkitError(
            f"choose_preset of plugin '{plugin}' failed: {describe_failure(error).text}."
        ) from error
    reason = " ".join(str(reason).split())[:300]
    if name not in list(cls.presets):
        raise ToolkitError(
            f"choose_preset of plugin '{plugin}' returned {name!r:.100}, which is no preset.",
            hint=f"Return one of {', '.join(cls.presets)}.",
        )
    return Value(name, Origin(DATA, reason))


def recorded_choices(resolved: Resolved, folder: RunFolder) -> Resolved:
    """Resolve the options of a command that continues a run: "auto" stands for the preset of the
    run.
    """
    if not resolved.open_presets:
        return resolved
    config = read_run_config(folder)
    choices = {}
    for option in resolved.open_presets:
        name, origin = config.values.get(option), (config.origins or {}).get(option, NOT_SET)
        if isinstance(name, str) and name != AUTO:
            choices[option] = Value(name, origin)
    return resolved.choose(choices)


def update_config(config: Mapping[str, Any], before: Resolved, now: Resolved) -> Dict[str, Any]:
    """The contents of config.json with the values that a choice of presets changes."""
    values, others = (each.options.model_dump(mode="json") for each in (now, before))
    changes = {name: value for name, value in values.items() if value != others[name]}
    origins = {name: origin.saved for name, origin in now.origins.items()}
    return {**config, **changes, ORIGINS: origins}
