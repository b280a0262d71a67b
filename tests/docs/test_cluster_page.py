"""What docs/cluster.md says of clusters and ports is what the toolkit does."""

import re
import shlex

from page_fixtures import commands_of, read_blocks

from toolkit.cluster.definition import read_cluster
from toolkit.cluster.tasks import ClusterSettings

PAGE = "docs/cluster.md"


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
