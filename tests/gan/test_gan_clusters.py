"""Labels from clusters of the training images: k-means, the graph, whole runs, mistakes."""

import numpy as np
import pytest
from gan_fixtures import SMALL, make_run, options
from toolkit_gan import architecture, clusters, kmeans, sampling
from toolkit_gan import cluster_features as features

import toolkit
from toolkit import DataError, DataSpec, Split, UsageError, testing, tf
from toolkit.graph.run import step_builder_of

GREY, COLOUR = (8, 8, 1), (41, 44, 3)
UNLABELLED = DataSpec(GREY, "uint8")
LABELLED = DataSpec(GREY, "uint8", 2, ("dark", "light"), (30, 10))


def make_options(**values):
    return options(**dict(conditional="clusters", clusters=4, **values))


def blobs(sizes=(5, 3, 2)):
    """Points [N, 2] around (0, 0), (10, 0), (20, 0), ..., with the first coordinate exact."""
    labels = np.repeat(np.arange(len(sizes)), sizes)
    return np.stack([10.0 * labels, np.random.RandomState(1).uniform(-1, 1, len(labels))], 1)


def make_split(count=60, shape=GREY, seed=0):
    """Images of four brightnesses, one for each cluster, with noise."""
    brightness = 60 * (np.arange(count) % 4).reshape(-1, *[1] * len(shape))
    noise = np.random.RandomState(seed).randint(0, 9, (count, *shape))
    return Split((brightness + noise).astype(np.uint8))


@pytest.mark.parametrize("max_square", [1500, 3], ids=["values", "rows"])
def test_components_are_the_directions_of_most_variance(monkeypatch, max_square):
    monkeypatch.setattr(kmeans, "MAX_SQUARE", max_square)
    points = np.random.RandomState(0).standard_normal((50, 4)) * [1, 5, 2, 0] + 3
    mean, components = kmeans.principal_components(points, 6)
    np.testing.assert_allclose(mean, points.mean(axis=0))
    expected = np.linalg.svd(points - points.mean(axis=0), full_matrices=False)[2].T[:, :3]
    cosines = (components[:, :3] * expected).sum(axis=0)
    np.testing.assert_allclose(np.abs(cosines), 1, atol=1e-6)
    assert not components[:, 3:].any()  # there are three directions
    assert all(column[np.abs(column).argmax()] > 0 for column in components[:, :3].T)


def test_centroids_of_separate_groups_are_their_means_in_order():
    points = blobs()
    centroids = kmeans.find_centroids(points, 3, np.random.RandomState(0))
    expected = [points[points[:, 0] == x].mean(axis=0) for x in (0, 10, 20)]
    np.testing.assert_allclose(centroids, expected, atol=1e-12)
    assert np.bincount(kmeans.assign(points, centroids)).tolist() == [5, 3, 2]


def test_centroids_are_at_most_the_different_points():
    points = np.repeat(np.eye(3), 4, axis=0)
    assert len(kmeans.find_centroids(points, 7, np.random.RandomState(0))) == 3
    assert len(kmeans.find_centroids(np.zeros([5, 2]), 4, np.random.RandomState(0))) == 1


def test_shares_are_cumulated_and_rows_without_images_are_far():
    all_one = {"classes": np.zeros(10, int), "num_classes": 1}
    rows, bounds, classes = clusters.fit(blobs(), **all_one, num_rows=5, count=3, seed=0)
    np.testing.assert_allclose(bounds, [0.5, 0.8, clusters.NEVER, clusters.NEVER])
    assert (np.abs(rows[:3]) < 100).all() and (rows[3:] == clusters.FAR).all()
    assert classes.tolist() == [0, 0, 0, clusters.UNUSED, clusters.UNUSED]


def test_each_class_has_clusters_of_its_own_by_the_number_of_its_images():
    points, classes = blobs((5, 3, 2)), np.repeat([2, 0, 0], (5, 3, 2))  # none is of class 1
    rows, bounds, row_classes = clusters.fit(points, classes, 3, num_rows=6, count=4, seed=0)
    assert row_classes.tolist() == [0, 0, 1, 2, clusters.UNUSED, clusters.UNUSED]
    np.testing.assert_allclose(rows[[0, 1, 3], 0], [10, 20, 0], atol=1e-9)
    assert (rows[[2, 4, 5]] == clusters.FAR).all()
    np.testing.assert_allclose(bounds, [0.6, 1, 2, clusters.NEVER, clusters.NEVER])
    assert bounds[1] == 1


def test_clusters_are_divided_among_classes():
    assert clusters.divide(10, np.array([60, 30, 10])).tolist() == [5, 3, 2]
    assert clusters.divide(2, np.array([60, 0, 10])).tolist() == [1, 1, 1]
    assert clusters.divide(7, np.zeros(2, int)).sum() <= 7


def test_whitened_images_vary_alike_along_each_component_but_weak_ones():
    random = np.random.RandomState(0)
    values = random.standard_normal((400, 3)).dot(np.linalg.qr(random.standard_normal((3, 3)))[0])
    values = (values - values.mean(axis=0)) * [100, 10, 0.01] + 5
    points, projection = clusters.project(values, is_whitened=True)
    np.testing.assert_allclose(points, values.dot(projection))
    variances = values.dot(kmeans.principal_components(values, 3)[1]).var(axis=0)
    expected = variances / (variances + 1e-3 * variances[0])
    np.testing.assert_allclose(points.var(axis=0)[:3], expected, rtol=1e-6)
    assert expected[1] > 0.9 and expected[2] < 1e-3  # noise stays small
    same, scales = clusters.project(np.ones((9, 3)), is_whitened=True)
    assert np.isfinite(same).all() and np.isfinite(scales).all()


def test_each_cluster_has_fifteen_images_and_8000_examples_and_there_are_rows_for_a_hundred():
    count = clusters.default_count
    assert count(60000, 5000 * 64) == 40 and count(60000, 25000 * 64) == 100
    assert count(1543, 25000 * 64) == 100 and count(600, 25000 * 64) == 40
    assert count(1, 25000 * 64) == count(60000, 0) == 2
    automatic = options(conditional="clusters")
    assert architecture.num_labels(automatic, UNLABELLED) == architecture.MAX_CLUSTERS == 100
    assert architecture.num_labels(make_options(), UNLABELLED) == 4
    assert architecture.conditioning(make_options(), UNLABELLED) == "projection"


def test_inputs_name_a_cluster_by_a_position_that_does_not_depend_on_the_count():
    few, many = (sampling.random_inputs(make_options(), UNLABELLED, n, seed=7) for n in (3, 9))
    assert sorted(many) == ["cluster", "z"] and many["cluster"].dtype == np.float32
    assert np.array_equal(few["cluster"], many["cluster"][:3])
    assert (many["cluster"] >= 0).all() and (many["cluster"] < 1).all()
    plain = sampling.random_inputs(options(conditional="none"), UNLABELLED, 3, seed=7)
    assert np.array_equal(plain["z"], few["z"])


@pytest.mark.parametrize("num, count, rows", [(4, 64, 4), (100, 64, 8), (100, 2, 1)])
def test_a_grid_has_rows_at_even_positions(num, count, rows):
    settings = options(conditional="clusters", clusters=num)
    inputs, columns = sampling.class_row_inputs(settings, UNLABELLED, count, seed=0)
    positions = inputs["cluster"].reshape(rows, columns)
    np.testing.assert_allclose(positions[:, 0], (np.arange(rows) + 0.5) / rows)
    assert (positions == positions[:, :1]).all() and rows * columns <= count


def test_inputs_of_data_with_classes_name_the_class_and_a_position_in_it():
    drawn = sampling.random_inputs(make_options(), LABELLED, 400, seed=7)
    assert sorted(drawn) == ["cluster", "label", "z"]
    assert np.bincount(drawn["label"]).tolist() == pytest.approx([300, 100], abs=30)
    assert abs(np.corrcoef(drawn["label"], drawn["cluster"])[0, 1]) < 0.1
    plain = sampling.random_inputs(options(), LABELLED, 400, seed=7)
    assert np.array_equal(plain["label"], drawn["label"])


def test_a_grid_has_a_row_for_each_class_with_its_clusters_from_left_to_right():
    inputs, columns = sampling.class_row_inputs(make_options(), LABELLED, 9, seed=0)
    assert columns == 4 and inputs["label"].tolist() == [0] * 4 + [1] * 4
    np.testing.assert_allclose(inputs["cluster"], [0.125, 0.375, 0.625, 0.875] * 2)


def fitted(run, split):
    """The clusters of a run in the default graph, and a session with their values."""
    model, _ = clusters.Clusters(run), run.global_step
    (fit,) = step_builder_of(run).initial_fits
    values = fit.function(split)
    tf_session = tf.Session()
    tf_session.run(tf.global_variables_initializer())
    for variable, value in zip(fit.variables, values):
        variable.load(np.asarray(value, np.float32), tf_session)
    return model, tf_session


@pytest.mark.parametrize("shape", [GREY, COLOUR, (12,)])
def test_images_are_assigned_to_the_clusters_that_they_are_of(shape):
    run = make_run(shape=shape, conditional="clusters", clusters=4)
    split = make_split(shape=shape)
    scaled = split.features / np.float32(255)
    if len(shape) == 1:
        split = Split(scaled)
    model, tf_session = fitted(run, split)
    groups = np.arange(60) % 4
    with tf_session:
        labels = tf_session.run(model.assign(tf.constant(2 * scaled - 1)))
        positions = np.float32([0, 0.24, 0.26, 0.74, 0.76, 0.999])
        drawn = tf_session.run(model.labels_at(tf.constant(positions)))
    assert len({(a, b) for a, b in zip(labels, groups)}) == 4  # one label for each group
    assert drawn.tolist() == [0, 0, 1, 2, 3, 3]


def test_clusters_within_classes_in_the_graph():
    run = make_run(classes=3, conditional="clusters", clusters=5)
    images, brightness = make_split().features, np.arange(60) % 4
    split = Split(images, np.where(brightness < 2, 2, 0))  # none is of class 1
    model, tf_session = fitted(run, split)
    # Class 0 has brightness 2 and 3, class 1 the row that no image is near, class 2 the others.
    scaled = tf.constant(images[:4] / 127.5 - 1, tf.float32)
    highest = np.float32(1 - 2**-24)
    positions = tf.constant([0, 0.49, 0.51, highest, 0, highest, 0, highest], tf.float32)
    with tf_session:
        own, free, absent, at, drawn = tf_session.run(
            [
                model.assign(scaled, tf.constant([2, 2, 0, 0])),
                model.assign(scaled),
                model.assign(scaled, tf.constant([0, 0, 1, 2])),
                model.labels_at(positions, tf.constant([0, 0, 0, 0, 1, 1, 2, 2])),
                sampling.random_labels(run, "label", 3000, model),
            ]
        )
    assert sorted(own[2:]) == [0, 1] and sorted(own[:2]) == [3, 4]
    assert free.tolist() == own.tolist()  # without classes, the nearest of all
    dark, light = own[2], own[1]
    assert absent.tolist() == [dark, dark, 2, light]
    assert at.tolist() == [0, 0, 1, 1, 2, 2, 3, 4]
    expected = np.array([1, 1, 2, 1, 1]) / 6  # each class by class_counts
    np.testing.assert_allclose(np.bincount(drawn, minlength=5) / 3000, expected, atol=0.03)


def test_a_network_gives_the_same_numbers_in_the_graph_and_before(monkeypatch, tmp_path):
    monkeypatch.setenv("TOOLKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("toolkit_agreement.NUM_STEPS", 20)
    np.savez(str(tmp_path / "images.npz"), x_train=make_split(100, (16, 16, 3)).features)
    values = {"conditional": "clusters", "clusters": 4, "cluster_features": "self"}
    run = make_run(shape=(16, 16, 3), data=f"npz:{tmp_path / 'images.npz'}", **values)
    split = make_split(shape=(16, 16, 3))
    model, tf_session = fitted(run, split)
    expected, _ = model._values.read(split, np.arange(60))
    images = tf.constant(split.features / np.float32(127.5) - 1)
    with tf_session:
        actual, labels = tf_session.run([model._values(images), model.assign(images)])
    assert expected.std() > 0.01
    np.testing.assert_allclose(actual, expected, rtol=1e-3, atol=1e-3)
    assert len({(a, b % 4) for a, b in zip(labels, range(60))}) == 4


def test_large_images_are_read_in_smaller_parts(monkeypatch):
    split, values = make_split(), features.PixelValues(make_run())
    whole, _ = values.read(split, np.arange(len(split)))
    sizes, take = [], split.take
    monkeypatch.setattr(features, "CHUNK_VALUES", 7 * 64)
    monkeypatch.setattr(split, "take", lambda part: sizes.append(len(part)) or take(part))
    parts, _ = values.read(split, np.arange(len(split)))
    assert set(sizes[:-1]) == {7}
    np.testing.assert_array_equal(parts, whole)


def test_large_images_are_averaged_over_squares(monkeypatch):
    assert [features.pooling_size(s) for s in [(28, 28, 1), (32, 32, 3), (128, 96, 3)]] == [1, 2, 6]
    images = np.arange(2 * 5 * 4, dtype=np.float32).reshape(1, 5, 8, 1)
    monkeypatch.setattr(features, "MAX_VALUES", 8)
    means = features.reduce_pixels(images)
    np.testing.assert_allclose(means[0, :2], [images[0, :2, :2].mean(), images[0, :2, 2:4].mean()])
    assert means.shape == (1, 8)  # of the fifth row, nothing


def test_too_few_images_are_refused_in_one_sentence():
    with pytest.raises(DataError, match="clusters is 4, and the split 'train' has 3 images"):
        clusters.check_clusters(make_options(), UNLABELLED, make_split(3))
    own = make_options(cluster_features="self")
    with pytest.raises(UsageError, match="learns from 32 images or more, and .* has 30"):
        clusters.check_clusters(own, UNLABELLED, make_split(30))
    clusters.check_clusters(options(conditional="none"), UNLABELLED, None)


def train(folder, data, **values):
    settings = dict(SMALL, conditional="clusters", clusters=3, width=2, network="mlp")
    testing.train("gan", str(folder), data=data, **dict(settings, **values))
    return str(folder)


def cluster_tensors(run):
    return {k: v for k, v in testing.tensors(run).items() if k.startswith("clusters/")}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("data") / "images.npz")
    np.savez(path, x_train=make_split(150).features, x_test=make_split(20, seed=1).features)
    return "npz:" + path


def test_a_run_on_data_without_labels_resumes_samples_and_exports_its_clusters(tmp_path, data, cli):
    whole = train(tmp_path / "whole", data, steps=4, checkpoint_steps=2, sample_count=6)
    tensors = cluster_tensors(whole)
    assert sorted(tensors) == ["clusters/bounds", "clusters/centroids", "clusters/projection"]
    assert tensors["clusters/projection"].any()
    halves = train(tmp_path / "halves", data, steps=4, checkpoint_steps=2, pause_at=2)
    train(tmp_path / "halves", data, steps=4, checkpoint_steps=2)
    assert testing.fingerprint(whole) == testing.fingerprint(halves)
    with toolkit.open_trained(whole) as trained:
        z = np.zeros((2, 8), np.float32)
        inputs = {"z": z, "cluster": np.float32([0.0, 0.999])}
        images = trained.predict(inputs)["image"]
        assert images.shape == (2, 8, 8, 1) and not np.array_equal(images[0], images[1])
        assert sorted(trained.sample(3)) == ["cluster", "images", "z"]
    cli.succeed("evaluate", whole)
    cli.succeed("export", whole, str(tmp_path / "exported"))


def test_other_data_with_classes_and_replicas_train_on_clusters_too(tmp_path, data, cli):
    digits = testing.write_digits(str(tmp_path / "digits.npz"), count=120)
    values = {"discriminator_norm": "batch", "penalty": "none", "loss": "relativistic"}
    for steps in (2, 4):
        run = train(tmp_path / "classes", digits, steps=steps, network="dcgan", **values)
        assert cluster_tensors(run)["clusters/classes"].tolist() == [0, 1, 2]
    cli.succeed("sample", run, "--class", "1", "--count", "3", "--out", str(tmp_path / "samples"))
    pair = train(tmp_path / "pair", data, steps=2, devices=2, evaluate="no")  # compares both
    alone = train(tmp_path / "alone", data, steps=2, evaluate="no")
    for name, value in cluster_tensors(alone).items():
        np.testing.assert_array_equal(cluster_tensors(pair)[name], value)
