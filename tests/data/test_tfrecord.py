"""`tfrecord:PATH`: records by hand and by TensorFlow, keys, labels, splits, damage, the cache."""

import gzip
import os
import zlib

import numpy as np
import pytest
from data_fixtures import gzip_bytes
from record_fixtures import example, png, records

from toolkit.compat import tf
from toolkit.data.held_out import NOTHING
from toolkit.data.sources import ColumnOptions, ImageOptions, open_data
from toolkit.errors import DataError, UsageError

COUNT = 20


@pytest.fixture
def open_records(tmp_path, cache):
    """`open_records({name: bytes or examples}, glob, columns)`: open files, nothing held out."""

    def call(files, place="*", images=None, **columns):
        folder = tmp_path / "records"
        for name, content in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else records(*content))
        for name in {*columns} - {"image_column", "label_kind"}:
            columns[name] = tuple(columns[name].split(","))
        images, columns = ImageOptions(**images or {}), ColumnOptions(**columns)
        value = f"tfrecord:{folder}/{place}"
        return open_data(value, images=images, columns=columns, shares=NOTHING)

    return call


def pictures(count=COUNT, first=0):
    """Examples of pictures whose pixels are their number, with labels from `first`."""
    return [example(image__encoded=png(i), image__class__label=first + i % 3) for i in range(count)]


def pixels(split):
    return split.take(slice(None))[0][:, 0, 0, 0].tolist()


# ---------------------------------------------------------------------------------------- records


@pytest.mark.parametrize(
    "pack",
    [
        bytes,
        gzip.compress,
        zlib.compress,
        lambda content: gzip.compress(content[:99]) + gzip.compress(content[99:]),
        lambda content: zlib.compress(content[:99]) + zlib.compress(content[99:]),
    ],
    ids=["plain", "gzip", "zlib", "two streams of gzip", "two streams of zlib"],
)
def test_pictures_and_labels_are_read_whatever_the_compression(open_records, pack):
    data = open_records({"a": pack(records(*pictures()))})
    split = data.splits["train"]
    assert pixels(split) == list(range(COUNT))
    assert split.labels.tolist() == [i % 3 for i in range(COUNT)]
    assert data.spec.shape == (3, 4, 1) and data.spec.class_names == ("0", "1", "2")


def test_each_row_is_of_its_shard_and_a_second_start_reads_no_record(open_records, monkeypatch):
    parts = [pictures()[slice(*part)] for part in ((0, 7), (7, 7), (7, 8), (8, 20))]
    files = {f"s-{i:05d}-of-00004": part for i, part in enumerate(parts)}
    before = open_records(files)
    monkeypatch.delattr("toolkit.data.records.record_index.Record.check_kind")
    after = open_records({})
    assert before.sha256 == after.sha256 and before.notes == after.notes
    for split in (before.splits["train"], after.splits["train"]):
        assert pixels(split) == list(range(COUNT))
        rows = np.array([19, 0, 7, 6, 8, 7])
        assert split.take(rows)[0][:, 0, 0, 0].tolist() == rows.tolist()


def test_a_file_that_changes_while_it_is_used_is_named(open_records, tmp_path):
    split = open_records({"a": pictures()}).splits["train"]
    (tmp_path / "records" / "a").write_bytes(b"short")
    with pytest.raises(DataError, match="records/a: expected .* bytes: the file changed"):
        split.take(slice(None))


# ----------------------------------------------------------------------------------------- splits


@pytest.mark.parametrize(
    "names",
    [
        ("train-00000-of-00001", "validation-00000-of-00001", "test-00000-of-00001"),
        ("x_Train.tfrecord", "x_val.tfrecord", "x_testing.tfrecord"),
    ],
)
def test_names_decide_the_splits(open_records, names):
    parts = [pictures()[part] for part in (slice(10), slice(10, 16), slice(16, 20))]
    data = open_records(dict(zip(names, parts)))
    assert list(data.splits) == ["train", "validation", "test"]
    assert sum(map(pixels, data.splits.values()), []) == list(range(COUNT))
    assert [len(split) for split in data.splits.values()] == [10, 6, 4]
    data = open_records({}, names[2][:6] + "*")
    assert len(data.splits["train"]) == 4  # of one split alone


@pytest.mark.parametrize(
    "names, place",
    [
        (("train/a", "test/a"), "*/*"),
        (("train/a", "train/b", "train/test-0"), "train"),
        (("train/0/a.tfrecord", "train/1/a.tfrecord", "test/0/a.tfrecord"), ""),
        (("train/0/a.tfrecord", "train/1/a.tfrecord", "test/0/a.tfrecord"), "**/*.tfrecord"),
    ],
)
def test_folders_decide_the_splits(open_records, tmp_path, names, place):
    files = {name: pictures(3 + number) for number, name in enumerate(names)}
    (tmp_path / "records" / "train").mkdir(parents=True)
    os.symlink(tmp_path / "records", tmp_path / "records" / "train" / "loop")
    data = open_records({**files, ".git/a.tfrecord": pictures(9)}, place)
    expected = {"train": 3, "test": 4} if len(names) == 2 else {"train": 7, "test": 5}
    assert {name: len(split) for name, split in data.splits.items()} == expected


@pytest.mark.parametrize(
    "names, place, text",
    [
        (["train/a", "extra"], "", "extra: expected the name of a split"),
        (["train-0", "other"], "*", "other: expected the name of a split"),
        (["val-0", "test-0"], "*", "expected files of the split 'train', too, found test and"),
    ],
)
def test_names_of_no_split_or_without_train_are_refused(open_records, names, place, text):
    with pytest.raises(DataError, match=text):
        open_records({name: pictures(3) for name in names}, place)


@pytest.mark.parametrize("name", ["[1] *?", "a b", os.fsdecode(b"\xff\xfe")])
def test_a_folder_may_have_any_name(tmp_path, name):
    folder = tmp_path / name
    folder.mkdir()
    for number in range(2):
        (folder / f"s[{number}].tfrecord").write_bytes(records(*pictures(4)))
    for place, count in ((folder, 8), (folder / "s[0].tfrecord", 4)):
        assert len(open_data(f"tfrecord:{place}", shares=NOTHING).splits["train"]) == count


def test_missing_shards_are_named_and_links_left_out(open_records, tmp_path):
    files = {f"s-{i:05d}-of-00004": pictures(3) for i in (0, 2)}
    notes = open_records(files).notes
    assert "2 of 4 files are missing: s-00001-of-00004 and others." in notes
    os.symlink(tmp_path / "records" / next(iter(files)), tmp_path / "records" / "c")
    assert len(open_records({}).splits["train"]) == 6  # each file once


# ----------------------------------------------------------------------------------- keys, labels


def test_labels_from_1_are_counted_from_1(open_records):
    data = open_records({"a": pictures(first=1)})
    assert data.spec.class_names == ("1", "2", "3")
    assert set(data.splits["train"].labels) == {0, 1, 2}
    assert any("counted from 1" in note for note in data.notes)
    data = open_records({"a": pictures(first=2)})  # of which none has the class 1
    assert data.spec.class_names == ("1", "2", "3", "4")


@pytest.mark.parametrize(
    "names, class_names",
    [(["dog", "cat"], ("dog", "cat")), (["dog", "dog"], ("1", "2")), (["dog", ""], ("1", "2"))],
)
def test_names_of_classes_are_those_of_their_key_if_each_has_one(open_records, names, class_names):
    contents = [
        example(image__encoded=png(i), image__class__label=1 + i % 2, image__class__text=name)
        for i, name in enumerate(names * 5)
    ]
    data = open_records({"a": contents})
    assert data.spec.class_names == class_names
    assert ("not name each class" in data.notes[-1]) == (names[1] != "cat")
    data = open_records({}, ignore_columns="image/class/text")
    assert data.spec.class_names == ("1", "2")


def test_texts_are_classes_in_their_order(open_records):
    data = open_records({"a": [example(image=png(i), label="bca"[i % 3]) for i in range(9)]})
    assert data.spec.class_names == ("a", "b", "c")
    assert data.splits["train"].labels.tolist() == [1, 2, 0] * 3


def test_raw_pixels_are_images(open_records):
    form = {"height": 3, "width": 4, "depth": 1}
    contents = [example(image_raw=bytes([i] * 12), label=i % 2, **form) for i in range(6)]
    data = open_records({"a": contents})
    assert data.spec.shape == (3, 4, 1) and pixels(data.splits["train"]) == list(range(6))
    data = open_records({}, images={"image_size": 8, "channels": 3})
    assert data.splits["train"].take([2])[0].shape == (1, 8, 8, 3)


def test_numbers_are_a_vector_by_the_order_of_their_keys(open_records):
    data = open_records({"a": [example(b=i, a=i / 2, name=str(i), y=i % 2) for i in range(6)]})
    assert data.splits["train"].features.tolist() == [[i / 2, i] for i in range(6)]
    assert data.notes == ["Keys that are not read: name."]
    data = open_records({}, feature_columns="b,a", label_column="none")
    assert data.splits["train"].features.tolist() == [[i, i / 2] for i in range(6)]
    data = open_records({}, ignore_columns="y,b")
    assert data.splits["train"].labels is None and data.spec.shape == (1,)


def test_lists_of_one_length_are_an_array_and_of_several_are_sequences(open_records):
    least = -(2**63)
    contents = [
        example(fixed=np.arange(3) + i / 2, varying=np.arange(i) + least, text=f"t{i}", label=i / 2)
        for i in range(4)
    ]
    data = open_records({"a": contents}, feature_columns="fixed,varying,text")
    features, labels = data.splits["train"].take(slice(1, 4))
    assert features["fixed"][0].tolist() == [0.5, 1.5, 2.5]
    rows = [[least, 0, 0], [least, least + 1, 0], [least, least + 1, least + 2]]
    assert features["varying"].tolist() == rows
    assert features["varying_length"].tolist() == [1, 2, 3]
    assert features["text"].tolist() == [b"t1", b"t2", b"t3"]
    assert labels.tolist() == [0.5, 1.0, 1.5]
    data = open_records({}, feature_columns="fixed", label_kind="value")
    assert data.splits["train"].features.shape == (4, 3)


def of_numbers(label=lambda i: i % 3):
    """Records of the keys a, b and c, and a label."""
    return records(
        *(example(a=0.5 * i, b=2.0 * i, c=i, note="xy"[i % 2], label=label(i)) for i in range(20))
    )


def raw(**values):
    """A record of 3x4 pixels of three bytes."""
    return example(**{"image_raw": bytes(36), "height": 3, "width": 4, "depth": 3, **values})


def damaged(position, content):
    """The content with another bit at a position."""
    return content[:position] + bytes([content[position] ^ 1]) + content[position + 1 :]


WHOLE = records(*pictures())
FIFTH = len(records(*pictures(5)))  # where the record 5 begins
LONG = (2**60).to_bytes(8, "little") + bytes.fromhex("c4234e8e") + bytes(100)  # a right checksum
SEQUENCE = tf.train.SequenceExample(feature_lists=tf.train.FeatureLists()).SerializeToString()
LAST = records(*pictures(), example(image__encoded=png(1)))
OTHER = records(*pictures(), example(image__encoded=png(1), image__class__label="a"))
REFUSED = {
    "empty": (b"", {}, "expected one record or more, found empty files"),
    "gzip of text": (gzip_bytes(b"not a record at all"), {}, "found another compressed file"),
    "cut gzip": (gzip_bytes(WHOLE)[:-20], {}, "a damaged one"),
    "junk behind zlib": (zlib.compress(WHOLE) + b"junk", {}, "a damaged one"),
    "cut": (WHOLE[:-3], {}, "record 19: expected a whole record, found the file's end"),
    "bit": (damaged(FIFTH + 40, WHOLE), {}, "a: record 5: expected a whole rec.* a wrong ch"),
    "length": (LONG, {}, "record 0: expected a whole record, found the file's end"),
    "no message": (records(b"text"), {}, "record 0: expected a tf.train.Example, found bytes"),
    "sequence": (records(SEQUENCE), {}, "record 0: .* found a tf.train.SequenceExample"),
    "no such image": (WHOLE, {"image_column": "x"}, "expected the key 'x', found the keys image/c"),
    "last without label": (LAST, {}, "record 20: expected the key 'image/class/label' as in the"),
    "other label": (OTHER, {}, "record 20: expected integers in the key 'image/class/label' as in"),
    "negative": (records(*pictures(first=-1)), {}, "record 0: expected a class from 0 to .* -1"),
    "no image": (records(example(image=b"no", label=1)), {}, "record 0: expected an image, found"),
    "classes": (of_numbers(lambda i: 2**20 + 1), {}, "0: expected a class from 1 to 1,048,576"),
    "one name": (records(example(a__b=[1, 2], a_b=3)), {}, "the keys 'a/b' and 'a_b' are both the"),
    "two heights": (records(raw(), raw(height=[3, 3])), {}, "record 1: .* key 'height', found 2"),
    "few pixels": (records(raw(), raw(height=2)), {}, "record 1: .* pixels of an image 4x2 with 3"),
    "nan": (records(example(a=float("nan"))), {}, "record 0: expected finite numbers in the key"),
    "latin": (records(*(example(a=1, label=x) for x in ("é", b"\xe9"))), {}, "record 1: .* oth"),
    "no features": (records(example(note="a", label=1)), {}, "expected the key image/encoded or"),
    "text values": (of_numbers(str), {"label_kind": "value"}, "found texts"),
    "text vector": (of_numbers(), {"label_column": "b,note"}, "numbers in each .* the key 'note'"),
}


def test_pixels_without_sizes_are_told_what_they_lack(open_records):
    with pytest.raises(DataError) as error:
        open_records({"a": records(example(image_raw=bytes(36), label=1))})
    assert "pixels need keys 'height' and 'width'" in error.value.hint


@pytest.mark.parametrize("content, columns, message", REFUSED.values(), ids=REFUSED)
def test_what_is_wrong_is_named(open_records, content, columns, message):
    with pytest.raises(DataError, match=message):
        open_records({"a": content}, **columns)


@pytest.mark.parametrize(
    "columns, message",
    [
        ({"label_kind": "value", "ignore_columns": "label"}, "value has no effect on .* no key"),
        ({"label_column": "a,a"}, "Twice --label-column names the column 'a'"),
        ({"label_kind": "value", "label_column": "none"}, "value has no effect with --label-col"),
        ({"label_kind": "class", "label_column": "a"}, "--label-kind class: .* are no classes"),
        ({"images": {"image_size": 32}}, "size 32 has no effect on .*, which has no images"),
    ],
)
def test_options_that_contradict_each_other_or_the_data_are_refused(open_records, columns, message):
    with pytest.raises(UsageError, match=message):
        open_records({"a": of_numbers()}, **columns)
