"""A model that does not fit in memory is refused before a session exists."""

from __future__ import annotations

import pytest
from linear_fixtures import Linear, write_bars

from toolkit import UsageError, hookimpl, tf
from toolkit.graph import model_size
from toolkit.graph.model_size import check_model_size

AVAILABLE = 10**9


@pytest.fixture
def memory(monkeypatch):
    """A machine with 1 GB of available memory."""
    monkeypatch.setattr(model_size, "available_memory", lambda: AVAILABLE)


def variable(name, shape, dtype=tf.float32):
    return tf.get_variable(name, shape, dtype, tf.zeros_initializer(), use_resource=True)


@pytest.mark.usefixtures("graph", "memory")
@pytest.mark.parametrize("dtype, count", [(tf.float32, AVAILABLE // 4), (tf.int64, AVAILABLE // 8)])
def test_variables_may_take_all_memory_and_not_a_byte_more(dtype, count):
    check_model_size([variable("all", [count], dtype)])
    with pytest.raises(UsageError, match=r"take 1\.0 GB, and 1\.0 GB are available: 'all' alone"):
        check_model_size([*tf.global_variables(), variable("one", [1])])


@pytest.mark.usefixtures("graph")
def test_nothing_is_refused_where_the_memory_is_not_known(monkeypatch):
    monkeypatch.setattr(model_size, "available_memory", lambda: None)
    check_model_size([variable("large", [10**12])])


class Large(Linear):
    """Linear, with a matrix of 144 x 10^9 numbers."""

    @hookimpl
    def build(self, run):
        variable("dense/kernel", [144, 10**9])
        return Linear.build(self, run)


def test_a_run_with_a_larger_model_than_memory_ends_with_its_size(here, cli):
    argv = ["--plugin", "test_model_size:Large", "--data", write_bars("bars.npz"), "--steps", 1]
    result = cli("run", *argv, "--run-dir", "run")
    assert result.code == 2
    assert "The model's variables and their slots take 576.0 GB, and " in result.err
    assert "'dense/kernel' alone is [144, 1000000000].\nChoose a smaller network." in result.err
