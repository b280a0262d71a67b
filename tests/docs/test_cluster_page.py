"""What docs/cluster.md says of clusters, ports and exit codes is what the toolkit does."""

import re
import shlex

import pytest
from page_fixtures import commands_of, page_path, read_blocks

from toolkit import errors
from toolkit.cluster.definition import read_cluster
from toolkit.cluster.tasks import ClusterSettings

PAGE = "docs/cluster.md"


@pytest.fixture(scope="module")
def text():
    with open(page_path(PAGE), encoding="utf-8") as file:
        return file.read()


def test_the_command_by_hand_is_that_of_one_task_of_the_cluster():
    blocks = [b for b in read_blocks(PAGE) if re.search(r"^# on node\d$", b.text, re.M)]
    (command,) = [command for block in blocks for command in commands_of(block)]
    words = shlex.split(command)
    flags = [words[words.index(flag) + 1] for flag in ("--cluster", "--task")]
    cluster = read_cluster(ClusterSettings(*flags), {})
    assert cluster.rank == 1
    addresses = [task.address for task in cluster.trainers]
    assert addresses == ["node1:2222", "node2:2222", "node3:2222"]
    assert cluster.channel_address == ("node1", 2223)


def test_the_table_says_of_every_exit_code_whether_to_try_again(text):
    (table,) = re.findall(r"^\| exit codes .*\n\|[-|]+\n((?:\|.*\n)+)", text, re.M)
    rows = [[cell.strip() for cell in row.split("|")[1:-1]] for row in table.splitlines()]
    answers = {int(code): cells[2] for cells in rows for code in cells[0].split(",")}
    classes = [value for value in vars(errors).values() if isinstance(value, type)]
    codes = {each.exit_code for each in classes if issubclass(each, errors.ToolkitError)}
    retryable = {130, 137, 143, errors.RetryError.exit_code}
    assert {code for code, answer in answers.items() if answer == "yes"} == retryable
    assert {code for code, answer in answers.items() if answer == "no"} >= codes - retryable
