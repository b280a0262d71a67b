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
    rules, sizes = {}, set()
    for name, values in seen.feeds.items():
        rule = values.rule()
        if not rule:
            what = f"{values.describe()}{values.span}"
            raise UsageError(f"'{name}' is fed {what}, for which there is no rule.")
        fed = [digests[name] for digests in seen.fed[: seen.period] if name in digests]
        if rule.startswith(("features", "labels")):
            is_parted = len(set(fed)) > 1  # among the calls of a period
            rule += ":part" * is_parted
            sizes.add(values.first.shape[0] * (len(fed) if is_parted else 1))
        elif rule.startswith(("uniform", "normal")) and len(set(fed)) < len(fed):
            rule += ":shared"
        rules[name] = rule
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
