"""In which order the workers of pytest-xdist test the files."""

import tiers
from xdist.scheduler import LoadFileScheduling


class DearestFirst(LoadFileScheduling):
    """Whole files, of which the dearest begin first, so that all workers end at about one time.

    The scheduler of xdist begins with the files of most tests.
    """

    def __init__(self, config, log):
        super().__init__(config, log)
        self._seconds = tiers.read_seconds()
        self._costs = {}  # of files, as far as they were asked for

    def _assign_work_unit(self, node):
        dearest = max(self.workqueue, key=self._cost)
        self.workqueue.move_to_end(dearest, last=False)
        super()._assign_work_unit(node)

    def _cost(self, file):
        if file not in self._costs:
            tests = self.workqueue[file]
            self._costs[file] = sum(tiers.seconds_of(test, self._seconds) for test in tests)
        return self._costs[file]
