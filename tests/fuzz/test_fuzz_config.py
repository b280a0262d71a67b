"""Configuration files, flags and variables of any content: accepted, or refused with a message."""

import json

import pytest
from fuzz_fixtures import fuzz, run_and_check
from hypothesis import example, given
from hypothesis import strategies as st
from mutations import argument_texts, json_values, mutants

from toolkit.options import CoreOptions

TOML = b"""# a run
data = "npz:data.npz"
learning-rate = 1e-3
optimizer = "momentum"
optimizer_args = {momentum = 0.9}
profile_steps = [3, 0x4]
evaluate = true
"""
JSON = b"""{
  "with": [],
  "data": "npz:data.npz",
  "optimizer": "momentum",
  "optimizer_args": {"momentum": 0.9},
  "profile_steps": [3, 4],
  "best_metric": null
}"""
INTACT = {"json": JSON, "toml": TOML}
NAMES = sorted(CoreOptions.model_fields) + ["plugin", "with", "hidden", "preset", "image-size"]


@pytest.fixture
def print_config(here):
    """`print_config(bytes, "toml")`: run the command that resolves and prints this file."""

    def call(content, ending, plugin="classifier", codes=(0, 2)):
        (here / ("file." + ending)).write_bytes(content)
        argv = ["run", "--config", "file." + ending, "--print-config", "--plugin", plugin]
        return run_and_check(*argv, codes=codes)

    return call


@pytest.mark.parametrize("ending", ["json", "toml"])
def test_the_intact_file_is_accepted(print_config, ending):
    assert "momentum" in print_config(INTACT[ending], ending, codes=(0,)).out


@pytest.mark.parametrize("ending", ["json", "toml"])
@fuzz
@given(st.data())
def test_a_damaged_file_is_accepted_or_refused(print_config, ending, data):
    print_config(data.draw(mutants(INTACT[ending])), ending)


LITERALS = st.sampled_from(
    ["nan", "inf", "-inf", "NaN", "Infinity", "-Infinity", "1e400", "1e-400", "-0.0", "-1"]
    + ["0x7fffffffffffffff", "9" * 20, "9" * 5000, "0x" + "f" * 5000, "1_000", "0o7", "0b1"]
    + ["true", "null", "[]", "{}", '""', "[[]]", "1979-05-27T07:32:00Z", "07:32:00", "'''a\nb'''"]
)


@fuzz
@given(st.lists(st.tuples(st.sampled_from(NAMES), LITERALS), max_size=4))
@example([("steps", "0x" + "f" * 5000)])
@example([("optimizer", "0x" + "f" * 5000)])
@example([("profile_steps", "[0x" + "f" * 5000 + "]")])
@example([("steps", "9" * 5000)])
@example([("steps", "1"), ("steps", "2")])
@example([("batch_size", "1"), ("batch-size", "2")])
def test_any_literals_are_accepted_or_refused(print_config, pairs):
    text = "\n".join(f"{name} = {value}" for name, value in pairs)
    print_config(text.encode(), "toml", plugin="gan")


WORDS = st.sampled_from(["1", "auto", "none", "min:loss", "a=1,b=2", "1,2", "~", "npz:~\0"])
VALUES = json_values(WORDS)


@fuzz
@given(st.dictionaries(st.sampled_from(NAMES) | st.text(), VALUES, max_size=5) | VALUES)
@example({"data": "npz:~\0"})
@example({"data": "npz:~\ud800"})
@example({"with": [5]})
@example({"preset": []})
@example({"optimizer_args": {"a": 10**400}})
@example({"": 1})
@example([{}])
@example({"steps\0": "\0" * 5000})
def test_any_json_is_accepted_or_refused(print_config, values):
    print_config(json.dumps(values).encode(), "json", plugin="gan")


@fuzz
@given(st.lists(st.tuples(st.sampled_from(NAMES) | argument_texts(), argument_texts(40))))
@example([("steps", "9" * 5000)])
@example([("steps", "3")])
@example([("steps", "1_0")])
@example([("learning_rate", "nan")])
@example([("data", "\udcff")])
def test_any_values_of_flags_are_accepted_or_refused(here, pairs):
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in pairs]
    run_and_check("run", "--plugin", "gan", "--print-config", *flags, codes=(0, 2))


@fuzz
@given(argument_texts(40))
@example("mnist5k")
@example("npz:~\udcff")
@example("images:" + "a" * 300)
@example("idx:" + "../" * 1000)
def test_any_data_on_the_command_line_is_used_or_refused(here, value):
    if not value.startswith("-") and value not in ("mnist", "fashion-mnist"):  # no network
        run_and_check("data", "check", value, codes=(0, 2, 4))
