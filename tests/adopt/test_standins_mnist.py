"""`input_data` gives local files in the batches of 1.15; the network of the tutorial learns."""

import shutil

import numpy as np
import pytest
from known_answers import assert_known, mnist_answers, write_mnist
from toolkit_adopt.standins import mnist_network
from toolkit_adopt.standins.mnist import read_data_sets

from toolkit import DataError, tf


def test_batches_are_those_of_the_first_tensorflow(tmp_path):
    found = mnist_answers(read_data_sets, str(tmp_path))
    assert_known(found, "mnist", rtol=0)
    names = ("plain images", "plain labels", "raw images", "raw labels")
    assert [found[f"mnist/{name}"].dtype for name in names] == ["f4", "u1", "u1", "f8"]


def test_files_need_not_be_compressed(tmp_path):
    write_mnist(tmp_path, "", open)
    assert read_data_sets(str(tmp_path), validation_size=0).train.num_examples == 8


def test_a_file_that_is_not_there_is_named_with_the_place_to_put_it(tmp_path):
    write_mnist(tmp_path)
    (tmp_path / "t10k-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(DataError, match="has no t10k-labels-idx1-ubyte.gz; nothing is down") as it:
        read_data_sets(str(tmp_path))
    assert f"into '{tmp_path}'" in it.value.hint


def test_a_damaged_file_and_one_of_other_content_are_refused(tmp_path):
    write_mnist(tmp_path)
    path = tmp_path / "train-images-idx3-ubyte.gz"
    whole = path.read_bytes()
    path.write_bytes(whole[:30])
    with pytest.raises(DataError, match="is not a readable IDX file"):
        read_data_sets(str(tmp_path))
    shutil.copy(tmp_path / "train-labels-idx1-ubyte.gz", path)
    with pytest.raises(DataError, match="begins with 2049, not 2051"):
        read_data_sets(str(tmp_path))


def test_too_many_examples_for_validation_and_fake_data_are_refused(tmp_path):
    write_mnist(tmp_path)
    with pytest.raises(ValueError, match="from 0 to 8, not 5000"):
        read_data_sets(str(tmp_path))
    with pytest.raises(ValueError, match="has no fake_data"):
        read_data_sets(str(tmp_path), fake_data=True)


def test_the_network_of_the_tutorial_learns_one_batch():
    images = np.random.RandomState(0).rand(4, 784).astype(np.float32)
    with tf.Graph().as_default() as graph, tf.Session() as session:
        tf.set_random_seed(0)
        logits = mnist_network.inference(tf.constant(images), 16, 8)
        labels = tf.constant([3, 1, 4, 1])
        train = mnist_network.training(mnist_network.loss(logits, labels), 0.1)
        right = mnist_network.evaluation(logits, labels)
        session.run(tf.global_variables_initializer())
        for _ in range(300):
            session.run(train)
        *weights, step = graph.get_collection("variables")
        assert (session.run([right, step]), logits.shape[1]) == ([4, 300], 10)
    names = [v.op.name for v in weights]
    layers = ("hidden1", "hidden2", "softmax_linear")
    assert names == [f"{layer}/{each}" for layer in layers for each in ("weights", "biases")]
