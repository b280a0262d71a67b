"""Small scripts of TensorFlow 1, one for each pattern, and runs of `toolkit adopt` on them."""

import os

import job_fixtures
from process_fixtures import run

from toolkit.cli import run_command

IMPORTS = """
import os, sys
import numpy as np
import tensorflow as tf
"""
HEAD = f"""{IMPORTS}
rng = np.random.RandomState(1)
data = rng.randn(64, 4).astype("f")
target = data.dot(np.ones([4, 1], "f"))
x = tf.placeholder(tf.float32, [None, 4], name="x")
y = tf.placeholder(tf.float32, [None, 1], name="y")
w = tf.Variable(tf.truncated_normal([4, 1]), name="w")
loss = tf.reduce_mean(tf.square(tf.matmul(x, w) - y), name="loss")

def batch():
    rows = np.random.randint(64, size=8)
    return {{x: data[rows], y: target[rows]}}
"""
TRAIN = "train = tf.train.AdamOptimizer(0.05).minimize(loss)\n"
INIT = "sess = tf.Session()\nsess.run(tf.global_variables_initializer())\n"
START = HEAD + TRAIN + INIT

SCRIPTS = {
    # Dropout by a fed rate, a fed bool, a schedule in Python, entropy, .eval(), Operation.run(), a
    # writer of summaries in the graph.
    "feeds": """
keep = tf.placeholder(tf.float32, [], name="keep")
rate = tf.placeholder(tf.float32, [], name="rate")
flag = tf.placeholder(tf.bool, [], name="flag")
v = tf.Variable(tf.random_normal([4, 1]), name="v")
out = tf.matmul(tf.nn.dropout(tf.where(flag, x, 2.0 * x), keep), v, name="out")
loss = tf.reduce_mean(tf.square(out - y), name="loss")
train = tf.train.AdamOptimizer(rate).minimize(loss)
np.random.seed(None)
summary, step = tf.contrib.summary, tf.train.get_or_create_global_step()
with summary.create_file_writer("logs").as_default(), summary.always_record_summaries():
    summary.scalar("rate", rate, step=step)
with tf.Session() as sess:
    tf.global_variables_initializer().run()
    sess.run(summary.summary_writer_initializer_op())
    value = 0.1
    for i in range(12):
        feed = {keep: 0.5, rate: value, flag: True}
        feed.update(batch())
        train.run(feed)
        sess.run(summary.all_summary_ops(), {rate: value})
        if i % 3 == 2 and loss.eval({x: data, y: target, keep: 1.0, flag: True}) < 100:
            value *= 0.5
""",
    # An optimizer outside of the graph, which feeds the values that it tries to a variable.
    "outside": """
slope = tf.gradients(loss, w)[0]
with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    value = sess.run(w)
    for i in range(11):
        feed = batch()
        feed[w] = value
        value = value - 0.1 * sess.run(slope, feed)
        sess.run(loss, feed)
    sess.run(w.assign(value))
""",
    # A hook's timer, a summary that is fetched, a graph that is finalized, global_step.
    "monitored": """
step = tf.train.get_or_create_global_step()
train = tf.train.MomentumOptimizer(0.05, 0.9).minimize(loss, global_step=step)
tf.summary.scalar("train_loss", loss)
hooks = [tf.train.StopAtStepHook(last_step=12)]
with tf.train.MonitoredTrainingSession(
    checkpoint_dir="out", hooks=hooks, save_checkpoint_secs=5, save_summaries_steps=4
) as sess:
    while not sess.should_stop():
        sess.run(train, batch())
""",
    # An iterator that shuffles, noise in the pipeline's consumer, the end of an epoch, at which
    # a sampler before the iterator has drawn and another one, known by its handle, has not moved;
    # the handle is asked for before each call.
    "dataset": """
labels = tf.zeros([10, 1], tf.int64)
drawn = tf.nn.uniform_candidate_sampler(labels, 1, 5, False, 50).sampled_candidates
data = np.random.RandomState(1).randn(40, 4).astype("f")
rows = tf.data.Dataset.from_tensor_slices(data).shuffle(40)
noisy = lambda row: row + tf.random.normal([4])
rows = rows.map(noisy, num_parallel_calls=4)
rows = rows.apply(tf.data.experimental.map_and_batch(noisy, 10, num_parallel_batches=4))
iterator = tf.data.make_initializable_iterator(rows)
x = iterator.get_next()
numbers = tf.data.make_one_shot_iterator(tf.data.Dataset.range(1000)).string_handle()
handle = tf.placeholder(tf.string, [])
count = tf.data.Iterator.from_string_handle(handle, tf.int64, []).get_next()
w = tf.get_variable("w", [4, 1])
shift = 0.01 * tf.cast(tf.reduce_sum(drawn) + count, tf.float32)
loss = tf.reduce_mean(tf.square(tf.matmul(x + tf.random_normal([4]), w) - shift))
train = tf.train.RMSPropOptimizer(0.01).minimize(loss)
sess, other = tf.Session(), tf.Session(graph=tf.Graph())  # another one, without variables
sess.run(tf.global_variables_initializer())
for epoch in range(3):
    sess.run(iterator.initializer)
    while True:
        known = sess.run(numbers)
        try:
            sess.run(train, {handle: known})
        except tf.errors.OutOfRangeError:
            break
""",
    # Folders with the time and entropy in their names, in which it saves by its own Saver and
    # restores, when it starts and in the end; a file of its own that has the first step; bytes that
    # end in zeros; a condition on a variable.
    "saver": """
import datetime, secrets, tempfile, time, uuid

train = tf.train.AdamOptimizer(0.05).minimize(loss) if w else None
names = [str(time.time()), time.strftime("%S"), datetime.datetime.now().strftime("%f")]
names += [os.urandom(2).hex(), secrets.token_hex(2), uuid.uuid4().hex[:4]]
names += [str(np.random.PCG64().random_raw()), time.asctime(), str(datetime.date.today())]
out = os.path.join(tempfile.mkdtemp(), "checkpoint", "-".join(names))
if not os.path.exists(out):
    os.makedirs(out)
os.makedirs(os.path.join(out, "logs", "train"))
os.mkdir(os.path.join(out, "logs", "test"))
saver = tf.train.Saver(max_to_keep=5)
sess = tf.InteractiveSession()
assert sess.run(tf.io.serialize_tensor(tf.zeros([3]))).endswith(b"\\0")
path = tf.train.latest_checkpoint(out)
if path:
    saver.restore(sess, path)
else:
    sess.run(tf.global_variables_initializer())
for i in range(int(open("first").read()) if os.path.isfile("first") else 0, 12):
    sess.run(train, batch())
    if i % 2 == 1:
        saver.save(sess, os.path.join(out, "model"), global_step=i)
        open("first", "w").write(str(i + 1))
path = os.path.join(out, "model-3")
saver.restore(sess, path)
names = {"tensor_names": ["w"], "shape_and_slices": [""], "dtypes": [tf.float32]}
(found,) = tf.raw_ops.RestoreV2(prefix=path, **names)
sess.run(w.assign(tf.tile(found, [1, 1])))  # in another form than in the file
assert isinstance(datetime.datetime.now() + datetime.timedelta(1), datetime.datetime)
assert isinstance(np.random.mtrand._rand, np.random.RandomState)
assert not isinstance(datetime.datetime.now(), type("Own", (datetime.datetime,), {}))
""",
    # One variable that a call updates by two towers, and another call by one of them alone.
    "racing": """
mean = tf.get_variable("mean", [4], trainable=False, initializer=tf.zeros_initializer())
power = tf.get_variable("power", [], trainable=False, initializer=tf.ones_initializer())
def tower(rows):
    return mean.assign_sub((mean - tf.reduce_mean(rows, 0)) * 0.3)
one, two = tower(x), tower(tf.random_normal([900, 4]))
train = tf.train.AdamOptimizer(0.05).minimize(loss + tf.reduce_sum(mean * w[:, 0]))
with tf.control_dependencies([train]):
    three = power.assign(power * 0.9)
with tf.control_dependencies([two]):
    four = power.assign(power + 0.1)
with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    for i in range(12):
        sess.run([train, one.op, two.op, three.op, four.op], batch())
        sess.run([two.op, four.op])
""",
    # The header for both TensorFlows; weights clipped beside their update, which is first; a loss
    # in a condition and one in a loop; an interactive session that stays open, another graph of
    # one, and a session that the end of its data closes; a generator that draws, behind a queue.
    "left": """
import tensorflow.compat.v1 as tf
tf.disable_v2_behavior()
tf.disable_resource_variables()
tf.InteractiveSession()
x = tf.placeholder(tf.float32, [3])
w, v, u = (tf.Variable(1.0, name=name) for name in "wvu")
opt = tf.train.GradientDescentOptimizer(0.1)
train = opt.minimize(2.0 * w)
clipped = tf.clip_by_value(w, -0.5, 0.9)
clip = [w.assign(clipped)]

def inner(row):
    fast = u - 0.1 * tf.gradients((row * u - 1.0) ** 2, u)[0]
    return (row * fast - 2.0) ** 2

outer = opt.minimize(tf.reduce_mean(tf.map_fn(inner, x)))
other = tf.cond(x[0] > 1.0, lambda: opt.minimize(v * v), lambda: opt.minimize(3.0 * v))

def numbers():
    for _ in range(8):
        yield np.random.randn()

rows = tf.data.Dataset.from_generator(numbers, tf.float32, []).prefetch(3)
row = tf.data.make_one_shot_iterator(rows).get_next()
follow = opt.minimize((w * row - v) ** 2)
init = tf.global_variables_initializer()
for rate in range(2):
    with tf.Session() as sess:
        sess.run(init)
        for i in range(2):
            sess.run([train, clip])
        assert abs(sess.run(w) - 0.6) < 1e-6, "the update was lost"
        assert abs(sess.run(clipped) - 0.6) < 1e-6 and abs(sess.run(w) - 0.6) < 1e-6
sess = tf.InteractiveSession(graph=tf.get_default_graph())
sess.run(init)
sess.run([outer, other], {x: np.arange(3.0)})
try:
    with tf.Session() as last:
        last.run(init)
        while True:
            last.run(follow)
except tf.errors.OutOfRangeError:
    pass
sess.run(init)
""",
    # Dropout in a loop over steps, noise in loops within loops, another one at each turn; negative
    # samples of an op that remembers how much it drew, in train calls and between, one of which
    # trains by scatters alone.
    "noise": """
cell = tf.nn.rnn_cell.DropoutWrapper(tf.nn.rnn_cell.GRUCell(3), state_keep_prob=0.5)
states, last = tf.nn.dynamic_rnn(cell, tf.expand_dims(x, 2), dtype=tf.float32)

def draw(i, total):
    more = lambda value: value + tf.random_uniform([2])
    inner = tf.while_loop(lambda value: tf.reduce_max(value) < 3.0, more, [tf.stack([0.0, i])])
    return i + 1.0, total + inner

count, total = tf.while_loop(lambda i, total: i < 3.0, draw, (0.0, tf.zeros([2])))
rows = tf.map_fn(lambda row: tf.random_normal([]), tf.zeros([5]))
weights, biases = tf.get_variable("weights", [50, 3]), tf.get_variable("biases", [50])
context = tf.reshape(tf.cast(tf.abs(y) * 5, tf.int64), [-1, 1])
sampled = tf.reduce_mean(tf.nn.nce_loss(weights, biases, context, last, 5, 50))
loss = tf.reduce_mean(tf.square(tf.reduce_sum(last, 1, keepdims=True) - y + total[0])) + rows[0]
train = tf.train.AdamOptimizer(0.05).minimize(loss + sampled)
scatter = tf.train.GradientDescentOptimizer(0.1).minimize(sampled, var_list=[weights, biases])
with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    for i in range(6):
        feed = batch()
        sess.run(scatter, feed)
        _, drawn = sess.run([train, rows], feed)
        assert len(set(drawn)) == 5
        sess.run(sampled, feed)
""",
    # Keras: a Sequence that draws, as the main thread does, then a generator, and in the end a data
    # set, whose batches are not in the journal.
    "keras": """
from tensorflow import keras

class Rows(keras.utils.Sequence):
    def __len__(self):
        return 9

    def __getitem__(self, place):
        rows = np.random.randn(8, 4) + place
        return rows, rows.sum(1)

model = keras.Sequential([keras.layers.Dense(1, input_shape=(4,)), keras.layers.Dropout(0.5)])
model.compile("adam", "mse")
draw = keras.callbacks.LambdaCallback(on_batch_end=lambda batch, logs: np.random.randn())
model.fit_generator(Rows(), 4, 1, callbacks=[draw], workers=2, shuffle=True)
model.fit((Rows()[0] for _ in range(9)), steps_per_epoch=4, callbacks=[draw])
rows, targets = Rows()[0]
data = tf.data.Dataset.from_tensor_slices((rows, targets)).shuffle(8).batch(4)
model.fit(data, epochs=2)
""",
    # An Estimator that goes on from its last checkpoint, and keeps no other.
    "estimator": """
def model_fn(features, labels, mode):
    w = tf.get_variable("w", [4], initializer=tf.zeros_initializer())
    loss = tf.reduce_mean((features - w + tf.random_normal([4])) ** 2)
    train_op = tf.train.AdamOptimizer().minimize(loss, tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

config = tf.estimator.RunConfig(keep_checkpoint_max=1)
estimator = tf.estimator.Estimator(model_fn, "out", config)
read = lambda: tf.data.Dataset.from_tensors([1.0, 2.0, 3.0, 4.0]).repeat()
for steps in (2, 4, 12, 12):
    estimator.train(read, max_steps=steps)
""",
    # Edits sys.argv, draws in workers and in a thread, trains two graphs by their sessions in turn,
    # with a pool in Python of what one has drawn, and a third one after a reset; ends by sys.exit.
    "habits": """
import multiprocessing, random, threading, time

sys.argv[1:] = ["--count", "4"]

def draw(count):
    np.random.seed()
    assert time.time() > 0  # of the worker, which is none of the journal's
    return np.random.randn(count, 3)

pools = [multiprocessing.Pool(1), multiprocessing.Pool(1)]
first, second = [workers.map(draw, [3, 4])[-1] for workers in pools]
assert (first != second).all()
for workers in pools:
    workers.terminate()
    workers.join()

def network(graph):
    with graph.as_default():
        x = tf.placeholder(tf.float32, [None, 3], name="x")
        w = tf.get_variable("w", [3, 3])
        out = tf.matmul(x, w) + tf.random_uniform([3])
        train = tf.train.AdamOptimizer(0.01).minimize(tf.reduce_sum(tf.square(out - 1.0)))
        init = tf.global_variables_initializer()
    graph.finalize()
    sess = tf.Session(graph=graph)
    sess.run(init)
    return sess, x, out, train

one, two = network(tf.Graph()), network(tf.Graph())
pool = list(first)
before = random.getstate(), np.random.get_state()[2]
load = lambda: pool.append(np.random.rand(3) * random.random())
loader = threading.Thread(target=load)
loader.start(), loader.join()
assert (random.getstate(), np.random.get_state()[2]) == before  # it may be ahead, by chance
for row in second:
    drawn, _ = one[0].run([one[2], one[3]], {one[1]: [random.choice(pool)]})
    pool.append(drawn[0])
    two[0].run(two[3], {two[1]: [random.choice(pool), row]})
one[0].close(), two[0].close()
tf.reset_default_graph()
sess, x, _, train = network(tf.get_default_graph())
for i in range(int(sys.argv[-1])):
    sess.run(train, {x: [pool[i]]})
sys.exit(0)
""",
}
ALONE = ("dataset", "estimator", "habits", "keras", "left")  # those without the model of HEAD
SCRIPTS = {name: (IMPORTS if name in ALONE else HEAD) + text for name, text in SCRIPTS.items()}
KILL = """
import os, sys
import toolkit_adopt.drive as drive
from toolkit.cli import main
answer, place = drive.Drive.answer, int(sys.argv.pop(1))
def kill_after(self, *args):
    values = answer(self, *args)
    if self.step == place:
        os.kill(os.getpid(), 9)
    return values
drive.Drive.answer = kill_after
main()
"""


def write_script(folder, text, name="script.py"):
    """Write a script below a folder, and return its path."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(text)
    return path


def adopt(path, *words, args=()):
    """Run `toolkit adopt` in this process, in the folder of the script; return its exit code."""
    before = os.getcwd()
    os.chdir(str(path.parent))
    try:
        return run_command(["adopt", path.name, "--run-dir", "run", *words, "--", *args])
    finally:
        os.chdir(before)


def resume(path, *words):
    """Continue the run of `adopt`; return the exit code."""
    return run_command(["resume", str(path.parent / "run"), *words])


def adopted(folder, text, *words, code=0):
    """Write a script, and adopt it, which has to end with this code; return its path."""
    path = write_script(folder / "folder", text)
    assert adopt(path, *words) == code
    return path


def killed(path, step, *words):
    """`toolkit adopt` in a process that is killed after the call that makes a step; the path."""
    words = (step, "adopt", path.name, "--run-dir", "run", *words)
    ended = run(*words, statements=KILL, cwd=str(path.parent))
    assert ended.code == -9, ended.err
    return path


def commits(path):
    """The hash over all variables by step, of each commit of a run."""
    entries = job_fixtures.commits(path.parent / "run")
    return {entry["step"]: entry["tensors"] for entry in entries}


def metrics(path):
    """The lines of metrics.jsonl."""
    return (path.parent / "run" / "metrics.jsonl").read_text().splitlines()
