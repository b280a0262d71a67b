"""Which contracts are checked with which options of a plugin."""

import pytest

from toolkit.testing import contracts

# Those of graphs and steps depend on the network; the others on options, metrics and files.
OF_GRAPHS = [
    contract
    for contract in contracts.ALL
    if contract.check.__module__.rpartition(".")[2] in ("graphs", "steps")
]


def with_options(whole, others):
    """Parametrize the fixtures `plugin_options` and `contract` of a test.

    Args:
        whole: the names of options with which all contracts are checked.
        others: the names of those with which the ones of graphs and steps are.
    """
    rows = [(name, contract) for name in whole for contract in contracts.ALL]
    rows += [(name, contract) for name in others for contract in OF_GRAPHS]
    ids = [f"{name}-{contract.name}" for name, contract in rows]
    names = "plugin_options, contract"
    return pytest.mark.parametrize(names, rows, indirect=True, ids=ids, scope="module")
