"""In which order the workers of pytest-xdist test the files."""

import tiers
from xdist.scheduler import LoadFileScheduling


class DearestFirst(LoadFileScheduling):
    """Whole files, of which the dearest begin first, so that all workers end at about one time.

    The scheduler of xdist begins with the files of most tests.
    """

    def _assign_work_unit(self, node):
        seconds = tiers.read_seconds()

        def cost(file):
            return sum(tiers.seconds_of(test, seconds) for test in self.workqueue[file])

        self.workqueue.move_to_end(max(self.workqueue, key=cost), last=False)
        super()._assign_work_unit(node)
