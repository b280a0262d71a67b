"""What docs/cluster.md says of clusters, ports and exit codes is what the toolkit does."""

import re
import shlex

import pytest
from page_fixtures import commands_of, page_path, read_blocks

from toolkit import errors
from toolkit.cluster.tasks import ClusterSettings, read_cluster

PAGE = "docs/cluster.md"


@pytest.fixture(scope="module")
def text():
    with open(page_path(PAGE), encoding="utf-8") as file:
        return file.read()


def commands_of_machines():
    """Pairs of the words of a command for a machine of its own, and its variables."""
    pairs = []
    for block in read_blocks(PAGE):
        if re.search(r"^# .*on node\d$", block.text, re.M):
            for command in commands_of(block):
                words = shlex.split(command)
                first = words.index("toolkit")
                pairs.append((words[first:], dict(word.split("=", 1) for word in words[:first])))
    return pairs


def read_clusters():
    clusters = []
    for words, environ in commands_of_machines():
        flags = [words[words.index(f) + 1] if f in words else None for f in ("--cluster", "--task")]
        clusters.append(read_cluster(ClusterSettings(*flags), environ))
    return clusters


def test_the_commands_by_hand_are_those_of_one_cluster():
    clusters = read_clusters()
    assert [cluster.rank for cluster in clusters] == [0, 1, 2, 1]
    addresses = [[task.address for task in cluster.trainers] for cluster in clusters]
    assert addresses == 4 * [["node1:2222", "node2:2222", "node3:2222"]]
    assert {cluster.channel_address for cluster in clusters} == {("node1", 2223)}


def test_the_table_says_of_every_exit_code_whether_to_try_again(text):
    (table,) = re.findall(r"^\| exit codes .*\n\|[-|]+\n((?:\|.*\n)+)", text, re.M)
    rows = [[cell.strip() for cell in row.split("|")[1:-1]] for row in table.splitlines()]
    answers = {int(code): cells[2] for cells in rows for code in cells[0].split(",")}
    classes = [value for value in vars(errors).values() if isinstance(value, type)]
    codes = {each.exit_code for each in classes if issubclass(each, errors.ToolkitError)}
    retryable = {130, 137, 143, errors.RetryError.exit_code}
    assert {code for code, answer in answers.items() if answer == "yes"} == retryable
    assert {code for code, answer in answers.items() if answer == "no"} >= codes - retryable
