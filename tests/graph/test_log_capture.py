"""What TensorFlow logs reaches the user where it is news."""

from __future__ import annotations

from toolkit.compat import capture_log, tf


def test_a_restored_checkpoint_is_no_news_and_other_records_are(tmp_path):
    path = str(tmp_path / "model")
    lines = []
    with tf.Graph().as_default(), tf.Session() as session:
        variable = tf.get_variable("x", initializer=1.0)
        session.run(variable.initializer)
        saver = tf.train.Saver()
        saver.save(session, path)
        with capture_log(lines.append):
            tf.logging.info("Something else")
            saver.restore(session, path)
    assert lines == ["Something else"]
