"""What each data source reads, as one JSON file: compare two versions of the toolkit by it.

    python benchmarks/data_values.py FILE.json

It writes some sixty small data sets, plain and strange ones, opens each as `--data` does, and
records the hashes of all splits, the classes, the spec and the notes, or the error.
"""

# ruff: noqa: C408
import gzip
import json
import os
import shutil
import struct
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
from toolkit.compat import tf  # noqa: E402
from toolkit.data.readers.mapped import decode_splits  # noqa: E402
from toolkit.data.reading_options import ColumnOptions, ImageOptions  # noqa: E402
from toolkit.data.sources import open_data  # noqa: E402
from toolkit.errors import ToolkitError  # noqa: E402

CASES = []  # (name, value, arguments)


def case(name, value, **arguments):
    CASES.append((name, value, arguments))


def pixels(seed, *shape):
    return np.random.RandomState(seed).randint(0, 256, shape).astype(np.uint8)


def save(path, image, **options):
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    image.save(path, **options)


def write_images(root):
    for number in range(24):
        colour = Image.fromarray(pixels(number % 20, 12, 9, 3))
        save(root / "plain" / "ab"[number % 2] / f"{number}.png", colour)
        save(root / "grey" / f"{number}.png", colour.convert("L"))
        save(root / "palette" / f"{number}.gif", colour.convert("P"))
        save(root / "jpeg" / f"{number}.jpg", colour)
        split = ("train", "val", "test")[number % 3]
        save(root / "splits" / split / "xy"[number % 2] / f"{number}.png", colour)
    case("images", f"images:{root / 'plain'}")
    case("images, stream", f"images:{root / 'plain'}", channels=3)
    case("grey", f"images:{root / 'grey'}")
    case("palette", f"images:{root / 'palette'}")
    case("jpeg", f"images:{root / 'jpeg'}")
    case("split folders", f"images:{root / 'splits'}")
    for fit in ("pad", "crop", "stretch"):
        case(f"fit {fit}", f"images:{root / 'plain'}", image_size="16x10", fit=fit)
        case(f"fit {fit} small", f"images:{root / 'plain'}", image_size=5, fit=fit, channels=1)
    case("RGBA", f"images:{root / 'plain'}", image_size=16, channels=4, background="#102030")
    odd = root / "odd"
    rgba = Image.fromarray(pixels(1, 10, 8, 4), "RGBA")
    save(odd / "alpha.png", rgba)
    save(odd / "la.png", rgba.convert("LA"))
    save(odd / "bits16.png", Image.fromarray(pixels(2, 10, 8).astype(np.uint16) * 257 + 3))
    save(odd / "bits16.tif", Image.fromarray(pixels(3, 10, 8).astype(np.uint16) * 251))
    save(odd / "float.tif", Image.fromarray(pixels(4, 10, 8).astype(np.float32) / 255))
    save(odd / "cmyk.jpg", Image.fromarray(pixels(5, 10, 8, 3)).convert("CMYK"))
    save(odd / "bit1.png", Image.fromarray(pixels(6, 10, 8)).convert("1"))
    save(odd / "bit1.tif", Image.fromarray(pixels(6, 10, 8)).convert("1"))
    palette = Image.fromarray(pixels(7, 10, 8, 3)).convert("P")
    save(odd / "key.png", palette, transparency=3)
    save(odd / "rgbkey.png", Image.fromarray(pixels(8, 10, 8, 3)), transparency=(1, 2, 3))
    save(odd / "frames.gif", palette, save_all=True, append_images=[palette.rotate(90)])
    for orientation in range(1, 9):
        image = Image.fromarray(pixels(20 + orientation, 10, 8, 3))
        exif = Image.Exif()
        exif[0x0112] = orientation
        save(odd / f"turned{orientation}.jpg", image, exif=exif)
        save(odd / f"turned{orientation}.png", image, exif=exif)
        save(odd / f"turned{orientation}.tif", image, tiffinfo={0x0112: orientation})
    case("odd images", f"images:{odd}", image_size="8x10")
    case("odd images cropped", f"images:{odd}", image_size=6, fit="crop", background="red")
    case("odd images as they are", f"images:{odd}")
    save(root / "damaged" / "good.png", rgba)
    (root / "damaged" / "bad.png").write_bytes((odd / "alpha.png").read_bytes()[:90])
    case("damaged image", f"images:{root / 'damaged'}")
    (root / "text").mkdir()
    (root / "text" / "no.png").write_bytes(b"hello")
    case("no image", f"images:{root / 'text'}")


def write_pairs(root):
    for number in range(12):
        save(root / "masks" / "images" / f"{number}.png", Image.fromarray(pixels(number, 8, 8, 3)))
        labels = Image.fromarray(pixels(50 + number, 8, 8) % 3)
        save(root / "masks" / "masks" / f"{number}_mask.png", labels)
        binary = Image.fromarray((pixels(70 + number, 8, 8) % 2) * 255)
        save(root / "binary" / "images" / f"{number}.jpg", Image.fromarray(pixels(number, 8, 8, 3)))
        save(root / "binary" / "masks" / f"{number}.png", binary.convert("1" if number else "L"))
        for name in "ab":
            image = Image.fromarray(pixels(number + ord(name), 8, 8, 3))
            save(root / "ab" / name / f"{number}.png", image)
            domain = root / "domains" / ("trainA" if name == "a" else "trainB")
            save(domain / f"{name}{number}.png", image)
    os.remove(root / "domains" / "trainB" / "b3.png")
    case("masks", f"pairs:{root / 'masks'}")
    case("masks resized", f"pairs:{root / 'masks'}", image_size="12x6")
    case("binary masks", f"pairs:{root / 'binary'}")
    case("pairs", f"pairs:{root / 'ab'}")
    case("domains", f"pairs:{root / 'domains'}", image_size=4)


def write_idx(path, array):
    """Write an array, uint8, int32 or float32 [N, ...], as an IDX file."""
    code, dtype = {"u": (8, "u1"), "i": (12, ">i4"), "f": (13, ">f4")}[array.dtype.kind]
    with open(str(path), "wb") as file:
        file.write(struct.pack(f">HBB{array.ndim}I", 0, code, array.ndim, *array.shape))
        file.write(array.astype(dtype).tobytes())


def write_arrays(root):
    root.mkdir()
    x, y = pixels(1, 30, 6, 6), pixels(2, 30) % 4
    for suffix in ("", ".gz"):
        folder = root / f"idx{suffix}"
        folder.mkdir()
        for name, array in (("images-idx3", x), ("labels-idx1", y)):
            for split in ("train", "t10k"):
                path = folder / f"{split}-{name}-ubyte"
                write_idx(str(path), array[: 20 if split == "t10k" else 30])
                if suffix:
                    path.with_name(path.name + ".gz").write_bytes(gzip.compress(path.read_bytes()))
                    path.unlink()
        case(f"idx{suffix}", f"idx:{folder}")
    kinds = {
        "plain": dict(x_train=x, y_train=y, x_test=x[:5], y_test=y[:5]),
        "whole": dict(images=x, labels=y),
        "floats": dict(x=x.astype(np.float64), y=y * 0.5),
        "texts": dict(x=x.reshape(30, -1) * 1.0, y=np.array(list("abc") * 10)),
        "named": dict(x_left=x, x_right=x[:, :3], y_one=y, y_two=y * 0.5),
        "bools": dict(x_train=x, y_train=y > 1),
        "mixed": dict(x_train=x, y_train=y > 1, x_test=x, y_test=y % 3),
        "mixed floats": dict(x_train=x, y_train=y, x_test=x, y_test=y + 0.2),
        "mixed texts": dict(x_train=x, y_train=y.astype(str), x_test=x, y_test=y),
        "masks": dict(x_train=x, y_train=x[..., None] % 5),
        "whole floats": dict(x_train=x, y_train=y * 1.0),
        "infinite": dict(x=np.full((4, 2), np.inf), y=y[:4]),
    }
    for name, arrays in kinds.items():
        np.savez(root / f"{name}.npz", **arrays)
        case(f"npz {name}", f"npz:{root / name}.npz")
    case("npz as values", f"npz:{root / 'plain'}.npz", label_kind="value")
    content = (root / "plain.npz").read_bytes()
    (root / "cut.npz").write_bytes(content[: len(content) // 2])
    case("npz cut", f"npz:{root / 'cut'}.npz")
    case("mnist5k", "mnist5k")


def write_tables(root):
    root.mkdir()
    random = np.random.RandomState(0)
    rows = [
        f"{random.rand():.4f},{i % 7},{['red', 'green', 'blue'][i % 3]},some words {i},{i % 2}"
        for i in range(40)
    ]
    head = "width,count,colour,text,label"
    plain = "\n".join([head, *rows]) + "\n"
    tables = {
        "plain": plain,
        "semicolon": plain.replace(",", ";"),
        "tab": plain.replace(",", "\t").replace("\n", "\r\n"),
        "excel": "sep=;\n" + plain.replace(",", ";"),
        "quoted": 'a,label\n"1,5",x\n' + '"say ""no""",y\n' * 4 + '" a\nb ",z\n' * 3,
        "spaces": "a, b, label\n" + " 1, 2.5,  yes\n" * 9 + "3,4,no \n\n,,\n" + "True,False,no\n",
        "missing": plain.replace(rows[5].split(",")[0], "NA").replace(",3,", ",,"),
        "splits": "x,y,split\n"
        + "".join(f"{i}.5,{i % 2},{['train', 'val', 'test'][i % 3]}\n" for i in range(9)),
        "index": ",x,label\n" + "".join(f"{i},{i * 1.5},{'ab'[i % 2]}\n" for i in range(20)),
        "values": "x,y\n" + "".join(f"{i % 5},{i * 0.25}\n" for i in range(20)),
        "words": "x,id,label\n" + "".join(f"{i % 3},w{i},{i % 2}\n" for i in range(12)),
        "dates": "x,day,label\n" + "".join(f"{i % 3},2020-01-0{i},{i % 2}\n" for i in range(1, 9)),
        "long row": head + "\n" + "\n".join(rows) + "\n1,2,red,t,0,9\n",
        "short row": head + "\n" + "\n".join(rows) + "\n1,2,red\n",
        "typo": plain.replace("0,", "O,", 3),
        "large": "x,label\n" + "1e39,0\n2,1\n" * 3,
        "twice": "x,x,label\n1,2,0\n",
        "headless": "1.5,2.5,0\n3,4,1\n",
        "empty": "",
        "only sep": "sep=;",
        "only header": "x,label\n",
        "open quote": 'x,label\n1,"a\n2,b\n',
        "nothing": "x,label\nnull,a\n#N/A,b\n1e3,c\n-,a\n",
        "hex": "x,label\n0x10,b\n1_000,c\n",
        "underscore": "x,label\n1_000,a\n2,b\n",
        "BOM": "\ufeff" + plain,
    }
    for name, text in tables.items():
        (root / f"{name}.csv").write_bytes(text.encode("utf-8"))
        case(f"table {name}", f"table:{root / name}.csv")
    (root / "utf16.csv").write_bytes(plain.encode("utf-16"))
    case("table utf16", f"table:{root / 'utf16.csv'}")
    (root / "latin.csv").write_bytes("x,label\n1,caf\u00e9\n2,b\n".encode("latin-1"))
    case("table latin", f"table:{root / 'latin.csv'}")
    (root / "null.csv").write_bytes(b"x,label\n1,a\0\n2,b\n")
    case("table null", f"table:{root / 'null.csv'}")
    (root / "plain.csv.gz").write_bytes(gzip.compress(plain.encode()))
    case("table gz", f"table:{root / 'plain.csv.gz'}")
    case("table one-hot", f"table:{root / 'plain.csv'}", categories="one-hot")
    case("table drop", f"table:{root / 'missing.csv'}", missing="drop")
    case("table fill", f"table:{root / 'missing.csv'}", missing="fill")
    case("json ignore", f"table:{root / 'plain.jsonl'}", ignore_columns=("n",))
    case("json drop", f"table:{root / 'nulls.jsonl'}", missing="drop")
    case("table nothing drop", f"table:{root / 'nothing.csv'}", missing="drop")
    case("table ignore", f"table:{root / 'words.csv'}", ignore_columns=("id",))
    case("table vector", f"table:{root / 'plain.csv'}", label_column=("width", "count"))
    records = {
        "plain": [
            dict(x=i * 0.5, n=i, name="ab"[i % 2], ok=i % 3 == 0, label=i % 2) for i in range(20)
        ],
        "lists": [dict(v=[1, 2, i], s=[0.5] * (1 + i % 3), label=i % 2) for i in range(20)],
        "nulls": [dict(x=None if i == 3 else i * 1.5, label="ab"[i % 2]) for i in range(9)],
        "ragged": [dict(x=1.5, label=0), dict(x=2.5), dict(x=1, y=2, label=1)],
        "object": [dict(x=dict(a=1), label=0)],
        "mixed": [dict(x=1, label=0), dict(x=[1], label=1)],
        "big": [dict(x=2**53 + 1 + i, f=1e-7 * i, label=True) for i in range(9)],
    }
    for name, items in records.items():
        (root / f"{name}.jsonl").write_text("".join(json.dumps(item) + "\n" for item in items))
        case(f"json {name}", f"table:{root / name}.jsonl")
    (root / "bad.jsonl").write_text('{"x": 1, "label": 0}\n{"x": 1, \n')
    case("json bad", f"table:{root / 'bad.jsonl'}")
    for number in range(10):
        save(root / "files" / f"{number}.png", Image.fromarray(pixels(number % 8, 6, 6, 3)))
    lines = [f"files/{number}.png,{number * 0.5},{number % 2}" for number in range(10)]
    (root / "images.csv").write_text("\n".join(["file,x,label", *lines]))
    case("table images", f"table:{root / 'images.csv'}", image_size=4)
    (root / "gone.csv").write_text("\n".join(["file,x,label", *lines, "files/no.png,1,1"]))
    case("table gone image", f"table:{root / 'gone.csv'}")


def example(**features):
    lists = {}
    for key, value in features.items():
        values = value if isinstance(value, (list, tuple)) else [value]
        if isinstance(values[0], bytes):
            feature = tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
        elif isinstance(values[0], float):
            feature = tf.train.Feature(float_list=tf.train.FloatList(value=values))
        else:
            feature = tf.train.Feature(int64_list=tf.train.Int64List(value=values))
        lists[key.replace("__", "/")] = feature
    return tf.train.Example(features=tf.train.Features(feature=lists)).SerializeToString()


def encode(seed, mode="RGB"):
    import io

    stream = io.BytesIO()
    Image.fromarray(pixels(seed, 7, 5, 3)).convert(mode).save(stream, "PNG")
    return stream.getvalue()


def write_records(root):
    root.mkdir()
    names = [b"cat", b"dog", b"eel"]
    sets = {
        "images": [example(image=encode(i % 15), label=i % 3) for i in range(20)],
        "imagenet": [
            example(
                image__encoded=encode(i, "L"),
                image__class__label=1 + i % 3,
                image__class__text=names[i % 3],
            )
            for i in range(12)
        ],
        "raw": [
            example(image_raw=pixels(i, 7, 5, 3).tobytes(), height=7, width=5, label=i % 2)
            for i in range(12)
        ],
        "raw grey": [
            example(image=pixels(i, 35).tobytes(), rows=7, cols=5, depth=1, y=i % 2 + 0.5)
            for i in range(12)
        ],
        "numbers": [example(a=i, b=i * 0.5, c=-i, label=names[i % 3]) for i in range(12)],
        "vectors": [example(a=[i, 2], b=[0.5] * 3, y=[1.5, float(i)]) for i in range(12)],
        "sequences": [example(a=list(range(1 + i % 4)), label=i % 2) for i in range(12)],
        "large": [example(a=[2**40 + i, -(2**62)], label=i % 2) for i in range(9)],
        "texts": [example(image=encode(i), caption=b"text %d" % i, label=i % 2) for i in range(9)],
        "lacks": [example(a=1, label=0), example(a=2)],
        "other type": [example(a=1, label=0), example(a=2.5, label=0)],
        "two values": [example(image=[encode(0), encode(1)], label=0)],
        "not finite": [example(a=1.0, label=0), example(a=float("nan"), label=1)],
        "no example": [b"hello"],
        "no records": [],
        "many": [example(a=i * 0.25, label=0 if i % 50 else 1) for i in range(300)],
    }
    for name, records in sets.items():
        for kind in ("", "GZIP") if name in ("images", "numbers") else ("",):
            path = root / f"{name}{kind}.tfrecord"
            with tf.io.TFRecordWriter(str(path), kind) as writer:
                for record in records:
                    writer.write(record)
            case(f"tfrecord {name} {kind}", f"tfrecord:{path}")
    case("tfrecord resized", f"tfrecord:{root / 'raw.tfrecord'}", image_size=4, channels=1)
    case(
        "tfrecord captions",
        f"tfrecord:{root / 'texts.tfrecord'}",
        feature_columns=("image", "caption"),
    )
    content = (root / "images.tfrecord").read_bytes()
    (root / "cut.tfrecord").write_bytes(content[:-9])
    case("tfrecord cut", f"tfrecord:{root / 'cut.tfrecord'}")
    flipped = bytearray(content)
    flipped[len(content) // 2] ^= 1
    (root / "flipped.tfrecord").write_bytes(flipped)
    case("tfrecord flipped", f"tfrecord:{root / 'flipped.tfrecord'}")
    for split in ("train", "test"):
        for number in range(2):
            (root / "shards").mkdir(exist_ok=True)
            shutil.copy(
                root / ("images.tfrecord" if split == "train" else "imagesGZIP.tfrecord"),
                root / "shards" / f"{split}-0000{number}-of-00003.tfrecord",
            )
    case("tfrecord shards", f"tfrecord:{root / 'shards'}")


def describe(value, root, arguments):
    """The values of a data set as JSON, or its error."""
    images = {k: v for k, v in arguments.items() if k in ImageOptions._fields}
    columns = {k: v for k, v in arguments.items() if k in ColumnOptions._fields}
    try:
        dataset = open_data(
            value,
            images=ImageOptions(**images),
            columns=ColumnOptions(**columns),
        )
        splits = {name: split.sha256() for name, split in dataset.splits.items()}
        decoded = decode_splits(dataset.splits, "mapped")
        for name, split in decoded.items():
            assert split.sha256() == splits[name], name
        result = {
            "splits": {name: [len(dataset.splits[name]), splits[name][:16]] for name in splits},
            "partition": dataset.partition()[:16],
            "spec": repr(dict(dataset.spec._asdict())),
            "notes": dataset.notes,
            "files": sorted(dataset.sha256)[:9],
        }
    except ToolkitError as error:
        result = {"error": f"{error.message} {error.hint}"}
    except Exception as error:  # a fault of the toolkit, which the comparison should show
        result = {"fault": f"{type(error).__name__}: {error}"}
    return json.loads(json.dumps(result).replace(str(root), "ROOT"))


def main():
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        os.environ["TOOLKIT_CACHE"] = str(root / "cache")
        write_images(root / "images")
        write_pairs(root / "pairs")
        write_arrays(root / "arrays")
        write_tables(root / "tables")
        write_records(root / "records")
        values = {}
        for name, value, arguments in CASES:
            first = describe(value, root, arguments)
            assert describe(value, root, arguments) == first, name
            values[name] = first
    Path(sys.argv[1]).write_text(json.dumps(values, indent=1, sort_keys=True))
    print(f"{len(values)} data sets")


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    main()
