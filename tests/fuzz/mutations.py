"""Strategies for damaged input: a sound file's bytes after a few edits, and awkward texts."""

from __future__ import annotations

from hypothesis import strategies as st

# Counts, sizes and offsets in files are often these, or one off them.
_EDGES = [b"\0" * 4, b"\xff" * 4, b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\0\0\0\1", b"\1\0\0\0"]


def pieces(most: int = 8):
    """A few bytes: any, or an edge of 32-bit numbers."""
    return st.sampled_from(_EDGES) | st.binary(min_size=1, max_size=most)


@st.composite
def mutated(draw, content: bytes, other: bytes = b"", edits: int = 4):
    """`content` after 1 to `edits` edits. other: a second sound file, for splices."""
    made = bytearray(content)
    for edit in draw(st.lists(st.sampled_from(EDITS), min_size=1, max_size=edits)):
        start = draw(st.integers(0, max(0, len(made) - 1)))
        edit(draw, made, start, other or content)
    return bytes(made)


def _flip(draw, made, start, other):
    if made:
        made[start] ^= 1 << draw(st.integers(0, 7))


def _overwrite(draw, made, start, other):
    piece = draw(pieces())
    made[start : start + len(piece)] = piece


def _insert(draw, made, start, other):
    made[start:start] = draw(pieces())


def _delete(draw, made, start, other):
    del made[start : start + draw(st.integers(1, 16))]


def _truncate(draw, made, start, other):
    del made[start:]


def _duplicate(draw, made, start, other):
    made[start:start] = made[start : start + draw(st.integers(1, 64))]


def _splice(draw, made, start, other):
    """The other file's end in place of one's own."""
    made[start:] = other[draw(st.integers(0, len(other))) :]


EDITS = (_flip, _overwrite, _insert, _delete, _truncate, _duplicate, _splice)


def argument_texts(most: int = 20):
    """What an argument or a variable may hold: text without NUL, and stray bytes as surrogates."""
    stray = st.integers(0xDC80, 0xDCFF).map(chr)
    sound = st.characters(blacklist_categories=("Cs",), blacklist_characters="\0")
    return st.text(sound | stray, max_size=most)


def file_names(most: int = 12):
    """Names of files and folders, as bytes that no file system refuses."""
    sound = st.text(
        st.characters(blacklist_categories=("Cs",), blacklist_characters="\0/"),
        min_size=1,
        max_size=most,
    )
    return sound.filter(lambda name: name not in (".", ".."))
