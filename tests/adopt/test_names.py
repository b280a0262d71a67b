"""Names that a script uses and this TensorFlow lacks, found in its syntax tree."""

import os
import textwrap

import pytest
from toolkit_adopt.names import missing_names

from toolkit import UsageError


@pytest.fixture
def missing(tmp_path):
    """A function: the text of a script, and of modules beside it, to [(name, file, line)]."""

    def find(text, **modules):
        for name, content in {"script": text, **modules}.items():
            (tmp_path / f"{name}.py").write_text(textwrap.dedent(content))
        found = missing_names(str(tmp_path / "script.py"))
        return [(name, os.path.relpath(file, str(tmp_path)), line) for name, file, line in found]

    return find


def test_names_that_exist_or_have_a_stand_in_and_those_of_other_things_are_not_missing(missing):
    text = """
        import numpy as np
        import tensorflow as another, tensorflow as other, tensorflow as tf
        import tensorflow.compat.v1 as tf1
        import tensorflow.contrib.slim as slim
        from tensorflow.contrib import layers
        from tensorflow.examples.tutorials.mnist import input_data
        from tensorflow.python.framework import ops
        from tensorflow.python.ops.control_flow_ops import cond

        FLAGS = tf.app.flags.FLAGS
        FLAGS.anything_at_all
        with slim.arg_scope([slim.conv2d, tf.contrib.layers.batch_norm]):
            net = tf.layers.dense(tf.placeholder(tf.float32, [1, 2]), 3)
        tf1.contrib.rnn.BasicLSTMCell(3).call.x
        tf.estimator.inputs.numpy_input_fn, ops.Graph, tf.contrib.framework.nest.is_sequence
        from .tensorflow import backend
        def f(other):
            return other.nothing

        g = lambda another: f(another.nothing)
        tf.my_own = 1
        tf.my_own + np.nothing

        class A:
            def never_called(self):
                return tf.nothing
        """
    assert missing(text) == []


def test_a_name_is_given_with_file_and_line_once_as_far_as_it_is_missing(missing):
    text = """
        import tensorflow as tf
        tf.nothing.at.all(tf.nothing)
        tf.train.NoOptimizer()
        tf.GraphKeys.NO_KEY
        """
    assert missing(text) == [
        ("tf.nothing", "script.py", 3),
        ("tf.train.NoOptimizer", "script.py", 4),
        ("tf.GraphKeys.NO_KEY", "script.py", 5),
    ]


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("import tensorflow.contrib.nothing as x", "tf.contrib.nothing"),
        ("from tensorflow.contrib.nothing import x", "tf.contrib.nothing"),
        ("from tensorflow.contrib.layers import nothing as y", "tf.contrib.layers.nothing"),
        ("from tensorflow.nothing import *", "tf.nothing"),
        ("from tensorflow.compat.v1 import nothing", "tf.nothing"),
        ("import tensorflow as t; l = t.contrib; m = l; m.nothing", "tf.contrib.nothing"),
        ("from tensorflow.compat import v1 as t; import tensorflow as t; t.nothing", "tf.nothing"),
    ],
)
def test_each_form_of_import_is_followed(missing, line, name):
    assert missing(line) == [(name, "script.py", 1)]


def test_what_a_script_may_do_without_is_not_missing(missing):
    text = """
        import tensorflow as tf
        try:
            from tensorflow.contrib import nothing
        except ImportError:
            nothing = None
        try:
            tf.nothing
        except:
            tf.nothing_else
        if not hasattr(tf, "nothing_yet"):
            tf.nothing_yet = tf.multiply
        tf.nothing_yet
        if tf.nothing_in_test:
            tf.nothing_in_branch
            only_there()
        def only_there():
            tf.nothing_in_function_of_branch
        def never():
            tf.nothing_in_idle_function
        @used
        def dense():  # another one than that of tf.layers
            tf.nothing_in_idle_layer
        tf.layers.dense
        def used():
            return tf.nothing_in_function
        if __name__ == "__main__":
            used()
            tf.nothing_in_main
        """
    needed = ["nothing_in_test", "nothing_in_function", "nothing_in_main"]
    assert [name for name, _, _ in missing(text)] == [f"tf.{name}" for name in needed]


def test_a_module_is_read_but_none_that_a_handler_imports(missing):
    text = "try: from urllib.request import urlopen\nexcept ImportError: import old\nimport new\n"
    new = "import tensorflow as tf\ntf.nothing\ndef f(a: tf.nothing_here): pass\n"
    assert missing(text, old="print 'old'\n", new=new) == [("tf.nothing", "new.py", 2)]


def test_packages_and_relative_imports_are_followed(missing, tmp_path):
    package = tmp_path / "nets" / "deep"
    package.mkdir(parents=True)
    (tmp_path / "nets" / "__init__.py").write_text("")
    (package / "__init__.py").write_text("from . import one\nfrom ..two import *\n")
    (package / "one.py").write_text("import tensorflow as tf\ntf.nothing\n")
    (tmp_path / "nets" / "two.py").write_text("import tensorflow as tf\ntf.less\ntf.nothing_2\n")
    found = missing("from nets import deep")
    assert found == [("tf.nothing", "nets/deep/one.py", 2), ("tf.nothing_2", "nets/two.py", 3)]


def test_a_script_that_is_no_python_is_refused(missing):
    with pytest.raises(UsageError, match=r"cannot be read as Python: .*script.py, line 1"):
        missing("print 'old'\n")
