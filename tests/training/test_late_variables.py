"""Variables that session hooks create are refused: they would be trained and never saved."""

from __future__ import annotations

import pytest
from linear_fixtures import Linear, write_bars

from toolkit import SessionHook, ToolkitError, hookimpl, testing, tf

ME = "test_late_variables.py:"


class SecondOptimizer(Linear):
    @hookimpl
    def session_hooks(self, losses):
        tf.train.AdamOptimizer(0.1).minimize(losses["loss"])
        return []


class Begins(SessionHook):
    def begin(self):
        tf.get_variable("extra", [2])


class InBegin(Linear):
    @hookimpl
    def session_hooks(self):
        return [Begins()]


@pytest.mark.parametrize(
    "plugin, place",
    [
        (SecondOptimizer, "the hook 'session_hooks'"),
        (InBegin, "the method 'begin' of session hook Begins of plugin 'inbegin'"),
    ],
)
def test_a_variable_that_is_created_too_late_is_named_with_its_line(tmp_path, plugin, place):
    data = write_bars(str(tmp_path / "bars.npz"))
    with pytest.raises(ToolkitError) as caught:
        testing.train(plugin, str(tmp_path / "run"), data=data, steps=1, steps_per_call=1)
    assert f"was created in {place} (" in caught.value.message
    assert ME in caught.value.message
    assert "run.state" in caught.value.hint
