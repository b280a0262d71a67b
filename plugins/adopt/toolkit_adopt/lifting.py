"""Lift a script: what a dry run saw of it, as the words of a `toolkit run lift`.

That is possible where the train calls repeat, nothing else changes a variable between them, and
what they are fed is data, noise or constants. A call that the script makes for other reasons, to
evaluate or to draw, is left out.
"""

from __future__ import annotations

import os
from typing import Any, Dict, List

from toolkit import DrivenRun, UsageError, tf


def list_words(seen: Any) -> List[str]:
    """The train ops, losses and feeds of a script.

    Args:
        seen: the `Observation` of it.

    Raises:
        UsageError: it cannot be lifted; the message says why.
    """
    kinds = seen.trained[: seen.period]
    if not kinds:
        raise UsageError("The script's train calls do not repeat.")
    if len(seen.training_graphs) > 1:
        raise UsageError(f"The script trains {len(seen.training_graphs)} graphs.")
    if seen.between:
        raise UsageError(f"'{seen.between[0]}' changes a variable between the train calls.")
    rules = {name: _rule(name, seen) for name in seen.feeds}
    sizes = {
        seen.feeds[name].first.shape[0] * (len(_values(name, seen)) if ":part" in rule else 1)
        for name, rule in rules.items()
        if rule.startswith(("features", "labels"))
    }
    if len(sizes) != 1:
        what = f"batches of {sorted(sizes)} rows" if sizes else "no rows of data"
        raise UsageError(f"A period of the script is fed {what}.")
    words = ["--train-op", ",".join("+".join(kind.updates) for kind in kinds)]
    losses = list(dict.fromkeys(loss.op.name for kind in kinds for loss in kind.losses))
    words += ["--losses", ",".join(losses)] if losses else []
    words += ["--feed", _join(rules), "--batch-size", str(sizes.pop())]
    others = {name: x.rule() for name, x in seen.other_feeds.items() if not x.changes}
    changed = {name: rule for name, rule in others.items() if rule not in ("", rules.get(name))}
    return [*words, *(["--infer-feed", _join(changed)] if changed else [])]


def _rule(name: str, seen: Any) -> str:
    """The rule by which a tensor is fed."""
    values = seen.feeds[name]
    rule: str = values.rule()
    if not rule:
        span = f" in [{values.low:.4g}, {values.high:.4g}]" if values.low <= values.high else ""
        raise UsageError(f"'{name}' is fed {values.describe()}{span}, for which there is no rule.")
    count = len(set(_values(name, seen)))
    if rule.startswith(("features", "labels")):
        return rule + ":part" if count > 1 else rule
    is_noise = rule.startswith(("uniform", "normal"))
    return rule + ":shared" if is_noise and count < len(_values(name, seen)) else rule


def _values(name: str, seen: Any) -> List[bytes]:
    """The digests of what a tensor is fed in the calls of one period that feed it."""
    return [fed[name] for fed in seen.fed[: seen.period] if name in fed]


def _join(rules: Dict[str, str]) -> str:
    return ",".join(f"{name}={rule}" for name, rule in rules.items())


def write_graph(seen: Any, folder: str) -> str:
    """Write the graph, and its variables as they were before the first train call.

    Args:
        seen: the `Observation`, whose graph is as the script wrote it.
        folder: for the files.

    Returns:
        The path of the file .meta.
    """
    os.makedirs(folder, exist_ok=True)
    prefix = os.path.join(folder, "graph")
    tf.train.export_meta_graph(prefix + ".meta", graph=seen.training_graphs[0])
    DrivenRun.write_tensors(prefix, seen.initial)
    return prefix + ".meta"
