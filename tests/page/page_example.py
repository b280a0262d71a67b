"""Pages with numbers of our own: of one run, of several, and of a search, with pictures."""

from __future__ import annotations

import base64
import html
import io
import json
import math
import random

from PIL import Image, ImageDraw

from toolkit.page.template import fill_template

CLASSES = ["plane", "car", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]


def write_page(path, page, pictures=()):
    """Write a page with pictures (PIL images) and return its address."""
    text = json.dumps(page, sort_keys=True).replace("<", "\\u003c")
    blocks = "\n".join(map(picture_block, range(len(pictures)), pictures))
    summary = f"<h1>{html.escape(page['title'])}</h1>"
    path.write_text(fill_template(page["title"], text, blocks, summary), encoding="utf-8")
    return path.as_uri()


def picture_block(number, image):
    file = io.BytesIO()
    image.save(file, "PNG")
    width, height = image.size
    code = base64.b64encode(file.getvalue()).decode()
    return (
        f'<script type="text/plain" id="picture-{number}" data-type="image/png" '
        f'data-width="{width}" data-height="{height}">{code}</script>'
    )


def plain_picture(width=200, height=120, seed=0):
    """A picture of coloured squares."""
    draw = random.Random(seed)
    image = Image.new("RGB", (width, height), "white")
    brush = ImageDraw.Draw(image)
    for _ in range(60):
        x, y, side = draw.randrange(width), draw.randrange(height), draw.randrange(8, 40)
        colour = tuple(draw.randrange(40, 255) for _ in range(3))
        brush.rectangle((x, y, x + side, y + side), fill=colour)
    return image


def decay(count, seed, start=2.3, end=0.2, noise=0.05):
    """Values of a loss that falls."""
    draw = random.Random(seed)
    return [
        end
        + (start - end) * math.exp(-5 * i / count) * (1 + draw.gauss(0, noise))
        + draw.gauss(0, noise / 5)
        for i in range(count)
    ]


def curve(group, name, split, values, every=10):
    steps = [every * (index + 1) for index in range(len(values))]
    return {
        "group": group,
        "name": name,
        "split": split,
        "steps": steps,
        "values": values,
        "thinned": len(values),
    }


def confusion(size, seed=0):
    """Counts of a good classifier."""
    draw = random.Random(seed)
    counts = [
        [draw.randrange(4) if draw.random() < 0.3 else 0 for _ in range(size)] for _ in range(size)
    ]
    for index in range(size):
        counts[index][index] = 80 + draw.randrange(20)
    return counts


def example_run(number=0, points=125, name="runs/baseline", seed_group=None, **keys):
    """A run that finished, with everything that a page can have."""
    run = {
        "id": number,
        "name": name,
        "path": name,
        "colour": number,
        "seed_group": seed_group,
        "status": {
            "word": "finished",
            "text": "reached step 1,250 in 26 s",
            "good": True,
            "step": 1250,
            "total": 1250,
        },
        "headline": [
            {
                "name": "accuracy",
                "value": 0.9625,
                "text": "96.25 %",
                "low": 0.9546,
                "high": 0.969,
                "level": 0.95,
                "method": "Wilson",
                "floor": None,
                "note": "963 of 1,000 right",
            },
            {
                "name": "loss",
                "value": 0.1312,
                "low": 0.1187,
                "high": 0.1439,
                "level": 0.95,
                "method": "bootstrap",
            },
            {"name": "ECE", "value": 0.0131, "low": 0.0102, "high": 0.0187, "level": 0.95},
        ],
        "worst": {
            "text": "2 steps were refused, since their gradients were not finite",
            "step": 340,
            "level": "warning",
        },
        "again": "toolkit run --plugin classifier --data mnist5k --network cnn --steps 1250 "
        "--learning-rate 0.001 --seed 1 --run-dir runs/again",
        "curves": [
            curve("loss", "loss", "train", decay(points, number)),
            curve("loss", "loss", "validation", decay(points // 10, 50 + number, end=0.3), 100),
            curve(
                "accuracy", "accuracy", "train", [1 - v / 2.5 for v in decay(points, 9 + number)]
            ),
            curve(
                "accuracy",
                "accuracy",
                "validation",
                [1 - v / 2.5 for v in decay(points // 10, 70 + number)],
                100,
            ),
            curve(
                "gradient norm", "gradient_norm", "train", decay(points, 20 + number, 9, 0.01, 0.2)
            ),
        ],
        "speed": {
            "curves": [curve("steps per second", "steps_per_second", "", decay(20, 5, 90, 110))],
            "hooks": [
                {"name": "metrics", "ms": 0.41},
                {"name": "checkpoint", "ms": 12.2},
                {"name": "evaluation", "ms": 88.0},
            ],
        },
        "events": [
            {"step": 340, "kind": "refused", "text": "step 340 was refused: gradient inf"},
            {"step": 620, "kind": "resume", "text": "continued from step 600"},
            {"step": 1100, "kind": "best", "text": "best accuracy 0.963"},
        ],
        "options": [
            {"name": "learning_rate", "value": 0.001, "origin": "command line", "default": False},
            {"name": "network", "value": "cnn", "origin": "baseline.toml", "default": False},
            {"name": "batch_size", "value": 32, "origin": "default", "default": True},
            {"name": "clip_norm", "value": None, "origin": "default", "default": True},
        ]
        + [
            {"name": f"option_{i}", "value": i, "origin": "default", "default": True}
            for i in range(30)
        ],
        "data": {
            "name": "mnist5k",
            "partition": "3 parts by hash",
            "splits": [
                {"split": "train", "examples": 4000, "sha256": "3f6c" * 16},
                {"split": "test", "examples": 1000, "sha256": "91ab" * 16},
            ],
        },
        "environment": [
            ["python", "3.11.9"],
            ["tensorflow", "2.21.0"],
            ["processor", "x86-64, 2 cores"],
        ],
        "verify": {
            "head": "c0ffee" * 10,
            "command": "toolkit verify runs/baseline",
            "page": "toolkit report runs/baseline -o other.html",
        },
        "matrices": [{"title": "Confusion", "names": CLASSES, "counts": confusion(10)}],
        "tables": [
            {
                "title": "Per class",
                "columns": ["class", "precision", "recall", "F1", "examples"],
                "rows": [
                    [c, 0.9 + i / 200, 0.95 - i / 300, 0.93, 95 + i] for i, c in enumerate(CLASSES)
                ],
            }
        ],
        "charts": [
            {
                "title": "Calibration",
                "x": "confidence",
                "y": "accuracy",
                "diagonal": True,
                "lines": [
                    {
                        "name": "test",
                        "points": [
                            [
                                0.05 + i / 10,
                                min(1, 0.03 + i / 9.5),
                                max(0, i / 9.5 - 0.05),
                                min(1, 0.1 + i / 9.5),
                            ]
                            for i in range(10)
                        ],
                    }
                ],
            }
        ],
        "pictures": [
            {"title": "The 18 worst mistakes", "alt": "18 digits that were misread", "picture": 0}
        ],
        "sliders": [
            {
                "title": "Samples",
                "frames": [
                    {"step": 250 * (i + 1), "picture": 1, "x": 64 * i, "y": 0, "w": 64, "h": 64}
                    for i in range(5)
                ],
            }
        ],
    }
    run.update(keys)
    return run


def example_pictures():
    return [plain_picture(560, 420), plain_picture(320, 64, 1)]


def page_of(runs, **keys):
    page = {
        "format": 1,
        "kind": "run",
        "title": runs[0]["name"],
        "toolkit": "0.2.0",
        "runs": runs,
        "comparison": None,
        "search": None,
    }
    page.update(keys)
    return page


def example_comparison(count=4, points=125):
    """A comparison of runs of which each two differ in the seed alone."""
    runs = [
        example_run(i, points, f"runs/{'ab'[i // 2 % 2]}{i}", seed_group=i // 2)
        for i in range(count)
    ]
    values = [
        {"value": 0.95 + i / 100, "low": 0.94 + i / 100, "high": 0.96 + i / 100, "seeds": 1}
        for i in range(count)
    ]
    return page_of(
        runs,
        kind="comparison",
        title=f"Comparison of {count} runs",
        comparison={
            "options": [
                {
                    "name": "learning_rate",
                    "values": [0.001 * (i // 2 + 1) for i in range(count)],
                    "origins": ["command line"] * count,
                },
                {"name": "seed", "values": list(range(count)), "origins": ["command line"] * count},
            ],
            "metrics": [{"name": "accuracy", "direction": "max", "values": values}],
            "verdicts": [
                {
                    "metric": "accuracy",
                    "a": 0,
                    "b": 2,
                    "verdict": "separated",
                    "text": "accuracy: runs/b2 is higher by 0.02 (0.011 to 0.029)",
                },
                {
                    "metric": "loss",
                    "a": 0,
                    "b": 2,
                    "verdict": "not separated",
                    "text": "loss: the difference of 0.003 is within noise (−0.01 to 0.016)",
                },
                {
                    "metric": "FD",
                    "a": 0,
                    "b": 2,
                    "verdict": "not comparable",
                    "text": "FD: not comparable, since the feature extractors differ",
                },
            ],
            "parting": [
                {"a": 0, "b": 2, "step": 0, "text": "learning_rate differs from the first step"}
            ],
        },
    )


def example_search(trials=24):
    """A search with its two best runs."""
    draw = random.Random(0)
    rows = []
    for number in range(trials):
        rate, preset = 10 ** draw.uniform(-4, -2), draw.choice(["dcgan", "wgan-gp", "hinge"])
        rows.append(
            [number, round(rate, 6), preset, round(0.9 + draw.random() / 12, 4), "finished", 42.5]
        )
    rows.sort(key=lambda row: -row[3])
    rows[-1][3:5] = [None, "diverged: loss nan at step 30"]
    runs = [example_run(i, 60, f"trials/{i:04d}-s0", seed_group=i) for i in range(2)]
    return page_of(
        runs,
        kind="search",
        title="Search of learning_rate and preset",
        search={
            "space": [
                {"name": "learning_rate", "text": "1e-4 to 1e-2, logarithmic"},
                {"name": "preset", "text": "dcgan, wgan-gp, hinge"},
            ],
            "budget": "24 configurations, 1 seed each, 1,250 steps per trial",
            "columns": [
                {"name": "configuration"},
                {"name": "learning_rate", "kind": "option", "log": True},
                {"name": "preset", "kind": "option"},
                {"name": "accuracy", "kind": "metric"},
                {"name": "status"},
                {"name": "CPU seconds", "kind": "cost"},
            ],
            "rows": rows,
            "importance": [
                {"name": "learning_rate", "share": 0.74, "low": 0.6, "high": 0.85},
                {"name": "preset", "share": 0.26, "low": 0.15, "high": 0.4},
            ],
            "verdict": "The best is not separated from the second.",
            "again": "toolkit run --plugin gan --preset hinge --run-dir runs/best",
        },
    )


# A page of each kind.
PAGES = {
    "run": lambda: page_of([example_run()]),
    "comparison": example_comparison,
    "search": example_search,
}
