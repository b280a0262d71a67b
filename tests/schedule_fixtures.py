"""The order in which pytest-xdist gives files of tests to its workers."""

from __future__ import annotations

from xdist.scheduler import LoadFileScheduling

# Each takes minutes of one core; those that take longest come first.
LONG_FILES = (
    "tests/test_third_party.py",
    "tests/docs/test_pages.py",
    "tests/graph/test_while_loop.py",
    "tests/gan/test_gan_plugin.py",
    "tests/classifier/test_contract.py",
    "tests/kit/test_new_plugins_installed.py",
    "tests/audit/test_chaos.py",
    "tests/audit/test_verify.py",
    "tests/training/test_exact_resume.py",
    "tests/cluster_training/test_exactness.py",
    "tests/cluster_training/test_cluster_faults.py",
    "tests/extensions/test_combinations.py",
    "tests/kit/test_contracts.py",
    "tests/launch/test_launch_training.py",
    "tests/gan/test_gan_cli.py",
    "tests/test_streams.py",
    "tests/docs/test_starting_page.py",
    "tests/gan/test_gan_contract.py",
    "tests/search/test_search_kills.py",
    "tests/search/test_search_command.py",
    "tests/cluster/test_cluster_samples_train.py",
    "tests/cluster_training/test_parameter_servers.py",
    "tests/gan/test_gan_clusters.py",
)


class LongFilesFirst(LoadFileScheduling):
    """Begins with the longest files, so that no worker is alone with one of them at the end.

    xdist itself begins with the files of the most tests, which are short ones.
    """

    def _assign_work_unit(self, node):
        for file in reversed(LONG_FILES):
            if file in self.workqueue:
                self.workqueue.move_to_end(file, last=False)
        super()._assign_work_unit(node)
