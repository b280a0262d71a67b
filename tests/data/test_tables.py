"""Tables as strangers bring them: read as they mean it, or refused in a sentence with the row."""

import gzip
import json

import numpy as np
import pytest
from data_fixtures import peak_of

from toolkit.data.held_out import NOTHING
from toolkit.data.sources import ColumnOptions, ImageOptions, open_data
from toolkit.data.spec import DataSpec
from toolkit.data.tables.table_file import read_table
from toolkit.errors import DataError, ToolkitError, UsageError

DIGITS = "a,b,label\n1,2.5,x\n-3,4e2,y\n 12 ,0,x\n"
JSON = """{"a": 1, "b": 2.5, "label": "x"}
{"a": -3, "b": 400, "label": "y"}

{"b": 0.0, "label": "x", "a": "12"}"""


class Rows:
    """What is asked of a table: the arrays of the training split, and what the columns are."""

    def __init__(self, path, schema=None, images=None, **options):
        options, images = ColumnOptions(**options), ImageOptions(**(images or {}))
        model = schema and DataSpec((), "", table=schema)
        data = open_data(
            f"table:{path}", columns=options, images=images, shares=NOTHING, model=model
        )
        self.features, self.labels = data.splits["train"].features, data.splits["train"].labels
        self.splits = {name: split.index.tolist() for name, split in data.splits.items()}
        self.spec, self.class_names, self.notes = data.spec, data.spec.class_names, data.notes
        self.schema = json.loads(json.dumps(data.spec.table))  # as it comes from a run


@pytest.fixture
def rows(tmp_path):
    """`rows("a,label\\n1,x\\n", missing="drop")`: what the table with this content has."""

    def read(content, name="t.csv", **options):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
        return Rows(path, **options)

    return read


@pytest.fixture
def refusal(rows):
    """The error for a table, its place without the folder, and with a hint."""

    def read(content, name="t.csv", error=DataError, **options):
        with pytest.raises(error) as caught:
            rows(content, name, **options)
        assert caught.value.hint
        return caught.value.message[caught.value.message.index(name) :]

    return read


# ------------------------------------------------------------------------------------------- files


@pytest.mark.parametrize(
    "content, name",
    [
        (DIGITS, "t.csv"),
        (DIGITS.replace(",", ";"), "t.csv"),
        (DIGITS.replace(",", "\t"), "t.tsv"),
        (DIGITS.replace(",", "|"), "t.txt"),
        (DIGITS.replace("\n", "\r\n"), "t.csv"),
        (DIGITS.replace("\n", "\r"), "t.csv"),
        (DIGITS.replace(",", ", "), "t.csv"),
        ("\ufeff" + DIGITS, "t.csv"),
        ("\n\n" + DIGITS + "\n , , \n,,\n", "t.csv"),
        ("sep=;\n" + DIGITS.replace(",", ";"), "t.csv"),
        ("sep=\t\r\n" + DIGITS.replace(",", "\t"), "t.csv"),
        ('"a","b","label"\n"1","2.5","x"\n"-3","4e2","y"\n"12","0","x"\n', "t.csv"),
        (DIGITS.encode("utf-16"), "t.csv"),
        pytest.param(gzip.compress(DIGITS.encode()), "t.csv", id="gzip without an ending"),
        (JSON, "t.jsonl"),
    ],
)
def test_a_table_may_be_written_in_many_ways(rows, content, name):
    table = rows(content, name)
    assert table.features.dtype == np.float32
    assert table.features.tolist() == [[1, 2.5], [-3, 400], [12, 0]]
    assert table.labels.tolist() == [0, 1, 0] and table.class_names == ("x", "y")
    assert table.schema["numbers"] == ["a", "b"]


@pytest.mark.parametrize(
    "content, text",
    [
        ("", "expected a table, found an empty file"),
        ("a,label\n", "expected rows below the header, found none"),
        ("a,label\n1,x\n1,2,x\n", "line 3: expected as many fields as in the header (2), found 3."),
        ('a,label\n"1\n2",x\n1\n', "t.csv: row 2: expected a value in 'label', found none"),
        ("sep=;", "expected the names of columns, found none"),
        ("a,a,label\n1,2,x\n", "the columns 1 and 2 are both named 'a'"),
        ("a,,label\n1,2,x\n", "column 2 of 3 has no name"),
        ('a,label\n1,"x\n2,y\n', "t.csv: expected rows of CSV, found a quote that is not clo"),
        ("5.1,3.5,setosa\n4.9,3.0,setosa\n", "expected the names of the columns in the first line"),
        ("1.5  2.5  x\n1.5  2.5  y\n", "expected the names of the columns in the first line"),
        ("3,1,7\n4,0,1\n", "expected the names of the columns in the first line"),
        ("a,label\n1,caf\xe9\n".encode("latin-1"), "t.csv: expected text in UTF-8"),
        ("a,label\n1,x\n".encode("utf-16-le"), "expected text, found null bytes"),
        (b"PK\x03\x04...", "found an Excel workbook"),
        pytest.param(gzip.compress(DIGITS.encode())[:-9], "expected a gzip file", id="cut gzip"),
        ('[{"a": 1, "label": 2}]', "expected one JSON object per line, found a list"),
        ('{"a": 1}\n{"a": 1,', "row 2: expected a JSON object with keys, found a fault"),
        ('{"a": 1}\n{"b": 1}\n', "row 2: expected a JSON object with keys, found the key 'b', w"),
        ('{"a": {"b": 1}}\n', "row 1: expected a JSON object with keys, found an object in 'a'"),
        ('{"\\uD8ff": 1}', "t.csv: row 1: expected a JSON object with keys, found 'utf-8' codec"),
        ('{"p": "~a\\u0000.png", "label": 1}', "path of an image in 'p', found a null character"),
    ],
)
def test_what_is_no_table_is_refused_with_its_row(refusal, content, text):
    assert text in refusal(content)


def test_a_table_is_in_memory_once_while_it_is_read(tmp_path):
    lines = [f"{'word ' * 20_000}{number},{number % 2}\n" for number in range(20)]
    (tmp_path / "t.csv").write_text("".join(["text,label\n", *lines]))
    assert len(read_table(str(tmp_path / "t.csv"))["label"]) == 20  # which imports pandas
    peak = peak_of(lambda: read_table(str(tmp_path / "t.csv")))
    assert peak < 1.5 * sum(map(len, lines))


@pytest.mark.parametrize("field", ["0x10", "1_000", "oops", "١٢", "1,5", "$5"])
def test_a_text_among_numbers_is_named_with_its_row(refusal, field):
    message = refusal(f'a,label\n1,x\n2.5,y\n"{field}",x\n4,y\n')
    assert message == f"t.csv: row 3: expected a number in 'a', found '{field}'."


@pytest.mark.parametrize("field", ["inf", "-inf", "1e+39"])
def test_a_number_beyond_float32_is_named_with_its_row(refusal, field):
    message = refusal(f"b,a,label\n1,1,x\n\n1,{field},y\n")
    assert message == f"t.csv: row 2: expected a number of 32-bit floats in 'a', found {field}."
    assert "found inf" in refusal("a,label\n1e400,x\n")


# ------------------------------------------------------------------------------------------- labels


def test_labels_have_a_usual_name_or_are_named_or_absent(rows):
    assert rows("a,TARGET\n1,x\n2,y\n").schema["labels"] == ["TARGET"]
    table = rows("a,spam\nTrue,ham\nfalse,spam\nTRUE,spam\n", label_column=("spam",))
    assert table.class_names == ("ham", "spam") and table.features.tolist() == [[1], [0], [1]]
    assert rows("a,b\n1,2\n2,3\n2,9\n", label_column=("none",)).labels is None


@pytest.mark.parametrize(
    "fields, kind, names",
    [
        (["b", "a", "b"], "class", ("a", "b")),
        (["10", "9", "10"], "class", ("9", "10")),
        (["-1", "1", "1"], "class", ("-1", "1")),
        (["1.0", "01", "2"], "class", ("1", "2")),
        (["True", "False", "True"], "class", ("False", "True")),
        (["0.5", "1", "2"], "value", ()),
        # Two that no float tells apart.
        ([str(2**53 + n) for n in (1, 0, 1)], "class", (str(2**53), str(2**53 + 1))),
    ],
)
def test_the_fields_decide_the_kind_of_labels(rows, fields, kind, names):
    table = rows("a,label\n" + "".join(f"{i * 7 % 5},{field}\n" for i, field in enumerate(fields)))
    assert (table.schema["label_kind"], table.class_names) == (kind, names)


def test_many_whole_numbers_are_classes_or_values_on_request(rows, refusal):
    text = "a,price\n" + "".join(f"{i % 7},{1000 + 3 * i}\n" for i in range(101))
    options = {"label_column": ("price",)}
    assert "101 different whole numbers: classes or values?" in refusal(text, **options)
    table = rows(text, label_kind="value", **options)
    assert table.schema["label_kind"] == "value" and table.labels[:2].tolist() == [1000, 1003]
    table = rows(text.replace(",1", ",1700001"), label_kind="value", **options)
    assert "'price' is rounded to multiples of 128" in table.notes[-1]  # as times are


U_V = "a,u,v\n1,0,1\n2,1,1\n2,0,0\n"
WORDS = "a,label\n" + "".join(f"{i % 3},w{i}\n" for i in range(60))


def test_several_columns_of_labels_are_a_vector(rows):
    table = rows(U_V, label_column=("u", "v"))
    assert table.labels.tolist() == [[0, 1], [1, 1], [0, 0]]
    assert table.schema["label_kind"] == "value"
    options = {"label_column": ("b (x", "y)"), "ignore_columns": ("c",)}  # a name with a comma
    table = rows('a,"b (x, y)",c\n1.5,2.5,3\n2,1,5\n4,4,1\n', **options)
    assert table.schema["labels"] == ["b (x, y)"] and table.spec.shape == (1,)


@pytest.mark.parametrize(
    "content, options, text",
    [
        ("a,label\n1,x\n", {"label_kind": "value"}, "t.csv: row 1: expected a number in 'label'"),
        ("a,label\n1,inf\n2,3\n", {}, "t.csv: row 1: expected a number in 'label', found 'inf'"),
        ("a,species\n1,x\n", {}, "found 'a', 'species'"),
        ("a,label,target\n1,x,y\n", {}, "found 'label', 'target'"),
        ("label\nx\ny\n", {}, "expected a column of features beside 'label'"),
        (U_V, {"label_column": ("u", "v"), "label_kind": "class"}, "expected one column"),
        (WORDS, {}, "expected labels of classes, found 60 different texts in 60 rows"),
    ],
)
def test_what_is_no_label_is_refused(refusal, content, options, text):
    assert text in refusal(content, **options)


# ----------------------------------------------------------------------------------------- features


def test_texts_are_classes_beside_the_numbers_or_columns_of_them_or_text(rows):
    text = "size,the colour,label\n1,red,x\n2,blue,y\n4,red,y\n5,blue,x\n"
    table = rows(text)
    assert table.spec.features["the_colour"].class_names == ("blue", "red")
    assert table.features["the_colour"].tolist() == [1, 0, 1, 0]
    assert table.features["numbers"].tolist() == [[1], [2], [4], [5]]
    table = rows(text, categories="one-hot")
    assert table.features.tolist() == [[1, 0, 1], [2, 1, 0], [4, 0, 1], [5, 1, 0]]
    table = rows("review,label\n" + "".join(f"it was number {i},{i % 2}\n" for i in range(8)))
    assert table.features["review"].tolist()[:2] == [b"it was number 0", b"it was number 1"]


def test_lists_are_arrays_or_sequences(rows):
    lines = [{"x": [1, 2.5], "ids": [3] * (1 + i % 2), "label": i % 2} for i in range(4)]
    table = rows("\n".join(map(json.dumps, lines)), "t.jsonl")
    assert table.features["x"].dtype == np.float32 and table.features["x"].shape == (4, 2)
    assert table.features["ids"].tolist() == [[3, 0], [3, 3], [3, 0], [3, 3]]
    assert table.features["ids_length"].tolist() == [1, 2, 1, 2]
    assert rows('{"x": [1, 2], "y": 0.5}\n{"x": [3, 4], "y": 1.5}').features.shape == (2, 2)
    least = rows(f'{{"x": [{-(2**63)}], "y": 0.5}}\n{{"x": [3], "y": 1.5}}').features
    assert least.tolist() == [[-(2**63)], [3]]


@pytest.mark.parametrize(
    "second, text",
    [
        ("[1, null]", "expected a list of numbers in 'x', found [1, None]"),
        ('["a", "b"]', "expected a list of numbers"),
        ("[]", "expected a list of numbers in 'x', found []"),
        (f"[{2**64 - 1}]", f"expected a list of numbers in 'x', found [{2**64 - 1}]"),
        ("[[1], [2, 3]]", "expected a list of numbers"),
        ("[1e60, 2]", "expected finite numbers in 'x'"),
        ("7", "expected a list in 'x' as in other rows, found none"),
    ],
)
def test_a_list_of_something_else_is_refused(refusal, second, text):
    content = f'{{"x": [1, 2], "label": 0}}\n{{"x": {second}, "label": 1}}\n'
    assert "t.csv: row 2: " + text in refusal(content)


@pytest.mark.parametrize(
    "column, reason",
    [
        (("PassengerId", [101, 102, 103, 104]), "'PassengerId' numbers the rows"),
        (("user_id", [901, 17, 333, 4]), "'user_id' identifies the rows"),
        (("when", ["2020-01-31", "2020-02-01", "2020-02-02", "2020-02-03"]), "'when' has dates"),
        (("when", ["1/2/2020", "2/2/2020", "3/2/2020", "4/2/2020"]), "'when' has dates"),
        (("name", ["ab1", "cd2", "ef3", "gh4"]), "'name' has a different word in almost every row"),
        (("empty", ["", "", "", ""]), "'empty' is empty"),
        (("id,day", [f"{i},2020-01-0{i}" for i in range(4)]), "numbers the rows, 'day' has dates"),
    ],
)
def test_columns_that_are_no_features_are_refused_unless_named(rows, refusal, column, reason):
    header, values = column
    names = tuple(header.split(","))
    text = f"a,{header},label\n" + "".join(f"{i * i},{v},{i % 2}\n" for i, v in enumerate(values))
    assert reason in refusal(text)
    assert rows(text, ignore_columns=names).features.shape == (4, 1)
    if header != "empty":
        schema = rows(text, feature_columns=("a", *names)).schema
        assert set(names) < {*schema["numbers"], *schema["categories"], *schema["texts"]}


def test_the_index_that_pandas_saves_is_left_out(rows, refusal):
    for header, numbers in (("", "012"), ("Unnamed: 0", "123")):
        table = rows(f"{header},a,label\n{{}},5,x\n{{}},7,y\n{{}},6,x\n".format(*numbers))
        assert table.features.tolist() == [[5], [7], [6]]
        assert "numbers the rows, is left out" in table.notes[0]
    for numbers in ("uv", "35", "13", ["0", ""]):
        message = refusal(",a,label\n{},5,x\n{},7,y\n".format(*numbers))
        assert "the first column has no name" in message


@pytest.mark.parametrize(
    "options, text",
    [
        ({"label_column": ("lable",)}, "has no column 'lable' (--label-column)"),
        ({"split_column": "part"}, "has no column 'part' (--split-column)"),
        ({"image_column": "a", "ignore_columns": ("a",)}, "Both --ignore-columns and --image-col"),
        ({"categories": "one-hot"}, "--categories one-hot has no effect on"),
    ],
)
def test_an_option_that_names_no_column_is_refused(rows, options, text):
    with pytest.raises(UsageError) as error:
        rows("a,label\n1,x\n", **options)
    assert text in error.value.message and error.value.hint


# ------------------------------------------------------------------------ missing fields and splits

GAPS = "a,c,label\n1,u,x\nNA,v,y\n4,,x\n9,u,y\n9,v,x\n"


def test_missing_fields_are_refused_dropped_or_filled(rows, refusal):
    text = "row 2: expected a value in 'a', found none; of 5 values are missing 1 in 'a', 1 in 'c'."
    assert text in refusal(GAPS)
    table = rows(GAPS, missing="drop")
    assert table.splits["train"] == [0, 3, 4]
    assert "2 rows with empty fields are left out." in table.notes
    table = rows(GAPS, missing="fill")
    assert table.spec.features["c"].class_names == ("(missing)", "u", "v")
    assert table.features["numbers"][1, 0] == (1 + 4 + 9 + 9) / 4  # the mean
    with pytest.raises(DataError) as error:  # no row is whole
        rows("a,b,label\n1,,x\n,5,y\n")
    assert error.value.hint.endswith("--ignore-columns, or fill in means with --missing fill.")


def test_all_that_options_repair_is_refused_in_one_error_with_these(tmp_path):
    lines = [f"{i},2024-01-0{i},{i % 3 or ''},{'uv'[i % 2]},{i}.5" for i in range(1, 8)]
    (tmp_path / "t.csv").write_text("\n".join(["id,day,size,colour,price", *lines]))
    with pytest.raises(DataError) as error:
        open_data(f"table:{tmp_path}/t.csv")
    for fault in ("named label", "'id' numbers the rows, 'day' has dates", "missing 2 in 'size'"):
        assert fault in error.value.message
    options = "--label-column price --ignore-columns id,day --missing drop --categories one-hot"
    assert error.value.hint == f"These options would do: {options}"


def test_a_text_that_reads_na_is_a_text(rows):
    table = rows("alley,label\nNA,x\nGrvl,NA\nNA,NA\nGrvl,x\n")
    assert list(table.schema["categories"].values()) == [["Grvl", "NA"]]
    assert table.class_names == ("NA", "x")


def test_a_column_divides_the_rows_into_splits(rows, refusal):
    text = "a,label,split\n1,x,train\n2,y,Training\n3,x,dev\n4,y,TEST\n5,x,train\n7,x,train\n"
    assert rows(text).splits == {"train": [0, 1, 4, 5], "validation": [2], "test": [3]}
    message = refusal(text.replace("dev", "holdout"))
    assert "t.csv: row 3: expected train, validation or test in 'split', found 'holdout'" in message
    doubled = text + "".join(text.splitlines(True)[1:])
    assert "split" in rows(doubled, split_column="none").schema["categories"]
    assert "found none" in refusal("a,label,split\n1,x,test\n2,y,test\n")


# ----------------------------------------------------------------------- what strangers bring next


def _label_rows(*labels):
    return "a,label\n" + "".join(f"{n * 1.5},{label}\n" for n, label in enumerate(labels))


def test_most_labels_are_numbers_and_one_is_none(rows):
    assert len(rows(_label_rows(*"K12345"), label_kind="class").class_names) == 6
    for text, hint in (("K", "Correct it, or set --label-kind class"), ("1,5", "Write numbers")):
        with pytest.raises(DataError, match=f"row 1: .*number in 'label', found '{text}'") as error:
            rows("id,a,label\n" + "".join(f'{n},{n * 1.5},"{n or text}"\n' for n in range(6)))
        assert "--ignore-columns id, or" in error.value.hint and hint in error.value.hint


@pytest.mark.parametrize("labels, names", [(("1.0", "2.0"), ("1", "2")), (("1.5", "2.5"), ())])
def test_a_missing_number_is_no_label(rows, refusal, labels, names):
    text = _label_rows(*labels, "NA")
    table = rows(text, missing="drop")
    assert table.class_names == names and table.splits["train"] == [0, 1]
    assert "t.csv: row 3: expected a value in 'label', found none" in refusal(text)


def test_a_table_that_a_model_was_not_trained_on_is_read_in_its_way(rows, refusal):
    schema = rows("a,b,c,label\n1,2,u,x\n3,4,v,y\n6,4,u,x\n1,1,v,z\n").schema
    table = rows("extra,b,label,c,a\nq,7,y,v,5\n", schema=schema)
    assert table.features["numbers"].tolist() == [[5, 7]]
    assert table.features["c"].tolist() == [1] and table.class_names == ("y",)
    assert "Columns that the model does not use: extra." in table.notes
    assert rows("b,c,a\n7,v,5\n", schema=schema).labels is None
    for content, text in (
        ("a,c,label\n1,u,x\n", "found no 'b'"),
        ("a,b,c,label\n1,two,u,x\n", "t.csv: row 1: expected a number in 'b', found 'two'"),
        ("a,b,c,label\n1,2,w,x\n", "t.csv: row 1: the model does not know the text 'w' in 'c'"),
        ('{"a": 1, "b": [2], "c": "u"}', "t.csv: row 1: expected a value in 'b', found a list"),
    ):
        assert text in refusal(content, error=ToolkitError, schema=schema)


def test_a_table_to_evaluate_another_model_on_is_told_of_no_option(tmp_path):
    (tmp_path / "t.csv").write_text("a,price\n1.5,2.5\n")
    with pytest.raises(DataError, match="expected one column named label") as error:
        open_data(f"table:{tmp_path}/t.csv", model=DataSpec((1,), "float32"))
    assert error.value.hint.endswith("the columns that the model takes and 'label'.")


def test_a_small_table_to_evaluate_may_have_many_classes(rows):
    schema = rows(_label_rows(*[f"c{n % 25}" for n in range(100)])).schema
    table = rows(_label_rows(*[f"c{n}" for n in range(25)]), schema=schema)
    assert len(table.class_names) == 25


def test_a_model_without_means_cannot_fill_in_numbers(rows, refusal):
    schema = rows("a,b,label\n1.5,2.5,x\n2.5,1,y\n").schema
    message = refusal("a,b,label\n1.5,2.5,x\n,3.5,y\n", schema=schema, missing="fill")
    assert message.startswith("t.csv: row 2: expected a value in 'a', found none")


@pytest.mark.parametrize("is_named", [False, True])
def test_rows_that_are_equal_once_filled_are_in_one_split(tmp_path, is_named):
    path = tmp_path / "t.csv"
    lines = [f"{'' if n % 2 else 5},{n // 2 * 2.5},{'uv'[n // 2 % 2]}" for n in range(120)]
    path.write_text("a,b,c,label\n" + "".join(f"{line},{n % 3}\n" for n, line in enumerate(lines)))
    options = ColumnOptions(missing="fill", ignore_columns=() if is_named else ("c",))
    splits = open_data(f"table:{path}", columns=options).splits.values()
    values = [split.features["numbers"] if is_named else split.features for split in splits]
    train, *others = [{row.tobytes() for row in part} for part in values]
    assert not train & set.union(*others)
