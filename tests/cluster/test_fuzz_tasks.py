"""Whatever the variables of a cluster say, they are read, or refused in one sentence."""

import json
import os

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from toolkit.cluster.definition import read_cluster
from toolkit.cluster.tasks import ClusterSettings
from toolkit.errors import UsageError

fuzz = settings(
    max_examples=int(os.environ.get("TOOLKIT_FUZZ_EXAMPLES", "60")),
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["a:1", "b:2", "[::1]:3", "a:0", "worker", "chief", "1", "²"]),
)
ADDRESSES = st.one_of(LEAVES, st.lists(LEAVES, max_size=3), st.dictionaries(LEAVES, LEAVES))
NAMES = st.sampled_from(["chief", "master", "worker", "ps", "evaluator", "Worker", ""])
CLUSTERS = st.one_of(LEAVES, st.dictionaries(NAMES, ADDRESSES, max_size=4), st.lists(LEAVES))
TASKS = st.one_of(
    LEAVES,
    st.fixed_dictionaries({"type": st.one_of(NAMES, LEAVES), "index": LEAVES}),
    st.dictionaries(st.sampled_from(["type", "index", "typ", "x"]), LEAVES),
)
CONFIGS = st.one_of(
    st.text(max_size=30),
    LEAVES.map(json.dumps),
    st.fixed_dictionaries({"cluster": CLUSTERS, "task": TASKS}).map(json.dumps),
    st.dictionaries(st.sampled_from(["cluster", "task", "clusters", "e"]), CLUSTERS).map(
        json.dumps
    ),
)
HOSTS = st.lists(
    st.from_regex(r"\A[a-z][a-z0-9]{0,2}([.-][a-z0-9]{1,2})?:[1-9][0-9]{0,3}\Z"),
    min_size=1,
    max_size=4,
    unique=True,
)


def check(settings, environ):
    """Read a cluster: all that it says agrees, or the mistake is one sentence."""
    try:
        cluster = read_cluster(settings, environ)
    except UsageError as error:
        assert "\n" not in error.message and error.message.endswith(".") and len(error.hint) > 5
        return None
    if cluster is not None:
        assert cluster.rank is None or cluster.trainers[cluster.rank] == cluster.task
        assert cluster.is_chief == (cluster.task in cluster.trainers[:1])
        if cluster.jobs:
            assert cluster.channel_address[0] and 0 < cluster.channel_address[1] < 1 << 16
            assert len({task.address for task in cluster.tasks}) == len(cluster.tasks) > 0
    return cluster


@fuzz
@given(CONFIGS)
@example(
    '{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": ' + "9" * 9999 + "}}"
)
@example('{"cluster":' * 9999)
@example('{"cluster": {"worker": [NaN]}, "task": {"type": "worker", "index": Infinity}}')
@example('{"task": {"type": "\\ud800", "index": 0}}')
@example('{"\\ud800": 1, "\\ud800": 2}')
def test_any_tf_config_is_read_or_refused_in_one_sentence(text):
    check(ClusterSettings(), {"TF_CONFIG": text})


@fuzz
@given(st.one_of(st.none(), CONFIGS), st.one_of(st.none(), st.text(max_size=9), NAMES))
@example("{}", "evaluator:0")
def test_any_flags_are_read_or_refused_in_one_sentence(cluster, task):
    check(ClusterSettings(cluster=cluster, task=task), {})


@fuzz
@given(st.data())
def test_each_task_of_a_right_config_finds_itself(data):
    hosts = data.draw(HOSTS)
    cut = data.draw(st.integers(0, len(hosts) - 1))
    jobs = {job: part for job, part in (("ps", hosts[:cut]), ("worker", hosts[cut:])) if part}
    job = data.draw(st.sampled_from(sorted(jobs)))
    index = data.draw(st.integers(0, len(jobs[job]) - 1))
    text = json.dumps({"cluster": jobs, "task": {"type": job, "index": index}})
    try:
        cluster = read_cluster(ClusterSettings(), {"TF_CONFIG": text})
    except UsageError as error:  # two texts of one address
        assert "have the same address" in error.message
        return
    assert cluster is None if len(hosts) == 1 else cluster.task.address == jobs[job][index]


SLURM_TEXTS = st.one_of(
    st.text("n0123456789[]-,x()", max_size=12),
    st.sampled_from(["a,b", "n[1-2]", "1(x2)", "2", "1", "0", "1,1", ""]),
)


@fuzz
@given(st.lists(SLURM_TEXTS, min_size=8, max_size=8))
def test_any_variables_of_slurm_are_read_or_refused_in_one_sentence(texts):
    names = ["STEP_NUM_TASKS", "PROCID", "STEP_NODELIST", "STEP_TASKS_PER_NODE"]
    names += ["LOCALID", "NODEID", "JOB_ID", "STEP_ID"]
    check(ClusterSettings(), {f"SLURM_{name}": text for name, text in zip(names, texts) if text})
