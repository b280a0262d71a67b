"""Scripts of TensorFlow 1 that read through queues, one for each pattern."""

from adopt_fixtures import IMPORTS

FILES = f"""{IMPORTS}
os.makedirs("rows", exist_ok=True)
names = ["rows/%d.csv" % part for part in range(3)]
for part, name in enumerate(names):
    with open(name, "w") as file:
        for row in np.random.RandomState(part).randn(0 if part == 1 else 10, 4):
            file.write(",".join("%.3f" % value for value in row) + "\\n")

def read(queue):
    _, line = tf.TextLineReader().read(queue)
    row = tf.stack(tf.decode_csv(line, [[0.0]] * 4))
    return row + tf.random_normal([4])

def fit(rows):
    w = tf.get_variable("w", [4, 1])
    loss = tf.reduce_mean(tf.square(tf.matmul(rows, w) - 1.0))
    step = tf.train.get_or_create_global_step()
    return tf.train.AdamOptimizer(0.05).minimize(loss, global_step=step), loss
"""

QUEUES = {
    # The end of the epochs, in the last of which fewer rows are left than a batch has.
    "epochs": """
queue = tf.train.string_input_producer(names, num_epochs=2, seed=3)
joined = tf.train.batch_join([[read(queue)], [read(queue)]], 3, allow_smaller_final_batch=True)
train, loss = fit(joined)
sess = tf.Session()
sess.run(tf.group(tf.global_variables_initializer(), tf.local_variables_initializer()))
coord = tf.train.Coordinator()
threads = tf.train.start_queue_runners(sess, coord)
seen = 0
try:
    while not coord.should_stop():
        seen += len(sess.run([train, joined])[1])
except tf.errors.OutOfRangeError:
    coord.request_stop()
coord.join(threads)
with tf.train.MonitoredTrainingSession() as sess:
    while not sess.should_stop():
        seen += len(sess.run([train, joined])[1])
assert seen == 80, seen
""",
    # A call that takes from a queue and from one that is filled out of it; two runners of a queue;
    # the sizes of queues, which are full in a call that takes nothing; a sampler beside one that
    # depends on a variable; a call at the end, whatever ended the loop.
    "branches": """
data = np.random.RandomState(1).randn(8, 4).astype("f")
row, number = tf.train.slice_input_producer([data, np.arange(8)])
rows = tf.train.batch([row], 4)
queue = tf.FIFOQueue(9, tf.float32, [[]])
for value in (1.0, 2.0):
    tf.train.add_queue_runner(tf.train.QueueRunner(queue, [queue.enqueue(value)]))
values = queue.dequeue_many(2)
shuffled = tf.RandomShuffleQueue(9, 2, tf.float32, [[]])
tf.train.add_queue_runner(tf.train.QueueRunner(shuffled, [shuffled.enqueue(1.0)]))
size = shuffled.size()
alpha = tf.get_variable("alpha", [], initializer=tf.ones_initializer(), trainable=False)
samples = [tf.random_gamma([], alpha), tf.random_gamma([4], 2.0)]
train, loss = fit(rows + samples[1])
with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    tf.train.start_queue_runners(sess)
    assert sess.run(queue.size()) == 9
    try:
        for i in range(12):
            found = sess.run([train, number, values, size])
            assert list(found[2]) == [1.0, 2.0] and found[3] == 0
            sess.run(samples)
        assert sess.run(size) == 9
    finally:
        sess.run(rows)
""",
    # Names, a reader that passes an empty file, noise, a shuffled batch; a Supervisor's services; a
    # queue that the script fills itself; a count that is fed.
    "shuffled files": """
queue = tf.RandomShuffleQueue(3, 1, tf.float32, shapes=[[4]])
count, row = tf.placeholder(tf.int32, []), tf.placeholder(tf.float32, [4])
put = queue.enqueue(row)
producer = tf.train.string_input_producer(tf.train.match_filenames_once("rows/*.csv"))
rows = tf.train.shuffle_batch([read(producer)], 4, capacity=20, min_after_dequeue=10, num_threads=2)
train, loss = fit(tf.concat([queue.dequeue_many(count), rows], 0))
drawn = []
sv = tf.train.Supervisor(logdir="out", save_model_secs=3)
with sv.managed_session() as sess:
    for i in range(12):
        if sv.should_stop():
            break
        for each in range(3):
            sess.run(put, {row: np.random.randn(4)})
        drawn.append(sess.run([train, rows], {count: 2})[1])
    assert len(np.unique(drawn[0], axis=0)) == 4 and (drawn[0] != drawn[1]).all()
    sv.saver.save(sess, "out/end")
""",
}
QUEUES = {name: FILES + text for name, text in QUEUES.items()}
