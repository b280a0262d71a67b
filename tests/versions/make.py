"""Write the committed run of this TensorFlow version: python tests/versions/make.py

A linear model after 4 of 8 steps, with Adam's slots, and for 1.15 its SavedModel. The tests in this
folder resume the runs of both versions on either, and load the model on both.
"""

import os
import shutil
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
os.environ["GIT_CEILING_DIRECTORIES"] = os.path.dirname(os.path.dirname(HERE))  # records no commit
sys.path.insert(0, os.path.dirname(HERE))

from linear_fixtures import Linear, write_bars  # noqa: E402

from toolkit import api, compat, testing  # noqa: E402
from toolkit.inference.export import export  # noqa: E402
from toolkit.inference.trained_model import Trained  # noqa: E402
from toolkit.options import resolve  # noqa: E402
from toolkit.storage.run_folder import RunFolder  # noqa: E402


def write_model():
    """Write the SavedModel of the run of the present version."""
    target = os.path.join(HERE, "models", compat.VERSION_FAMILY)
    shutil.rmtree(target, ignore_errors=True)
    folder = RunFolder(os.path.join(HERE, compat.VERSION_FAMILY))
    plugins = api.load_plugins(Linear)
    options = resolve(plugins.options()).options
    checkpoint = folder.checkpoints.find("last")
    with Trained(folder, plugins, options, checkpoint) as model:
        export(model.predictor, target)


def write_run():
    """Write the run of the present version."""
    folder = tempfile.mkdtemp()
    os.chdir(folder)
    write_bars("bars.npz")
    options = {"steps": 4, "evaluate": "no", "keep_checkpoints": 1}
    options.update(page="no", keep_sources="no")
    testing.train(Linear, "run", data="npz:bars.npz", **options)
    target = os.path.join(HERE, compat.VERSION_FAMILY)
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree("run", target, ignore=shutil.ignore_patterns("events", ".lock", "*.log"))
    shutil.rmtree(folder)


write_run()
if compat.VERSION_FAMILY == "1.15":
    write_model()
