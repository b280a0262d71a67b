"""The checkpoints of a run as another process commits them: which ones, in which order, and when
the feed ends. The run is written by the feed's own waiting, action by action.
"""

import os
import shutil

import pytest
from folder_fixtures import DATA, begin, commit, damage, save, write

from toolkit.errors import CheckpointError, RetryError, UsageError
from toolkit.storage.checkpoint_feed import CheckpointFeed, FeedSettings
from toolkit.storage.run_folder import RunFolder, reserve

CODES = {"finished": 0, "interrupted": 130, "failed": 1}


class Writer:
    """The process that trains, as far as its folder shows."""

    def __init__(self, path):
        self.path = str(path)
        self.folder = None

    def begin(self, created="one"):
        self.folder = begin(self.path, created=created)

    def write(self, *steps):
        """A run that has these checkpoints."""
        self.begin()
        for step in steps:
            self.commit(step)

    def commit(self, step, keep=99, tensors=None):
        commit(self.folder, step, keep, tensors or f"tensors of {step}")

    def resume(self, step):
        self.folder.checkpoints.begin_session(self.folder.commits.find_commit(step))

    def end(self, status="finished", **values):
        values = {"step": 6, "reason": "reached step 6", "exit_code": CODES.get(status), **values}
        self.folder.record("end", status=status, **values)

    def die(self):
        self.folder.unlock()

    def replace(self):
        """Another run begins in the folder."""
        self.die()
        os.rename(self.path, self.path + ".old")
        self.begin(created="another")


class Clock:
    """Time passes only when the feed sleeps; each sleep makes the next actions of a test."""

    def __init__(self):
        self.now = 0.0
        self.actions = []

    def sleep(self, secs):
        self.now += secs
        if self.actions:
            self.actions.pop(0)()


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def writer(tmp_path):
    writer = Writer(tmp_path / "run")
    yield writer
    if writer.folder is not None:
        writer.die()


@pytest.fixture
def feed_of(writer, clock):
    """`feed_of(every=True, ...)`: a feed of the writer's run; `feed.warnings` are its messages."""

    def create(path=None, **settings):
        warnings = []
        settings = FeedSettings(**dict({"idle_secs": 20.0, "start_secs": 20.0}, **settings))
        feed = CheckpointFeed(
            path or writer.path, settings, warnings.append, lambda: clock.now, clock.sleep
        )
        feed.warnings = warnings
        return feed

    return create


def take_all(feed):
    """The step of each checkpoint to the end."""
    steps = []
    for item in iter(feed.next, None):
        steps.append(item.checkpoint.step)
        feed.complete(item)
    return steps


def test_what_retention_deletes_is_left_out(writer, feed_of):
    writer.begin()
    feed = feed_of(every=True)
    writer.commit(2, keep=1)
    first = feed.next()
    writer.commit(4, keep=1)  # deletes step 2 while it is evaluated
    second = feed.next()
    writer.commit(6, keep=1)
    writer.end()
    assert (first.checkpoint.step, second.checkpoint.step) == (2, 4)
    assert take_all(feed) == [6] and feed.warnings == []


def test_retention_between_two_looks_at_the_files_is_no_damage(writer, feed_of, monkeypatch):
    writer.begin()
    writer.commit(2, keep=1)
    feed = feed_of(every=True)
    find_damage = type(writer.folder.checkpoints).find_damage

    def find_later(store, checkpoint):
        if checkpoint.step == 2:
            monkeypatch.undo()
            writer.commit(4, keep=1)
        return find_damage(store, checkpoint)

    monkeypatch.setattr(type(writer.folder.checkpoints), "find_damage", find_later)
    assert feed.next().checkpoint.step == 4 and feed.warnings == []


def test_a_kill_and_a_resume_in_between_go_unnoticed(writer, clock, feed_of):
    writer.write(2, 4)

    def kill():
        writer.die()
        damage(writer.folder, 4)

    def resume():
        writer.folder = RunFolder(writer.path)
        writer.folder.lock()
        writer.resume(2)

    actions = [lambda: None] * 10 + [resume, lambda: writer.commit(4), lambda: writer.commit(6)]
    feed = feed_of()
    item = feed.next()
    assert (item.checkpoint.step, item.session) == (4, 1)
    feed.complete(item)
    feed.is_known = lambda checkpoint: checkpoint.tensors == "tensors of 4"
    clock.actions = [kill, *actions, writer.end]
    item = feed.next()  # not step 4 again: it has the same tensors
    assert (item.checkpoint.step, item.session) == (6, 2)
    assert take_all(feed) == [6]


def test_a_step_with_other_tensors_after_a_resume_is_another_checkpoint(writer, feed_of):
    writer.write(2, 4)
    feed = feed_of()
    item = feed.next()
    feed.complete(item)
    writer.resume(2)
    writer.commit(4, tensors="others")
    writer.end()
    assert take_all(feed) == [4]


def test_a_checkpoint_that_a_resume_discards_gives_way_to_the_one_before(writer, clock, feed_of):
    clock.actions = [lambda: pytest.fail("There is a checkpoint, and the feed waits.")]
    writer.write(2, 4)
    writer.resume(2)
    assert feed_of().next().checkpoint.step == 2


def test_a_damaged_last_checkpoint_is_awaited_and_an_error_of_an_ended_run(writer, clock, feed_of):
    writer.write(2)
    writer.end()
    damage(writer.folder, 2)
    clock.actions = [lambda: None, lambda: None, lambda: save(writer.folder, 2)]
    feed = feed_of()
    assert take_all(feed) == [2] and feed.warnings == []
    damage(writer.folder, 2)
    with pytest.raises(CheckpointError, match="The checkpoint of step 2 is damaged: .* bytes"):
        feed_of().next()


def test_a_damaged_checkpoint_before_an_intact_one_is_a_warning(writer, feed_of):
    writer.write(2, 4)
    writer.end()
    damage(writer.folder, 2)
    feed = feed_of(every=True)
    assert take_all(feed) == [4]
    (warning,) = feed.warnings
    assert warning.startswith("The checkpoint of step 2 is damaged: model.ckpt-2.index has ")


def test_a_commit_log_that_cannot_be_read_is_an_error_after_the_silence(writer, clock, feed_of):
    writer.begin()
    writer.die()
    feed = feed_of()
    feed.wait_for_run()
    write("{\n", writer.folder.commits.path)
    with pytest.raises(CheckpointError, match="commits.jsonl is damaged: entry 1 has changed"):
        feed.next()
    assert clock.now >= 20


def test_a_trained_run_whose_process_has_failed_is_at_its_end(writer, feed_of):
    writer.write(2)
    writer.end("trained", exit_code=4)
    feed = feed_of()
    assert take_all(feed) == [2]
    assert (feed.end["status"], feed.end["exit_code"]) == ("trained", 4)


@pytest.mark.parametrize("status", ["running", "trained", "stopped"])
def test_a_killed_run_ends_the_feed_after_a_silence(writer, clock, feed_of, status):
    writer.write(2)
    writer.end(status)
    writer.die()
    feed = feed_of()
    feed.complete(feed.next())
    with pytest.raises(RetryError, match="no end, nothing in it has changed for 20 s, and no"):
        feed.next()
    assert 20 <= clock.now < 22


def test_a_process_that_trains_breaks_the_silence(writer, clock, feed_of):
    writer.begin()  # which locks the folder
    clock.actions = [lambda: None] * 200 + [lambda: writer.commit(2), writer.end]
    assert take_all(feed_of()) == [2]
    assert clock.now > 100


def test_a_run_that_never_begins_is_an_error_after_a_while(writer, clock, feed_of):
    os.mkdir(writer.path)
    with pytest.raises(RetryError, match="No run has begun in .*run within 20 s"):
        feed_of().next()
    assert os.listdir(writer.path) == []


def test_a_path_where_no_run_can_begin_is_a_mistake(writer, clock, feed_of):
    write("", writer.path)
    with pytest.raises(UsageError, match="run is a file"):
        feed_of().next()
    folder = os.path.dirname(writer.path)
    with pytest.raises(UsageError, match="contains no run"):
        feed_of(folder).next()
    with pytest.raises(RetryError, match="No run has begun"):
        feed_of(folder, awaits_change=True).next()


def test_a_folder_that_is_removed_is_an_error(writer, feed_of):
    writer.begin()
    feed = feed_of()
    feed.wait_for_run()
    writer.die()
    shutil.rmtree(writer.path)
    with pytest.raises(CheckpointError, match="is gone"):
        feed.next()


def test_another_run_in_the_folder_is_not_taken_for_one_that_had_a_checkpoint(writer, feed_of):
    writer.begin()
    before, after = feed_of(), feed_of()
    before.wait_for_run()
    writer.commit(2)
    item = after.next()
    writer.replace()
    with pytest.raises(RetryError, match="Another run has begun in .*run, in place of"):
        after.complete(item)
    writer.commit(4)
    assert before.next().checkpoint.step == 4


def test_a_run_that_a_process_trains_is_not_waited_for_to_change(writer, clock, feed_of):
    writer.write(2)
    feed = feed_of(awaits_change=True)
    feed.wait_for_run()
    assert feed.next().checkpoint.step == 2 and clock.now == 0


@pytest.mark.parametrize("change, expected", [("resume", [2, 4]), ("replace", [4]), ("no", [2])])
def test_a_run_that_is_about_to_change_is_fed_from_once_it_does_or_after_a_while(
    writer, clock, feed_of, change, expected
):
    writer.write(2)
    writer.end("interrupted")
    writer.die()
    if change != "no":
        begin = writer.replace if change == "replace" else lambda: writer.resume(2)
        clock.actions = [lambda: None] * 9 + [begin, lambda: writer.commit(4), writer.end]
    feed = feed_of(awaits_change=True)
    feed.wait_for_run()
    assert clock.now == (20 if change == "no" else 5)
    assert take_all(feed) == expected
    assert feed.end["exit_code"] == (130 if change == "no" else 0)


def test_the_wait_for_a_run_ends_with_its_first_session(writer, clock, feed_of):
    writer.folder = reserve(writer.path)
    writer.folder.create({"plugin": "p"})
    clock.actions = [
        lambda: writer.folder.record("run", data=DATA, plugins={}, created="one"),
        lambda: None,
        lambda: writer.folder.checkpoints.begin_session(None),
    ]
    feed = feed_of()
    feed.wait_for_run()
    assert feed.session == 1
