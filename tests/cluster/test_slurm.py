"""The cluster that Slurm's variables describe."""

import pytest

from toolkit.cluster.definition import read_cluster
from toolkit.cluster.slurm import expand_nodes, expand_sizes
from toolkit.cluster.tasks import ClusterSettings
from toolkit.errors import UsageError

BASE = 10240 + 128 * 77  # the first port of job 77


def step(rank, nodes, sizes, count, **more):
    """The variables of one task of a step."""
    variables = {
        "SLURM_JOB_ID": "77",
        "SLURM_STEP_ID": "0",
        "SLURM_PROCID": str(rank),
        "SLURM_STEP_NUM_TASKS": str(count),
        "SLURM_STEP_NODELIST": nodes,
        "SLURM_STEP_TASKS_PER_NODE": sizes,
        **more,
    }
    return {name: value for name, value in variables.items() if value is not None}


def read(*arguments, **more):
    return read_cluster(ClusterSettings(), step(*arguments, **more))


def error_of(*arguments, **more):
    with pytest.raises(UsageError) as info:
        read(*arguments, **more)
    return info.value


@pytest.mark.parametrize(
    "text, names",
    [
        ("n[001-003,7],m2", "n001 n002 n003 n7 m2"),
        ("n[9-10],n[009-010]", "n9 n10 n009 n010"),
        ("a,b-[1],c_2.x", "a b-1 c_2.x"),
        ("r[1-2]n[1-2,4].lan", "r1n1.lan r1n2.lan r1n4.lan r2n1.lan r2n2.lan r2n4.lan"),
        ("10.0.0.[1-2]", "10.0.0.1 10.0.0.2"),
    ],
)
def test_a_list_of_nodes_is_expanded(text, names):
    assert expand_nodes(text) == names.split()


@pytest.mark.parametrize(
    "text",
    [
        *("", ",", "n1,", "n1,,n2", "n[1", "n1]", "n[]", "n[1-]", "n[-1]", "n[a-b]", "n[[1]]"),
        *(" n1", "n 1", "n/1", "n\n1", "n\0", "bgl[000x111]"),
    ],
)
def test_another_text_is_no_list_of_nodes(text):
    with pytest.raises(UsageError, match="^SLURM_STEP_NODELIST is .* no list of nodes"):
        expand_nodes(text)


@pytest.mark.parametrize(
    "text, sizes", [("3", [3]), ("2(x2),1", [2, 2, 1]), ("1,12(x1),3", [1, 12, 3])]
)
def test_the_numbers_of_tasks_are_expanded(text, sizes):
    assert expand_sizes(text) == sizes


@pytest.mark.parametrize("text", ["", "2(x", "x2", "2(x2", "-1", "2,,1", "1.5", "²"])
def test_another_text_is_no_list_of_numbers(text):
    with pytest.raises(UsageError, match="^SLURM_STEP_TASKS_PER_NODE is .* no list of numbers"):
        expand_sizes(text)


@pytest.mark.parametrize(
    "rank, node, local", [(0, "0", "0"), (1, "0", "1"), (2, "1", "0"), (3, "1", "1"), (4, "2", "0")]
)
def test_the_tasks_of_a_step_are_workers_with_a_port_each_on_their_node(rank, node, local):
    more = {"SLURM_NODEID": node, "SLURM_LOCALID": local}
    cluster = read(rank, "n[08-10]", "2(x2),1", 5, **more)
    addresses = [f"n{node}:{BASE + port}" for node in ("08", "09") for port in (0, 1)]
    assert cluster.jobs == {"worker": [*addresses, f"n10:{BASE}"]}
    assert (cluster.rank, cluster.source) == (rank, "Slurm")
    assert cluster.channel_address == ("n08", BASE + 2)


def test_another_distribution_is_refused():
    more = {"SLURM_NODEID": "1", "SLURM_LOCALID": "0"}
    error = error_of(1, "a,b", "2(x2)", 4, **more)
    assert error.message.startswith("Slurm has placed task 1 on node 1 as its task 0, ")
    assert error.hint == "Add --distribution=block to srun."


@pytest.mark.parametrize("count", [None, "", "0", "1"])
def test_without_a_step_of_several_tasks_a_process_is_alone(count):
    """In a batch script, the variables of the job are set and those of a step are not."""
    job = {"SLURM_NTASKS": "4", "SLURM_JOB_NODELIST": "n[1-4]", "SLURM_TASKS_PER_NODE": "1(x4)"}
    assert read(0, None, None, 0, SLURM_STEP_NUM_TASKS=count, **job) is None


def test_steps_that_run_side_by_side_have_other_ports():
    def first_port(**more):
        return read(0, "n", "100", 100, **more).chief.address

    addresses = [first_port()]
    addresses += [first_port(SLURM_STEP_ID=str(number)) for number in (1, 2, 3)]
    addresses += [first_port(SLURM_JOB_ID=str(77 + number)) for number in (1, 2, 100)]
    assert len(set(addresses)) == 7
    assert all(10240 <= int(address.split(":")[1]) < 30720 for address in addresses)


def test_tf_config_and_flags_replace_slurms_variables():
    variables = step(0, "a,b", "1(x2)", 2)
    assert read_cluster(ClusterSettings(), variables).source == "Slurm"
    assert read_cluster(ClusterSettings(cluster="{}"), variables) is None
    assert read_cluster(ClusterSettings(), dict(variables, TF_CONFIG="{}")) is None
    assert read_cluster(ClusterSettings(), dict(variables, TF_CONFIG="")).source == "Slurm"


@pytest.mark.parametrize(
    "name, value, message",
    [
        ("SLURM_PROCID", None, "SLURM_STEP_NUM_TASKS is set, but SLURM_PROCID is not."),
        ("SLURM_PROCID", "one", 'SLURM_PROCID is "one", which is no number.'),
        ("SLURM_STEP_NUM_TASKS", "-2", 'SLURM_STEP_NUM_TASKS is "-2", which is no number.'),
        ("SLURM_STEP_NODELIST", "", "SLURM_STEP_NUM_TASKS is set, but SLURM_STEP_NODELIST is not."),
        ("SLURM_LOCALID", "x", 'SLURM_LOCALID is "x", which is no number.'),
    ],
)
def test_a_wrong_variable_is_named(name, value, message):
    error = error_of(0, "a,b", "1(x2)", 2, **{name: value})
    assert error.message == message and "srun" in error.hint


@pytest.mark.parametrize(
    "arguments",
    [(2, "a,b", "1(x2)", 2), (0, "a,b", "2", 2), (0, "a,a", "1(x2)", 2), (0, "a,b", "2(x2)", 3)],
)
def test_variables_that_contradict_one_another_are_refused(arguments):
    assert error_of(*arguments).message.startswith("Slurm's variables contradict one another: ")
