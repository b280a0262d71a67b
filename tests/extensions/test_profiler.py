"""`--with profiler`: the table of ops, the log, and that the run stays the same."""

import csv
import io
import json

from extension_fixtures import train
from run_fixtures import sessions
from toolkit_extensions import op_times
from toolkit_extensions.op_times import OpTime

from toolkit import tf
from toolkit.display.console import Console


def step_stats():
    """Two matmuls of 30 us on one device, one relu of 5 us on another, and one on a stream."""
    metadata = tf.RunMetadata()
    for device, nodes in [
        ("/cpu:0", [("a", 20), ("b", 10), ("a", 30)]),
        ("/gpu:0", [("c", 5)]),
        ("/gpu:0/stream:all", [("c", 5)]),
    ]:
        stats = metadata.step_stats.dev_stats.add(device=device)
        for name, time in nodes:
            node = stats.node_stats.add(node_name=name, op_end_rel_micros=time)
            node.memory.add(total_bytes=100)
    return metadata.step_stats


OPS = op_times.measure(step_stats(), {"a": "MatMul", "b": "MatMul", "c": "Relu"})


def test_times_calls_and_bytes_are_summed_by_op_and_by_type():
    assert OPS[0] == OpTime("a", "MatMul", 50, 2, 200)
    assert [(op.name, op.microseconds) for op in OPS] == [("a", 50), ("b", 10), ("c", 5)]
    relu = OpTime("", "Relu", 5, 1, 100)  # once, whatever the stream counts
    assert op_times.by_type(OPS) == [OpTime("", "MatMul", 60, 3, 300), relu]


def test_the_log_shows_as_many_types_as_requested():
    assert op_times.summarize(OPS, 7, 1) == [
        "step 7  profile  3 ops  0.1 ms  0.0 MiB allocated",
        " 92.3 %      0.06 ms      3 x MatMul",
    ]
    assert op_times.summarize(OPS, 7, 0) == []


def log_of(data, **options):
    """What a run with the profiler logs."""
    log = io.StringIO()
    train(data, "run", ["profiler"], console=Console(log), steps=6, **options)
    return log.getvalue()


def test_a_run_writes_a_table_and_a_trace_of_each_step(data, tmp_path):
    log = log_of(data, profile_steps="2,5", profiler_rows=1000)
    assert sessions(tmp_path / "run")[0]["without_effect"] == ["profiler_rows"]
    folder = tmp_path / "run" / "profile"
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["step-2.csv", "step-2.json", "step-5.csv", "step-5.json"]
    with open(str(folder / "step-2.csv"), newline="") as file:
        rows = list(csv.DictReader(file))
    assert "MatMul" in {row["type"] for row in rows}
    times = [int(row["microseconds"]) for row in rows]
    assert times == sorted(times, reverse=True) and sum(times) > 0
    assert json.loads((folder / "step-2.json").read_text())["traceEvents"]
    assert "step 2  profile" in log and " x MatMul" in log


def test_a_run_without_a_step_to_trace_says_so(data):
    text = " ".join(log_of(data).split())
    assert text.count("profiler: no step is traced: --profile-steps has 20, and the run") == 1
    assert "trains steps 1 to 6" in text
