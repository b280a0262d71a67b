"""`slim.learning.train`, the loop of training steps of a Supervisor."""

from __future__ import annotations

from toolkit import tf

_UNREAD = (
    *("master", "is_chief", "startup_delay_steps", "sync_optimizer", "ignore_live_threads"),
    *("save_interval_secs", "trace_every_n_steps"),
)


def train_step(sess, train_op, global_step, train_step_kwargs):
    """Make a training step. Returns the loss, and whether training is to end."""
    loss, step = sess.run([train_op, global_step])
    names = [name for name in ("should_log", "should_stop") if name in train_step_kwargs]
    flags = dict(zip(names, sess.run([train_step_kwargs[name] for name in names])))
    if flags.get("should_log"):
        tf.logging.info("global step %d: loss = %.4f", step, loss)
    return loss, flags.get("should_stop", False)


def train(
    train_op,
    logdir,
    train_step_fn=train_step,
    train_step_kwargs=None,
    log_every_n_steps=1,
    graph=None,
    *,
    global_step=None,
    number_of_steps=None,
    saver=None,
    session_config=None,
    session_wrapper=None,
    **options,
):
    """Make training steps up to a global step or to the end of the inputs. Returns the last loss.

    The options are those of a Supervisor. No clock decides: a checkpoint is written at the end.
    Raises ValueError if several processes are to train.
    """
    if options.get("sync_optimizer"):
        raise ValueError("The stand-in of slim.learning.train has one process, no sync_optimizer.")
    options = {name: value for name, value in options.items() if name not in _UNREAD}
    with (graph or tf.get_default_graph()).as_default() as graph:
        step = tf.train.get_or_create_global_step() if global_step is None else global_step
        if train_step_kwargs is None:
            last = step.dtype.base_dtype.max if number_of_steps is None else number_of_steps
            train_step_kwargs = {"should_stop": tf.greater_equal(step, last)}
            if log_every_n_steps:
                train_step_kwargs["should_log"] = tf.equal(tf.mod(step, log_every_n_steps), 0)
        saver = saver or tf.train.Saver()
        made = {"logdir": logdir, "global_step": step, "saver": saver, "save_model_secs": 0}
        supervisor = tf.train.Supervisor(graph, **{**made, **options})
    loss, is_last = None, False
    with supervisor.managed_session(config=session_config) as session:
        session = session_wrapper(session) if session_wrapper else session
        try:
            while not (is_last or supervisor.should_stop()):
                loss, is_last = train_step_fn(session, train_op, step, train_step_kwargs)
        except tf.errors.OutOfRangeError:
            pass
        if logdir:
            saver.save(session, supervisor.save_path, global_step=step)
    return loss
