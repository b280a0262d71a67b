"""Plugins that compete with the presets in `toolkit gan-league`.

Each is trained by a search of its own, of one configuration, at the budget and the seeds of the
presets. Its images are drawn through the hook `sample` and scored by the code, the options and the
test split of the presets.

Legend: n images, H height, W width, C channels.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
import shlex
import shutil
import types
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Sequence, Set, Tuple

import numpy as np
from toolkit_gan.options import GanOptions
from toolkit_image_scores.options import ImageScoresOptions
from toolkit_image_scores.scorer import ImageScorer

from toolkit import DataError, UsageError, data_options, open_trained

FOLDER = "plugins"  # the subfolder of a tournament with a search for each plugin
BUDGETS = ("--steps", "--epochs", "--examples")
_COMMON_FLAGS = (
    *("--search-dir", "--vary", "--sampler", "--trials", "--halving", "--rungs", "--plugin"),
    *("--seed", "--seeds", "--workers", "--dry-run", "--json"),
    *BUDGETS,
    *("--data", "--image-size", "--channels", "--fit", "--background", "--label-column"),
    *("--label-kind", "--image-column", "--feature-columns", "--ignore-columns", "--split-column"),
    *("--missing", "--categories", "--validation-share", "--test-share", "--folds", "--fold"),
    "--split-seed",
)


class Rival(NamedTuple):
    """A plugin that competes with the presets.

    Attributes:
        reference: NAME, module:[attribute] or a file.
        flags: of its runs alone.
    """

    reference: str
    flags: Sequence[str]

    @property
    def name(self) -> str:
        """In the table: the name of the plugin, or of its file, and its flags."""
        stem = os.path.basename(self.reference)
        stem = stem[: -len(".py")] if stem.endswith(".py") else stem
        return " ".join([stem, *self.flags])

    @property
    def folder(self) -> str:
        """The name of the folder of its search."""
        return re.sub(r"[^\w.=]+", "-", self.name)


def parse_rivals(texts: Sequence[str]) -> List[Rival]:
    """Return the plugins that the values of `--plugin` name.

    Args:
        texts: of the form "REFERENCE" or "REFERENCE --flag value ...".

    Raises:
        UsageError: a text has no reference, or a flag that must be equal for all.
    """
    rivals = list(map(_parse_rival, texts))
    hint = "Name each plugin once, or with other flags: --plugin 'NAME --flag value'."
    check_distinct("--plugin", rivals, hint)
    return rivals


def check_distinct(flag: str, competitors: Sequence[Any], hint: str) -> None:
    """Check that no two values of a flag have the same folder.

    Args:
        flag: that names the competitors.
        competitors: each with a name and a folder.
        hint: of the error.

    Raises:
        UsageError: two have the same.
    """
    folders: Set[str] = set()
    for each in competitors:
        if each.folder in folders:
            raise UsageError(f"Two values of {flag} are called '{each.name}'.", hint=hint)
        folders.add(each.folder)


def _parse_rival(text: str) -> Rival:
    reference, _, rest = f" {text}".partition(" --")
    try:
        flags = shlex.split(f"--{rest}") if rest else []
    except ValueError as error:
        raise UsageError(f"--plugin '{text}' cannot be read: {error}.") from None
    reference = reference.strip()
    if not reference:
        raise UsageError(
            f"--plugin '{text}' names no plugin.", hint="Write --plugin 'NAME --flag value'."
        )
    for flag in flags:
        if flag.partition("=")[0] in _COMMON_FLAGS:
            raise UsageError(
                f"--plugin '{text}': {flag.partition('=')[0]} is equal for all in a tournament.",
                hint="Set it for all, outside of the quotes, or leave it out.",
            )
    return Rival(reference, flags)


# ------------------------------------------------------------------------------------------- flags


def _own_names() -> Dict[str, bool]:
    """Return whether a flag has a value, by the names of the options of the GAN's runs alone."""
    names = {"metric": True, "best_metric": True}  # of its scores
    for name, field in {**GanOptions.model_fields, **ImageScoresOptions.model_fields}.items():
        names[name] = field.annotation is not bool
        if field.annotation is bool:
            names[f"no_{name}"] = False
    return names


def shared_flags(flags: Sequence[str]) -> List[str]:
    """Return the flags of a tournament that hold for other plugins, too.

    Args:
        flags: of the presets: words of `toolkit search` and of `toolkit run`.
    """
    own, words, rest = _own_names(), [], list(flags)
    while rest:
        word = rest.pop(0)
        flag, equals, value = word.partition("=")
        if flag == "--set":
            setting = value if equals else "".join(rest[:1])
            rest = rest if equals else rest[1:]
            if _option_name(setting.partition("=")[0]) not in own:
                words += ["--set", setting]
        elif flag.startswith("--") and _option_name(flag) in own:
            rest = rest[1:] if own[_option_name(flag)] and not equals else rest
        else:
            words.append(word)
    return words


def _option_name(text: str) -> str:
    return text.strip().lstrip("-").replace("-", "_")


# ------------------------------------------------------------------------------------------ scores


class Judge:
    """Scores runs of plugins like those of the presets. `close` it.

    Args:
        path: of a preset's run; its options, test split and features are those of all scores.
        scores: of that run.

    Raises:
        UsageError: its features are no longer those of the presets' scores.
    """

    def __init__(self, path: str, scores: Mapping[str, Any]):
        self._trained = _open_run_of_gan(path)
        self._split = self._trained.split("test")
        # The metric that chose the preset's checkpoint says nothing of the others.
        options = types.SimpleNamespace(**dict(vars(self._trained.options), best_metric=None))
        run = types.SimpleNamespace(options=options, data=self._trained.data)
        self._scorer = ImageScorer(run, self._trained.split)
        facts = self._scorer.dependencies(self._split, options.score_samples)
        expected = {"features": scores["features"]["sha256"]}
        expected.update({"samples": scores["n"], "real images": scores["m"]})
        if facts != expected:
            self.close()
            raise UsageError(
                "The features of the presets' scores have changed since, so that plugins cannot be "
                "compared with them.",
                hint="Repeat the tournament in another --dir.",
            )
        self._facts = [facts, self._split.sha256()]

    @property
    def shape(self) -> Tuple[int, ...]:
        """(H, W, C) of the images of the presets."""
        return tuple(self._trained.data.shape)

    @property
    def num_samples(self) -> int:
        """The number of samples that are scored."""
        count: int = self._trained.options.score_samples
        return count

    def close(self) -> None:
        self._scorer.close()
        self._trained.close()

    def score(self, path: str, folder: str) -> Dict[str, Any]:
        """Return the scores of a run, which are computed once.

        Args:
            path: of the run.
            folder: for the scores.

        Raises:
            DataError: it was trained on other data, or draws no images of the presets' size.
            ToolkitError: its plugin fails to draw them.
        """
        with open_trained(path) as trained:
            self._check_data(trained)
            place = os.path.join(folder, os.path.basename(path))
            draw = functools.partial(draw_images, trained, self.shape)
            return self.score_images(draw, trained.sha256, place)

    def score_images(
        self, draw: Callable[[int], np.ndarray], identity: str, place: str
    ) -> Dict[str, Any]:
        """Return the scores of images, which are computed once.

        Args:
            draw: maps a number to images, uint8 [n, H, W, C].
            identity: a hash of all that the images depend on.
            place: the folder for the scores, without the hash that is appended.
        """
        text = json.dumps([identity, *self._facts], sort_keys=True)
        place = f"{place}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
        if not os.path.isdir(place):
            self._write_scores(draw, place)
        with open(os.path.join(place, "scores.json"), encoding="utf-8") as file:
            scores: Dict[str, Any] = json.load(file)
            return scores

    def _write_scores(self, draw: Callable[[int], np.ndarray], place: str) -> None:
        """Score images; the folder appears when it is complete."""
        partial = place + ".partial"
        shutil.rmtree(partial, ignore_errors=True)
        draw(1)  # before the many: does it draw any
        os.makedirs(partial)
        self._scorer.draw = lambda count, seed: [{"images": draw(count)}]
        self._scorer.score(self._split, None, partial)
        os.rename(partial, place)

    def _check_data(self, trained: Any) -> None:
        """Check that a run has the data of the presets, split alike."""
        both = [each.options for each in (trained, self._trained)]
        for name in {**data_options(both[0]), **data_options(both[1])}:
            values = [getattr(options, name, None) for options in both]
            if values[0] != values[1]:
                raise DataError(
                    f"It was trained with {name} {values[0]}, and the presets with {values[1]}.",
                    hint="Set it for all.",
                )


def _open_run_of_gan(path: str) -> Any:
    """Open a run whose options are those of the GAN, and which has a test split."""
    return open_trained(path)


def draw_images(trained: Any, shape: Sequence[int], count: int) -> np.ndarray:
    """Draw images, uint8 [count, H, W, C].

    Args:
        trained: of `toolkit.open_trained`.
        shape: (H, W, C), that of the images of the presets.
        count: of the images.

    Raises:
        DataError: it draws others, or none.
    """
    arrays = trained.sample(count, seed=1)
    images: Any = arrays.get("images")
    if images is None or images.dtype != np.uint8 or images.ndim != 4:
        raise DataError(f"It draws {', '.join(arrays)}, and no images.")
    if images.shape[1:] != tuple(shape):
        raise DataError(f"It draws images {list(images.shape[1:])}, and the presets {list(shape)}.")
    return images
