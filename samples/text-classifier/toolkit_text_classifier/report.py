"""The report of an evaluation: a picture of texts, each word in the colour of its vote.

Legend: N examples of a split, K classes.
"""

from __future__ import annotations

import colorsys
import os

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from toolkit import atomic_write

from .words import only_text, split_text

PICTURE = {
    "file": "votes.png",
    "title": "The least certain texts",
    "alt": "Texts with their class, and with the predicted one where that is wrong; each word has "
    "the colour of the class that it votes for",
}
WIDTH, LINE, MARGIN = 720, 15, 6  # pixels
BLACK, RED = (0, 0, 0), (190, 0, 0)


def write(run, examples, folder):
    """Write `votes.png`: the texts of which the network is least sure, with class and prediction.

    Args:
        run: gives options and classes.
        examples: "features" [N], "labels" [N], and "votes", "label", "probabilities".
        folder: of the report.

    Returns:
        What the page of the run shows.
    """
    order = np.argsort(examples["probabilities"].max(axis=1))[: run.options.report_texts]
    if len(order):
        texts = only_text(examples["features"])[order]
        page = Page(run.data.class_names)
        for text, row in zip(texts, order):
            words = split_text(text, run.options.max_words)
            page.add_line(examples["labels"][row], examples["label"][row])
            page.add_words(words, examples["votes"][row])
        page.save(os.path.join(folder, PICTURE["file"]))
    return {"page": {"pictures": [PICTURE] if len(order) else []}}


class Page:
    """Lines of words on coloured ground."""

    def __init__(self, class_names):
        self._class_names = class_names
        self._hues = np.linspace(0, 1, len(class_names), endpoint=False)
        self._font = ImageFont.load_default()
        self._items = []  # place, text, colour of the text and of the ground
        self._x, self._y = MARGIN, MARGIN - LINE

    def add_line(self, label, predicted) -> None:
        """Begin a text with its class, and with what it was taken for, if that is another one."""
        self._x, self._y = MARGIN, self._y + LINE + MARGIN
        is_wrong = label != predicted
        names = [self._class_names[k] for k in ([label, predicted] if is_wrong else [label])]
        self._add(" > ".join(names) + ":", RED if is_wrong else BLACK, None)

    def add_words(self, words, votes) -> None:
        """Add the words of a text.

        Args:
            words: texts.
            votes: float [L, K], with a row for each word or more.
        """
        votes = votes - votes.mean(axis=1, keepdims=True)
        largest = max(np.abs(votes).max(), 1e-9)
        for word, vote in zip(words, votes):
            winner = int(vote.argmax())
            ground = colorsys.hsv_to_rgb(self._hues[winner], 0.7 * vote[winner] / largest, 1)
            self._add(word, BLACK, tuple(int(255 * value) for value in ground))

    def _add(self, text, color, ground) -> None:
        # Pillow's default font may have the letters of Latin-1 alone.
        text = text.encode("latin-1", "replace").decode("latin-1")
        width = self._font.getbbox(text)[2] if hasattr(self._font, "getbbox") else 6 * len(text)
        if self._x + width > WIDTH - MARGIN:
            self._x, self._y = 4 * MARGIN, self._y + LINE
        self._items.append((self._x, self._y, width, text, color, ground))
        self._x += width + MARGIN

    def save(self, path) -> None:
        """Write the page as a PNG."""
        picture = Image.new("RGB", (WIDTH, self._y + LINE + MARGIN), (255, 255, 255))
        draw = ImageDraw.Draw(picture)
        for x, y, width, text, color, ground in self._items:
            if ground is not None:
                draw.rectangle([x - 2, y, x + width + 2, y + LINE - 2], fill=ground)
            draw.text((x, y), text, fill=color, font=self._font)
        with atomic_write(path) as file:
            picture.quantize(64).save(file, "PNG")
