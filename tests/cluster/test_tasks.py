"""Which task of which cluster a process is: from TF_CONFIG and from flags."""

import json

import pytest

from toolkit.cluster.definition import read_cluster
from toolkit.cluster.tasks import ClusterSettings, Task
from toolkit.errors import UsageError

PAIR = {"worker": ["a:1", "b:2"]}
JOBS = {"chief": ["a:2222"], "worker": ["b:2222", "c:2223"], "ps": ["d:2224"]}
WORKER = {"type": "worker", "index": 0}


def config(cluster=None, task=None, **more):
    """The text of a TF_CONFIG."""
    values = {"cluster": cluster, "task": task}
    return json.dumps({**{n: value for n, value in values.items() if value is not None}, **more})


def read(text="", **settings):
    return read_cluster(ClusterSettings(**settings), {"TF_CONFIG": text})


def error_of(text="", **settings):
    """The message and the hint of the mistake in a TF_CONFIG or in flags."""
    with pytest.raises(UsageError) as info:
        read(text, **settings)
    assert info.value.exit_code == 2
    return info.value


def test_a_worker_knows_its_rank_and_all_tasks():
    cluster = read(config(JOBS, {"type": "worker", "index": 1}))
    assert cluster.jobs == JOBS and cluster.task == Task("worker", 1, "c:2223")
    assert [task.name for task in cluster.tasks] == ["chief", "worker 0", "worker 1", "ps 0"]
    assert [task.name for task in cluster.trainers] == ["chief", "worker 0", "worker 1"]
    assert (cluster.rank, cluster.is_chief, cluster.num_trainers) == (2, False, 3)
    assert cluster.chief == Task("chief", 0, "a:2222") and cluster.has_ps
    assert cluster.summary == "worker 1 of chief + 2 workers + 1 ps"
    assert cluster.source == "TF_CONFIG"


def test_without_a_chief_worker_0_is_the_chief():
    cluster = read(config(PAIR, WORKER))
    assert cluster.chief == cluster.task == Task("worker", 0, "a:1")
    assert (cluster.rank, cluster.is_chief, cluster.has_ps) == (0, True, False)
    assert cluster.summary == "worker 0 of 2 workers"


@pytest.mark.parametrize("name, job", [("master", "master"), ("chief", "master")])
def test_a_master_is_a_chief(name, job):
    cluster = read(config({name: ["a:1"], "worker": ["b:1"]}, {"type": job, "index": 0}))
    assert cluster.jobs == {"chief": ["a:1"], "worker": ["b:1"]}
    assert cluster.task == Task("chief", 0, "a:1") and cluster.is_chief


@pytest.mark.parametrize("cluster", [JOBS, dict(JOBS, evaluator=["e:2222"])])
def test_an_evaluator_may_be_listed_and_has_no_server(cluster):
    result = read(config(cluster, {"type": "evaluator", "index": 0}))
    assert result.jobs == JOBS and result.rank is None and len(result.tasks) == 4
    assert result.task == Task("evaluator", 0, cluster.get("evaluator", [""])[0])


def test_an_evaluator_needs_no_cluster():
    cluster = read(config(task={"type": "evaluator", "index": 0}))
    assert (cluster.jobs, cluster.task) == ({}, Task("evaluator", 0, ""))
    assert (cluster.tasks, cluster.rank, cluster.summary) == ([], None, "evaluator 0")


@pytest.mark.parametrize(
    "text",
    [
        *("", "  ", "{}", '{"cluster": {}, "task": {}}', '{"cluster": null, "task": null}'),
        '{"environment": "cloud"}',
        config({"worker": ["a:1"]}, WORKER),
        config({"master": ["a:1"], "worker": [], "ps": []}, {"type": "master"}),
        config({"chief": ["a:1"], "evaluator": ["e:1"]}, {"type": "chief", "index": 0}),
    ],
)
def test_a_process_without_others_trains_alone(text):
    assert read(text) is None


def test_addresses_may_be_names_and_numbers_of_both_protocols():
    hosts = ["n-1.x_y.example:2222", "10.0.0.1:2222", "[fd00::1]:65535", "[fe80::1%eth0]:1"]
    task = {"type": "worker", "index": "2"}  # a text, and with more keys, as Kubeflow has them
    text = config({"worker": hosts}, task, environment="cloud", rpc_layer="grpc")
    assert read(text).jobs == {"worker": hosts} and read(text).task.index == 2


@pytest.mark.parametrize(
    "text, message",
    [
        ("{'cluster': {}}", "TF_CONFIG is not valid JSON: Expecting property name enclosed in"),
        ("[]", "TF_CONFIG is [], which is no JSON object."),
        (config({"worker": [float("nan")]}, WORKER), "TF_CONFIG: cluster: worker[0] is NaN, which"),
        ('{"clusters": {}}', "TF_CONFIG has no 'cluster', but \"clusters\"."),
        (config(PAIR, tasks=WORKER), 'TF_CONFIG has no \'task\', but "cluster", "tasks".'),
        (config(PAIR), "TF_CONFIG has a cluster but no task."),
        (config(task=WORKER), "TF_CONFIG: task is set, but no cluster."),
        (config([["a:1"]], WORKER), 'TF_CONFIG: cluster is [["a:1"]], not an object.'),
        (config({"workers": ["a:1"]}, WORKER), 'TF_CONFIG: cluster has the unknown job "workers".'),
        (config({"worker": "a:1"}, WORKER), 'TF_CONFIG: cluster: worker is "a:1", not a list of'),
        *(
            (
                config({"worker": ["a:1", address]}, WORKER),
                f'TF_CONFIG: cluster: worker[1] is "{address}", which is no address.',
            )
            for address in ("b", "grpc://a:1", "::1:2222", "a:0")
        ),
        (
            config({"worker": ["a:1", "A:01"]}, WORKER),
            "TF_CONFIG: cluster: worker[0] and worker[1] have the same address, A:01.",
        ),
        (
            config({"chief": ["a:1", "b:1"]}, {"type": "chief"}),
            "TF_CONFIG: cluster: chief has 2 addresses, and a cluster has one chief.",
        ),
        (config({"ps": ["a:1"]}, {"type": "ps"}), "TF_CONFIG: cluster has no worker and no chief."),
        (config(PAIR, "worker"), 'TF_CONFIG: task is "worker", not an object with a type.'),
        (config(PAIR, {"type": "Worker"}), 'TF_CONFIG: task is "Worker", which names no job.'),
        (config(PAIR, {"type": "ps"}), "TF_CONFIG: task is a ps, but the cluster has no ps."),
        (config(PAIR, {"type": "chief"}), "TF_CONFIG: task is a chief, but the cluster has no"),
        (
            config(PAIR, {"type": "worker"}),
            "TF_CONFIG: task is a worker without an index, and the cluster has 2 of them.",
        ),
        (
            config(PAIR, {"type": "worker", "index": 2}),
            "TF_CONFIG: task is worker 2, and the cluster has 2 of them.",
        ),
        *(
            (
                config(PAIR, {"type": "worker", "index": index}),
                "TF_CONFIG: task is a worker with the index "
                f"{json.dumps(index)}, which is no number.",
            )
            for index in (-1, 0.0, True, "²")
        ),
    ],
)
def test_a_wrong_tf_config_is_one_sentence(text, message):
    error = error_of(text)
    assert error.message.startswith(message) and error.message.endswith(".")
    assert "\n" not in error.message and error.hint.endswith((".", "?"))


@pytest.mark.parametrize(
    "text, hint",
    [
        (config({"workers": ["a:1"]}, WORKER), "Did you mean 'worker'?"),
        (config(PAIR, {"type": "ps"}), "The jobs of the cluster: worker."),
        (config(PAIR, {"type": "worker"}), "Write the index of this process, 0 to 1."),
        (config(task=WORKER), "or unset TF_CONFIG to train alone."),
    ],
)
def test_the_hint_names_the_way_out(text, hint):
    assert error_of(text).hint.endswith(hint)


@pytest.mark.parametrize("task, name", [("master:0", "chief"), ("ps", "ps 0")])
def test_a_task_flag_may_omit_the_index_of_a_single_task(task, name):
    assert read(cluster=json.dumps(JOBS), task=task).task.name == name


def test_flags_replace_tf_config():
    text = config(JOBS, {"type": "ps", "index": 0})
    cluster = read(text, cluster=json.dumps(PAIR), task="worker:0")
    assert (cluster.jobs, cluster.source) == (PAIR, "--cluster")
    assert read("nonsense", cluster="{}") is None


def test_a_cluster_may_be_in_a_file(tmp_path):
    path = tmp_path / "cluster.json"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(PAIR).encode())
    assert read(cluster=str(path), task="worker:1").task == Task("worker", 1, "b:2")


@pytest.mark.parametrize(
    "contents, message",
    [
        (b"\xff", " cannot be read: 'utf-8' codec can't decode byte 0xff in position 0"),
        (b"", " is not valid JSON: Expecting value: line 1"),
        (b'{"worker": ["a"]}', ': worker[0] is "a", which is no address.'),
    ],
)
def test_a_wrong_file_is_named(tmp_path, contents, message):
    path = tmp_path / "cluster.json"
    path.write_bytes(contents)
    found = error_of(cluster=str(path), task="chief").message
    assert found.startswith(f"--cluster {path}{message}")


@pytest.mark.parametrize("path", ["missing.json", ".", "nul\0l", "two\nlines", "x" * 5000])
def test_a_file_that_cannot_be_read_is_named(path):
    name = path if path.isprintable() else json.dumps(path)
    message = error_of(cluster=path, task="chief").message
    assert message.startswith(f"--cluster {name} cannot be read: ")


@pytest.mark.parametrize(
    "cluster, task, message",
    [
        (PAIR, None, "--cluster is set, but --task, the task of this process, is not."),
        ({}, "worker:0", "--task is set, but no cluster."),
        (PAIR, "worker 1", '--task is "worker 1", which names no job.'),
        (PAIR, "worker:", '--task is a worker with the index "", which is no number.'),
        ({"cluster": PAIR}, "worker:0", '--cluster has the unknown job "cluster".'),
    ],
)
def test_a_wrong_flag_is_one_sentence(cluster, task, message):
    assert error_of(cluster=json.dumps(cluster), task=task).message == message


@pytest.mark.parametrize(
    "addresses, address",
    [
        (["a:2222", "b:2222"], ("a", 2223)),
        (["a:2222", "b:2223", "c:2224"], ("a", 2225)),
        (["a:65535", "b:65534"], ("a", 65533)),
        (["[::1]:2222", "b:2"], ("::1", 2223)),
    ],
)
def test_the_channel_has_the_next_port_that_no_task_has(addresses, address):
    assert read(config({"worker": addresses}, WORKER)).channel_address == address


def test_the_port_of_the_channel_may_be_set():
    assert read(config(PAIR, WORKER), channel_port=2).channel_address == ("a", 2)


def test_the_channel_does_not_get_the_port_of_a_task_on_the_chiefs_host():
    message = error_of(config({"worker": ["a:1", "a:2"]}, WORKER), channel_port=2).message
    assert message == "--channel-port 2 is the port of worker 1, a:2."
