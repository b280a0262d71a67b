"""Every option of the core and of the two plugins: its text, and its value in a saved run."""

import json
import os

import pytest
from fuzz_fixtures import fuzz
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import Literal, get_args, get_origin

from toolkit import config as configuration
from toolkit.options import format_value, merge, resolve
from toolkit.plugins import Plugins

PLUGINS = ["classifier", "gan"]
OPTIMIZER_ARGS = st.dictionaries(
    st.sampled_from(["momentum", "beta1", "use_nesterov", "accum_name"]),
    st.booleans() | st.floats(-1e9, 1e9) | st.sampled_from(["sums", "a b", "é"]),
)
# Options whose texts have a form of their own.
TEXTS = {
    "background": st.sampled_from(["white", "#102030", "light grey"]),
    "best_metric": st.sampled_from(["accuracy", "min:loss", "max:a_b"]),
    "class_weights": st.sampled_from(["none", "balanced", "1,0.5,2"]),
    "data": st.sampled_from(
        ["mnist5k", "npz:a.npz", "images:../b", "idx:/c/d", "npz:~/e.npz", "table:f.csv"]
    ),
    "feature_columns": st.lists(st.sampled_from(["a", "b c", "é=1"]), max_size=2),
    "features": st.sampled_from(["auto", "pixels", "run", "../run", "/a/run"]),
    "ignore_columns": st.lists(st.sampled_from(["id", "name"]), max_size=2),
    "init_from": st.sampled_from([None, "a", "../a@40", "/a/b@c", "/a/model.ckpt-3", "x.index@1"]),
    "map": st.lists(st.sampled_from(["a/=b/", "c=d/e", "/=all/"]), max_size=2),
    "image_size": st.sampled_from([None, 1, 32, 4096, "64x48", "1x4096"]),
    "image_column": st.sampled_from([None, "path", "image/encoded"]),
    "decay_exclude": st.lists(st.sampled_from(["*/gamma", "embedding"]), max_size=2),
    "freeze": st.lists(st.sampled_from(["conv1/*", "*[12]/bias"]), max_size=2),
    "group": st.lists(
        st.sampled_from(["a*:learning_rate=1e-4,weight_decay=0", "*/b:frozen=true", "c:frozen=no"]),
        max_size=3,
    ),
    "label_column": st.lists(st.sampled_from(["label", "y 1", "none"]), max_size=2),
    "split_column": st.sampled_from(["split", "none", "part"]),
    "optimizer": st.sampled_from(["adam", "momentum"]),
    "optimizer_args": OPTIMIZER_ARGS,
    "generator_optimizer": st.sampled_from([None, "adam"]),
    "generator_optimizer_args": OPTIMIZER_ARGS,
    "discriminator_optimizer": st.sampled_from([None, "momentum"]),
    "discriminator_optimizer_args": OPTIMIZER_ARGS,
}


def values_of(name, field):
    """A strategy of valid values of an option."""
    if name in TEXTS:
        return TEXTS[name]
    names = ("ge", "gt", "le", "lt", "min_length")  # of limits in pydantic
    parts = [(name, getattr(part, name, None)) for part in field.metadata for name in names]
    return values_of_type(field.annotation, {n: value for n, value in parts if value is not None})


def values_of_type(annotation, bounds):
    args = get_args(annotation)
    if type(None) in args:
        inner = next(a for a in args if a is not type(None))
        return st.none() | values_of_type(inner, bounds)
    if get_origin(annotation) is Literal:
        return st.sampled_from(args)
    if get_origin(annotation) is list:
        return st.lists(values_of_type(args[0], {"ge": 1}), min_size=1, max_size=3)
    if annotation is bool:
        return st.booleans()
    if annotation is int:
        low, high = bounds.get("ge", bounds.get("gt", -1) + 1), bounds.get("le", 2**62)
        return st.integers(low, min(high, bounds.get("lt", 2**63) - 1))
    assert annotation is float, annotation
    low, high = (
        bounds.get("ge", bounds.get("gt", -1e300)),
        bounds.get("le", bounds.get("lt", 1e300)),
    )
    exclude_min, exclude_max = "gt" in bounds, "lt" in bounds
    return st.floats(low, high, exclude_min=exclude_min, exclude_max=exclude_max)


CLASSES = {name: Plugins.load(name).options() for name in PLUGINS}
FIELDS = {name: merge(classes).model_fields for name, classes in CLASSES.items()}
ALL_VALUES = {
    plugin: st.fixed_dictionaries(
        {}, optional={name: values_of(name, field) for name, field in fields.items()}
    )
    for plugin, fields in FIELDS.items()
}


def resolve_valid(plugin, layers=(), **values):
    return resolve(CLASSES[plugin], layers, None, values)


def contradict(values):
    """Whether some of the values may not be set together."""
    both = "steps" in values and values["steps"] is not None and "epochs" in values
    needs_metric = values.get("early_stopping") and not values.get("best_metric")
    needs_evaluations = values.get("evaluate") is False
    simultaneous = values.get("update") == "simultaneous"
    changes = values.get("diff_augment") or ["none"]
    mixed = "none" in changes and set(changes) != {"none"}
    one_cluster = values.get("clusters") == 1
    return any([both, needs_metric, needs_evaluations, simultaneous, mixed, one_cluster])


@pytest.mark.parametrize("plugin", PLUGINS)
@fuzz
@given(st.data())
def test_a_value_and_its_text_are_the_same_option(plugin, data):
    values = data.draw(ALL_VALUES[plugin].filter(lambda values: not contradict(values)))
    texts = {name: format_value(value) for name, value in values.items()}
    from_values = resolve_valid(plugin, **values).options
    assert resolve_valid(plugin, **texts).options == from_values
    for name, value in values.items():
        assert getattr(from_values, name) == value, name


@pytest.mark.parametrize("plugin", PLUGINS)
@fuzz
@given(st.data())
def test_a_saved_run_has_the_options_of_the_run(here, plugin, data):
    values = data.draw(ALL_VALUES[plugin].filter(lambda values: not contradict(values)))
    first = resolve_valid(plugin, **values)
    folder = str(here / "runs" / "r")
    saved = configuration.run_values(plugin, [], first.options, folder, first.origins)
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "config.json")
    with open(path, "w") as file:
        json.dump(saved, file, allow_nan=False)
    config = configuration.read(path)
    again = resolve_valid(plugin, [config])
    assert again.notes == []
    for name, origin in first.origins.items():
        assert again.origins[name].saved == origin.saved
    assert configuration.run_values(plugin, [], again.options, folder, again.origins) == saved
    plain = {name: value for name, value in values.items() if "features" not in name}
    for name, value in plain.items():
        if not str(value).endswith("~/e.npz"):
            assert getattr(again.options, name) == value, name
