"""`tf.estimator` trains, evaluates and predicts as TensorFlow 1.15 did, in one thread."""

import functools
import threading

import numpy as np
import pytest
from known_answers import assert_known, estimator_answers
from toolkit_adopt import standins
from toolkit_adopt.patches import Patches
from toolkit_adopt.standins import inputs, make_stand_in

from toolkit import UsageError, tf


@pytest.fixture
def estimator():
    """The stand-in, while the constructor of monitored sessions is wrapped."""
    found = make_stand_in("estimator")
    found.inputs = inputs
    with Patches() as patches:
        inputs.wrap_monitored_sessions(patches)
        yield found


def linear(estimator, **fields):
    """A model function whose loss is the square of a variable's distance to the features."""

    def model_fn(mode, features):  # given by name, in any order
        weight = tf.get_variable("weight", [], initializer=tf.zeros_initializer())
        loss = tf.reduce_mean((features - weight) ** 2)
        optimizer = tf.train.GradientDescentOptimizer(0.5)
        train_op = optimizer.minimize(loss, tf.train.get_global_step())
        values = {"predictions": {"w": features}, "loss": loss, "train_op": train_op, **fields}
        return estimator.EstimatorSpec(mode, **values)

    return model_fn


def test_a_model_is_trained_and_evaluated_as_by_the_first_tensorflow(estimator, tmp_path):
    assert_known(estimator_answers(estimator, str(tmp_path)), "estimator", rtol=1e-5)


def test_the_first_tensorflow_s_own_estimator_reads_the_inputs_without_threads(tmp_path):
    with standins.installed():
        import tensorflow

        assert tensorflow.estimator.inputs.numpy_input_fn is inputs.numpy_input_fn
        threads = threading.active_count()
        seen = []

        class Count(tf.train.SessionRunHook):
            def after_run(self, run_context, run_values):
                seen.append(threading.active_count() - threads)

        found = tensorflow.estimator.Estimator(linear(tensorflow.estimator), str(tmp_path))
        x = np.arange(10, dtype=np.float32)
        found.train(inputs.numpy_input_fn(x, batch_size=4, shuffle=False), [Count()])
    assert len(seen) == 3 and max(seen) <= 1  # the writer of summaries
    assert found.get_variable_value("weight") == 8.5  # each step sets it to the mean: 8 and 9


def test_each_epoch_has_all_rows_in_another_order(estimator):
    input_fn = estimator.inputs.numpy_input_fn(
        {"x": np.arange(6)}, batch_size=3, num_epochs=2, shuffle=True
    )
    with tf.Graph().as_default():
        features = input_fn()
        with tf.train.MonitoredSession() as session:
            rows = []
            while not session.should_stop():
                rows.append(session.run(features["x"]))
    first, second = np.concatenate(rows[:2]), np.concatenate(rows[2:])
    assert sorted(first) == sorted(second) == list(range(6))
    assert len(rows) == 4 and rows[0].dtype == np.int64


def test_columns_of_a_frame_are_features(estimator):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": [1.0, 2.0], "b (cm)": [3, 4]})
    frame["d"] = pandas.array(["p", "q"], dtype="string")
    features, labels = estimator.inputs.pandas_input_fn(
        frame, frame["a"], shuffle=False, target_column="c"
    )()
    assert sorted(features) == ["a", "b (cm)", "d"] and labels.shape.as_list() == [None]
    assert features["d"].dtype == tf.string


def test_a_data_set_is_read_whatever_the_scaffold_initializes(estimator):
    def model_fn(features, mode):
        own = tf.train.Scaffold(local_init_op=tf.local_variables_initializer())
        return linear(estimator, scaffold=own)(mode, features)

    found = estimator.Estimator(model_fn)
    found.train(lambda: tf.data.Dataset.from_tensors(7.0), steps=1)
    assert found.get_variable_value("weight") == 7.0


def test_what_a_partial_binds_stays(estimator):
    def model_fn(features, mode, params):
        assert params.pop("rate") == 1  # in each call
        return linear(estimator)(mode, features)

    found = estimator.Estimator(model_fn, params={"rate": 1})
    input_fn = functools.partial(lambda params: tf.fill([2], params), params=7.0)
    found.train(input_fn, steps=1)
    assert found.evaluate(input_fn, steps=1.5)["global_step"] == 1  # of data without an end
    assert found.get_variable_value("weight") == 7.0


def test_several_processes_and_unknown_fields_are_refused(estimator, monkeypatch):
    with pytest.raises(TypeError, match="has no batch_norm"):
        estimator.DNNClassifier([2], [], batch_norm=True)
    with pytest.raises(TypeError, match="device_fn"):
        estimator.RunConfig(device_fn=len)
    config = estimator.RunConfig(device_fn=None).replace(tf_random_seed=3)
    assert config.tf_random_seed == 3
    with pytest.raises(ValueError, match="remove train_distribute"):
        config.replace(train_distribute="mirrored")
    monkeypatch.setenv("TF_CONFIG", "{}")
    assert estimator.RunConfig().is_chief
    monkeypatch.setenv("TF_CONFIG", '{"cluster": {}}')
    with pytest.raises(UsageError, match="TF_CONFIG is set: the script would train in several"):
        estimator.RunConfig()


def test_exporters_may_be_named_and_export_nothing(estimator, capsys):
    receive = estimator.export.build_raw_serving_input_receiver_fn({"x": 1})
    exporters = [estimator.LatestExporter("last", receive), estimator.BestExporter(name="best")]
    spec = estimator.EvalSpec(lambda: tf.zeros([2]), exporters=exporters)
    assert spec.exporters == [None, None]
    assert estimator.Estimator(linear(estimator)).export_saved_model("there", receive) is None
    assert "'toolkit export' does" in capsys.readouterr().err
