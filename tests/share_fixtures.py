"""Which tests each of CI's two Pythons runs, where the time of CI does not suffice for all on both.

`CI_TEST_SHARE=1/2` leaves out half of the tests that are divided, and 2/2 the other half. The slow
tests are divided, and those of the folders and files below, whose facts are the same on both
TensorFlows or which train long. A parameter stays together: all tests of one sample or of one page
run on the same Python. In the files of `SPREAD` it does not: there, what a parameter stands for,
such as a preset, shall run on both. What one of the two skips is not divided, so that the other
runs it. Without the variable nothing is left out.
"""

from __future__ import annotations

import os
import zlib

VARIABLE = "CI_TEST_SHARE"
DIVIDED = (
    "samples/",
    "tests/audit/",
    "tests/autopsy/",
    "tests/cluster/",
    "tests/comparison/",
    "tests/display/",
    "tests/docs/",
    "tests/extensions/",
    "tests/fuzz/",
    "tests/kit/",
    "tests/launch/",
    "tests/mutation/",
    "tests/page/",
    "tests/plugins/",
    "tests/search/",
    "tests/statistics/",
    "tests/storage/",
    "tests/training/",
    "tests/test_cli.py",
    "tests/test_kinds_of_models.py",
    "tests/test_outputs.py",
    "tests/test_streams.py",
    "tests/test_trust.py",
)
SPREAD = (
    "tests/augmentation/",
    "tests/classifier/test_contract.py",
    "tests/cluster_training/",
    "tests/data/",
    "tests/gan/test_gan_cli.py",
    "tests/gan/test_gan_contract.py",
    "tests/gan/test_gan_plugin.py",
    "tests/gan/test_gan_session_hooks.py",
    "tests/gan/test_gan_sizes.py",
    "tests/graph/test_while_loop.py",
    "tests/inference/",
    "tests/test_api.py",
    "tests/test_named_data.py",
)
WHOLE = "tests/training/test_exact_resume.py"  # of which each Python has to give evidence
FOR_XLA = "-xla"  # in the names of contracts, which skip themselves where there is no XLA


def leave_out_others(config, items):
    """Remove the tests of the other shares from the list of items."""
    text = os.environ.get(VARIABLE)
    if not text:
        return
    share, shares = read_share(text)
    others = [item for item in items if is_divided(item) and number_of(item) % shares != share - 1]
    if others:
        config.hook.pytest_deselected(items=others)
        left_out = set(others)
        items[:] = [item for item in items if item not in left_out]


def read_share(text):
    """Read "1/2" as (1, 2).

    Raises:
        ValueError: it is no share.
    """
    share, shares = map(int, text.split("/"))
    if not 1 <= share <= shares:
        raise ValueError(f"{VARIABLE} is {text!r}, which is no share such as '1/2'")
    return share, shares


def is_divided(item):
    """Whether one share of CI runs a test, instead of each."""
    is_for_one = item.get_closest_marker("skipif") is not None or FOR_XLA in item.nodeid
    if is_for_one or item.nodeid.startswith(WHOLE):
        return False
    is_slow = item.get_closest_marker("slow") is not None
    return is_slow or item.nodeid.startswith((*DIVIDED, *SPREAD))


def number_of(item):
    """A number that is the same on every machine.

    It follows from the test's parameter, or else its name; in `SPREAD`, of a test that is not slow,
    from both.
    """
    name, _, parameter = item.nodeid.partition("[")
    if item.nodeid.startswith(SPREAD) and item.get_closest_marker("slow") is None:
        return zlib.crc32(item.nodeid.encode())
    return zlib.crc32((parameter or name).encode())
