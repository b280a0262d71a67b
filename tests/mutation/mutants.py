"""The mutants: single faults in the core and the plugins, each with the tests that should see it.

A mutant is named after what goes wrong. `old` occurs exactly once in its file, which
`run_mutants.py` checks before it runs any.
"""

from __future__ import annotations

from typing import List, NamedTuple, Tuple


class Mutant(NamedTuple):
    """One fault.

    Attributes:
        name: What goes wrong, in lower case with hyphens.
        path: The file, from the repository's root.
        old: Text that occurs once in the file.
        new: The text in its place.
        tests: Paths or node ids for pytest, from the repository's root.
    """

    name: str
    path: str
    old: str
    new: str
    tests: Tuple[str, ...]

    def apply(self, text: str) -> str:
        """The file's text with the fault."""
        assert text.count(self.old) == 1, f"{self.name}: the text is not unique in {self.path}"
        return text.replace(self.old, self.new)


OPTIMIZER = ("tests/graph/test_optimizer.py",)
GROUPS = ("tests/graph/test_groups.py",)
OBJECTS = ("tests/graph/test_optimizer_objects.py",)
UPDATES = ("tests/graph/test_updates.py",)
GUARD = ("tests/graph/test_guard.py",)
OWN_UPDATES = ("tests/graph/test_own_updates.py",)
WRAPPERS = ("tests/test_wrappers.py",)
WHILE_LOOP = ("tests/graph/test_while_loop.py",)
RANDOMNESS = ("tests/graph/test_randomness.py",)
REPLICA = ("tests/graph/test_replica.py",)
READERS = ("tests/data/test_data_readers.py",)
DURABILITY = ("tests/storage/test_durability.py",)
RUN_FOLDER = ("tests/storage/test_run_folder.py",)
COMMIT_LOG = ("tests/storage/test_commit_log.py",)
JSONL = ("tests/storage/test_jsonl.py",)
LOOP = ("tests/training/test_loop.py",)
CHECKPOINTS = ("tests/training/test_checkpoints.py",)
EXACT_RESUME = ("tests/training/test_exact_resume.py",)
STEP_RUNNER = ("tests/training/test_step_runner.py", "tests/training/test_autotune.py")
EVALUATOR = ("tests/inference/test_evaluator.py",)
OPTIONS = ("tests/test_options.py",)
VERIFY = ("tests/audit/test_verify.py", "tests/audit/test_damage.py")
GAN_STEPS = ("tests/gan/test_gan_train_step.py",)
GAN_LOSSES = ("tests/gan/test_gan_losses.py",)
GAN_PENALTIES = ("tests/gan/test_gan_penalties.py",)
GAN_LAYERS = ("tests/gan/test_gan_layers.py", "tests/gan/test_gan_networks.py")

GRAPH = [
    Mutant(
        "own-updates-are-not-put-back",
        "toolkit/graph/adoption.py",
        "    undo = [GuardedUpdate(train_op, was_finite, skipped, old_values)]",
        "    undo = [GuardedUpdate(train_op, was_finite, skipped, [])]",
        OWN_UPDATES,
    ),
    Mutant(
        "own-updates-are-read-after-they-change",
        "toolkit/graph/adoption.py",
        "        add_control_inputs(op, [value.op for value in old.values()])",
        "        add_control_inputs(op, [])",
        OWN_UPDATES,
    ),
    Mutant(
        "own-updates-are-made-before-the-guard-of-the-core",
        "toolkit/graph/adoption.py",
        "            add_control_inputs(op, [earlier.op])",
        "            add_control_inputs(op, [])",
        OWN_UPDATES,
    ),
    Mutant(
        "own-updates-do-not-look-at-the-loss",
        "toolkit/graph/adoption.py",
        "        checks = [tf.is_finite(value) for value in losses] + _stay_finite(new, old)",
        "        checks = _stay_finite(new, old)",
        OWN_UPDATES,
    ),
    Mutant(
        "a-skipped-own-update-does-not-count-as-a-step",
        "toolkit/graph/adoption.py",
        "        if skipped is None or variables[name].op.name not in _COUNTERS",
        "        if True",
        OWN_UPDATES,
    ),
    Mutant(
        "state-is-updated-in-a-refused-step",
        "toolkit/graph/guard.py",
        "        return tf.cond(is_on, run, lambda: tf.group(tf.no_op())).op",
        "        return run()",
        WRAPPERS,
    ),
    Mutant(
        "state-is-updated-while-gradients-accumulate",
        "toolkit/graph/step_builder.py",
        "            if self._options.accumulate > 1 and self.update_counts:",
        "            if False:",
        WRAPPERS,
    ),
    Mutant(
        "state-is-updated-before-the-step",
        "toolkit/graph/step_builder.py",
        "        with tf.control_dependencies([train_op]):\n            applied = None",
        "        with tf.control_dependencies([]):\n            applied = None",
        WRAPPERS,
    ),
    Mutant(
        "numbers-of-an-evaluation-repeat-in-each-batch",
        "toolkit/graph/positions.py",
        "    first = position // BLOCK_SIZE",
        "    position = position * 0\n    first = position // BLOCK_SIZE",
        RANDOMNESS,
    ),
    Mutant(
        "a-wrapper-cannot-replace-arguments",
        "toolkit/plugins/hook_call.py",
        "        return {**arguments, **replaced}",
        "        return arguments",
        WRAPPERS,
    ),
    Mutant(
        "a-later-yield-repeats-the-first-result",
        "toolkit/plugins/hook_call.py",
        "                step = generator.send(results[-1])",
        "                step = generator.send(results[0])",
        WRAPPERS,
    ),
    Mutant(
        "guard-ignores-the-gradient",
        "toolkit/graph/guard.py",
        "tf.logical_and(tf.is_finite(u.loss), tf.is_finite(u.gradient_norm))",
        "tf.is_finite(u.loss)",
        GUARD,
    ),
    Mutant(
        "guard-ignores-earlier-updates",
        "toolkit/graph/guard.py",
        "finite + [other.finite for other in earlier[-1:]]",
        "finite",
        GUARD,
    ),
    Mutant(
        "rollback-to-the-newest-value",
        "toolkit/graph/guard.py",
        "oldest.setdefault(handle.name, (handle, value))",
        "oldest[handle.name] = (handle, value)",
        GUARD,
    ),
    Mutant(
        "rollback-forgets-state-updates",
        "toolkit/graph/guard.py",
        "        for op in update.state_updates:\n            handle, dtype",
        "        for op in ():\n            handle, dtype",
        GUARD,
    ),
    Mutant(
        "skipped-step-is-counted-per-update",
        "toolkit/graph/guard.py",
        "count = tf.cast(earlier[-1].finite, tf.int64) if earlier else tf.constant(1, tf.int64)",
        "count = tf.constant(1, tf.int64)",
        GUARD,
    ),
    Mutant(
        "xla-guard-selects-the-new-value",
        "toolkit/graph/guard.py",
        "value = tf.where(finite, new_value, old_value)",
        "value = tf.where(finite, new_value, new_value)",
        GUARD + WHILE_LOOP,
    ),
    Mutant(
        "xla-guard-keeps-state-updates",
        "toolkit/graph/guard.py",
        "(step_start or before)[name]",
        "before[name]",
        GUARD + WHILE_LOOP,
    ),
    Mutant(
        "gradients-are-not-read-before-the-update",
        "toolkit/graph/updates.py",
        "    with tf.control_dependencies(gradients):\n        limited",
        "    with tf.control_dependencies(None):\n        limited",
        UPDATES,
    ),
    Mutant(
        "weight-decay-ignores-the-learning-rate",
        "toolkit/graph/updates.py",
        "{decay: part.learning_rate * decay for",
        "{decay: decay for",
        UPDATES,
    ),
    Mutant(
        "weight-decay-of-biases",
        "toolkit/graph/optimizers/parts.py",
        "variable.shape.ndims < 2",
        "variable.shape.ndims < 1",
        UPDATES,
    ),
    Mutant(
        "frozen-variables-train",
        "toolkit/graph/optimizers/parts.py",
        "return [v for v in variables if v.op.name not in self.frozen]",
        "return list(variables)",
        GROUPS,
    ),
    Mutant(
        "frozen-averages-move",
        "toolkit/graph/step_builder.py",
        "return [op for op, frozen in pairs if not frozen], [op",
        "return [op for op, frozen in pairs], [op",
        GROUPS,
    ),
    Mutant(
        "the-last-group-holds",
        "toolkit/graph/optimizers/selection.py",
        "next((group for group in groups if",
        "next((group for group in list(groups)[::-1] if",
        GROUPS,
    ),
    Mutant(
        "groups-share-a-rate",
        "toolkit/graph/optimizers/parts.py",
        "self._present_rate(self._rate_groups[number - 1].learning_rate if number else None)",
        "self._present_rate(None)",
        GROUPS,
    ),
    Mutant(
        "an-object-is-shared-by-players",
        "toolkit/graph/step_builder.py",
        "if is_same and other != name:",
        "if False:",
        OBJECTS,
    ),
    Mutant(
        "accumulation-applies-the-sum",
        "toolkit/graph/updates.py",
        "s.read_value() / tf.cast(count.read_value(), s.dtype.base_dtype)",
        "s.read_value()",
        UPDATES,
    ),
    Mutant(
        "accumulation-is-off-by-one-step",
        "toolkit/graph/updates.py",
        "count.read_value() >= options.accumulate",
        "count.read_value() > options.accumulate",
        UPDATES,
    ),
    Mutant(
        "accumulation-does-not-wait-for-the-last-gradient",
        "toolkit/graph/updates.py",
        "with tf.control_dependencies(additions):",
        "with tf.control_dependencies(None):",
        UPDATES,
    ),
    Mutant(
        "clipping-by-value-is-one-sided",
        "toolkit/graph/optimizers/clipping.py",
        "tf.clip_by_value(g, -limit, limit)",
        "tf.minimum(g, limit)",
        OPTIMIZER,
    ),
    Mutant(
        "global-norm-clips-each-gradient",
        "toolkit/graph/optimizers/clipping.py",
        "return tf.clip_by_global_norm(gradients, limit)[0]",
        "return [tf.clip_by_norm(g, limit) for g in gradients]",
        OPTIMIZER,
    ),
    Mutant(
        "warm-up-starts-at-zero",
        "toolkit/graph/optimizers/schedules.py",
        "base * (position + 1) / warmup",
        "base * position / warmup",
        OPTIMIZER,
    ),
    Mutant(
        "cosine-counts-the-warm-up",
        "toolkit/graph/optimizers/schedules.py",
        "tf.maximum(position - warmup, 0.0)",
        "position",
        OPTIMIZER,
    ),
    Mutant(
        "dropout-does-not-scale",
        "toolkit/graph/step_strategy.py",
        "tf.where(numbers >= rate, x * (1 / (1 - rate)), tf.zeros_like(x))",
        "tf.where(numbers >= rate, x, tf.zeros_like(x))",
        RANDOMNESS,
    ),
    Mutant(
        "replicas-have-equal-weights",
        "toolkit/graph/replica.py",
        "return self.num_examples / self.batch_size",
        "return 1 / self.count",
        REPLICA,
    ),
    Mutant(
        "replicas-draw-the-same-rows",
        "toolkit/graph/replica.py",
        "block * self.batch_size + self.start + row",
        "block * self.batch_size + row",
        REPLICA,
    ),
    Mutant(
        "the-gradient-of-an-average-stays-local",
        "toolkit/graph/replica.py",
        "return self._scale_and_sum(x), weighted_sum",
        "return self._scale_and_sum(x), lambda dy: dy",
        REPLICA,
    ),
    Mutant(
        "averages-of-batch-norm-stay-local",
        "toolkit/graph/replica.py",
        "assign_like(op, next(averages)) if has_float else op",
        "op",
        REPLICA,
    ),
    Mutant(
        "random-numbers-repeat-in-each-step",
        "toolkit/graph/run.py",
        "return randomness.seed_pair(self.seed(name), self.step_index)",
        "return randomness.seed_pair(self.seed(name), self.step_index * 0)",
        RANDOMNESS,
    ),
    Mutant(
        "seed-ignores-the-name",
        "toolkit/graph/randomness.py",
        'hashlib.sha256(f"{seed}:{name}".encode())',
        'hashlib.sha256(f"{seed}".encode())',
        RANDOMNESS,
    ),
    Mutant(
        "step-advances-before-the-update",
        "toolkit/graph/step_builder.py",
        "with tf.control_dependencies([guarded.op, self.step_index]):",
        "with tf.control_dependencies([self.step_index]):",
        UPDATES + GUARD + WHILE_LOOP,
    ),
    Mutant(
        "loop-does-not-wait-for-a-step",
        "toolkit/graph/while_loop.py",
        "        with tf.control_dependencies([step.train_op]):\n            count = count + 1\n",
        "        count = count + 1\n",
        WHILE_LOOP,
    ),
    Mutant(
        "loop-makes-one-step-too-many",
        "toolkit/graph/while_loop.py",
        "lambda count, *_: count < num_steps, body, start",
        "lambda count, *_: count <= num_steps, body, start",
        WHILE_LOOP,
    ),
    Mutant(
        "compiled-loop-continues-after-a-refusal",
        "toolkit/graph/while_loop.py",
        "lambda count, all_finite, *_: tf.logical_and(count < num_steps, all_finite)",
        "lambda count, all_finite, *_: count < num_steps",
        WHILE_LOOP + ("tests/training/test_step_mode.py",),
    ),
]

DATA = [
    Mutant(
        "resident-reader-repeats-the-order",
        "toolkit/data/readers/resident.py",
        "this, self._permutation(epoch + 1)], 0)",
        "this, self._permutation(epoch)], 0)",
        READERS,
    ),
    Mutant(
        "resident-order-ignores-the-seed",
        "toolkit/data/readers/resident.py",
        "tf.stack([tf.constant(seed, tf.int64), epoch])",
        "tf.stack([tf.constant(0, tf.int64), epoch])",
        READERS,
    ),
    Mutant(
        "resident-epochs-do-not-straddle",
        "toolkit/data/readers/resident.py",
        "epoch = first // num_examples",
        "epoch = (first + count - 1) // num_examples",
        READERS,
    ),
    Mutant(
        "stream-resumes-at-the-next-batch",
        "toolkit/data/readers/stream.py",
        "first, count = int(number) * self.batch_size, group * self.batch_size",
        "first, count = (int(number) + 1) * self.batch_size, group * self.batch_size",
        READERS,
    ),
    Mutant(
        "stream-order-ignores-the-epoch",
        "toolkit/data/readers/order.py",
        "epoch_words = [epoch & 0xFFFFFFFF, epoch >> 32]",
        "epoch_words = [0, 0]",
        ("tests/data/test_order.py",),
    ),
    Mutant(
        "stream-order-has-no-windows",
        "toolkit/data/readers/order.py",
        "return self._random(_WINDOWS, epoch, window).permutation(positions)",
        "return positions",
        ("tests/data/test_order.py",),
    ),
    Mutant(
        "stream-ignores-the-filter",
        "toolkit/data/readers/stream.py",
        "self._split = filter_split(split, hooks.filter)",
        "self._split = split",
        READERS,
    ),
    Mutant(
        "pixels-are-divided-by-256",
        "toolkit/data/readers/batches.py",
        "np.float32(1 / 255)",
        "np.float32(1 / 256)",
        READERS,
    ),
]

STORAGE = [
    Mutant(
        "atomic-write-without-fsync",
        "toolkit/files.py",
        "                os.fsync(file.fileno())\n",
        "",
        DURABILITY,
    ),
    Mutant(
        "rename-is-not-durable",
        "toolkit/files.py",
        "        if durable:\n            sync(folder)\n",
        "",
        DURABILITY,
    ),
    Mutant(
        "commit-log-is-not-durable",
        "toolkit/storage/commit_log.py",
        "self._file.append_line(text, durable=True)",
        "self._file.append_line(text)",
        DURABILITY,
    ),
    Mutant(
        "checkpoint-files-are-not-synced",
        "toolkit/storage/checkpoint_store.py",
        "                sync(path)\n",
        "",
        DURABILITY,
    ),
    Mutant(
        "metrics-are-not-durable-before-a-commit",
        "toolkit/storage/checkpoint_store.py",
        "            self._metrics.make_durable()\n",
        "",
        DURABILITY,
    ),
    Mutant(
        "new-log-file-is-not-in-a-durable-folder",
        "toolkit/storage/jsonl.py",
        "            sync(os.path.dirname(os.path.abspath(self.path)))\n",
        "",
        JSONL + RUN_FOLDER,
    ),
    Mutant(
        "changed-entries-are-accepted",
        "toolkit/storage/commit_log.py",
        "if not match or hashlib.sha256(match.group(1)",
        "if not match or False and hashlib.sha256(match.group(1)",
        COMMIT_LOG,
    ),
    Mutant(
        "entries-are-not-chained",
        "toolkit/storage/commit_log.py",
        'if values["previous"] != previous:',
        'if values["previous"] != values["previous"]:',
        COMMIT_LOG,
    ),
    Mutant(
        "damage-of-equal-size-is-overlooked",
        "toolkit/storage/checkpoint_store.py",
        "if sha256_of(path) != digest.sha256:",
        "if False:",
        RUN_FOLDER + CHECKPOINTS,
    ),
    Mutant(
        "fallback-takes-the-oldest-checkpoint",
        "toolkit/storage/checkpoint_store.py",
        "for checkpoint in reversed(checkpoints):",
        "for checkpoint in checkpoints:",
        RUN_FOLDER + CHECKPOINTS,
    ),
    Mutant(
        "files-are-deleted-before-the-commit",
        "toolkit/storage/checkpoint_store.py",
        "            steps = set(retain(checkpoints)) | {step}\n",
        "            steps = set(retain(checkpoints)) | {step}\n"
        "            [self._delete(c) for c in checkpoints if c.step not in steps]\n",
        DURABILITY,
    ),
    Mutant(
        "retention-forgets-the-best",
        "toolkit/storage/commit_log.py",
        "for checkpoint in checkpoints[-keep:]] + list(always)",
        "for checkpoint in checkpoints[-keep:]]",
        COMMIT_LOG + RUN_FOLDER + CHECKPOINTS,
    ),
    Mutant(
        "retention-by-time-keeps-too-many",
        "toolkit/storage/commit_log.py",
        "checkpoint.time - last >= seconds",
        "checkpoint.time - last >= seconds / 2",
        COMMIT_LOG + RUN_FOLDER,
    ),
    Mutant(
        "partial-line-stays-in-the-file",
        "toolkit/storage/jsonl.py",
        "file.truncate(self._size)",
        "file.seek(0, 2)",
        JSONL,
    ),
    Mutant(
        "fingerprint-ignores-the-names",
        "toolkit/storage/checkpoint_reader.py",
        'f"{name} {value.dtype} {list(value.shape)}\\n".encode()',
        'f"{value.dtype} {list(value.shape)}\\n".encode()',
        ("tests/storage/test_checkpoint_reader.py",),
    ),
]

TRAINING = [
    Mutant(
        "due-step-is-off-by-one",
        "toolkit/training/hooks/base.py",
        "return (step // self.steps + 1) * self.steps if self.steps else NEVER",
        "return (step // self.steps + 1) * self.steps + 1 if self.steps else NEVER",
        LOOP,
    ),
    Mutant(
        "bare-steps-pass-a-due-step",
        "toolkit/training/loop.py",
        "until = min(due, self._until) - 1",
        "until = min(due, self._until)",
        LOOP,
    ),
    Mutant(
        "global-step-is-not-compared",
        "toolkit/training/loop.py",
        "        if step != expected:\n",
        "        if False:\n",
        LOOP,
    ),
    Mutant(
        "one-retry-more",
        "toolkit/training/loop.py",
        "if len(self._lost_at) > MAX_RETRIES:",
        "if len(self._lost_at) > MAX_RETRIES + 1:",
        LOOP,
    ),
    Mutant(
        "retries-are-never-forgotten",
        "toolkit/training/loop.py",
        "[s for s in self._lost_at if s >= self.step] + [self.step]",
        "self._lost_at + [self.step]",
        LOOP,
    ),
    Mutant(
        "second-signal-is-ignored",
        "toolkit/training/loop.py",
        "        signal.signal(signum, signal.SIG_DFL)\n",
        "",
        LOOP,
    ),
    Mutant(
        "hooks-flush-after-the-commit",
        "toolkit/training/hooks/checkpoints.py",
        "        self.loop.before_commit()\n        states = self.loop.states()\n",
        "        states = self.loop.states()\n",
        LOOP,
    ),
    Mutant(
        "hook-states-are-not-saved",
        "toolkit/training/hooks/checkpoints.py",
        "                hook_state.save(path, states)\n",
        "                pass\n",
        EXACT_RESUME,
    ),
    Mutant(
        "diverged-step-is-not-saved",
        "toolkit/training/hooks/checkpoints.py",
        "if error is None or isinstance(error, DivergedError):",
        "if error is None:",
        STEP_RUNNER,
    ),
    Mutant(
        "early-stopping-waits-one-more",
        "toolkit/training/hooks/validation.py",
        "self._waited >= self._patience",
        "self._waited > self._patience",
        ("tests/training/test_best_metric.py",),
    ),
    Mutant(
        "higher-loss-is-better",
        "toolkit/training/best_metric.py",
        'return value - best if self.direction == "min" else best - value',
        "return best - value",
        ("tests/inference/test_scorer.py",),
    ),
    Mutant(
        "worse-than-the-noise-is-best",
        "toolkit/training/best_metric.py",
        "is_within = noise > 0 and self._shortfall(value, best_value) <= noise",
        "is_within = noise > 0",
        ("tests/inference/test_scorer.py",),
    ),
    Mutant(
        "infinite-value-becomes-the-best",
        "toolkit/training/best_metric.py",
        "return math.isfinite(value) and (best is None or",
        "return value == value and (best is None or",
        ("tests/training/test_best_metric.py",),
    ),
    Mutant(
        "values-by-other-features-are-compared",
        "toolkit/training/best_metric.py",
        'return "; ".join(changes)',
        'return ""',
        ("tests/training/test_best_metric.py",),
    ),
    Mutant(
        "direction-of-a-scorer-is-ignored",
        "toolkit/inference/metric_directions.py",
        '    sources += [(f"Scorer {type(s).__name__}", s.directions) for s in scorers]\n',
        "",
        ("tests/training/test_best_metric.py",),
    ),
    Mutant(
        "patience-is-forgotten-on-resume",
        "toolkit/training/hooks/validation.py",
        'state.get("waited", 0)',
        "0",
        EXACT_RESUME,
    ),
    Mutant(
        "pending-evaluation-is-not-repeated",
        "toolkit/training/hooks/validation.py",
        "            self.on_committed(step, self._folder.checkpoints.prefix(step))\n"
        "            self._evaluate_pending()\n",
        "            pass\n",
        EXACT_RESUME,
    ),
    Mutant(
        "skipped-steps-are-not-reported",
        "toolkit/training/hooks/guard.py",
        "            if skipped > 0:\n",
        "            if skipped > 1:\n",
        LOOP,
    ),
    Mutant(
        "call-makes-more-steps-than-requested",
        "toolkit/training/step_runner.py",
        "num_steps = min(self._step_count.steps, max_steps)",
        "num_steps = self._step_count.steps",
        STEP_RUNNER + LOOP,
    ),
    Mutant(
        "slowest-variant-wins",
        "toolkit/training/autotune.py",
        "medians.index(min(medians))",
        "medians.index(max(medians))",
        STEP_RUNNER,
    ),
]

INFERENCE = [
    Mutant(
        "partial-batch-counts-as-a-whole-one",
        "toolkit/inference/evaluator.py",
        "sums[name] += float(value) * rows",
        "sums[name] += float(value) * batch_size",
        EVALUATOR,
    ),
    Mutant(
        "metrics-are-not-reset",
        "toolkit/inference/evaluator.py",
        '        self._prepare_call("reset", [self._reset_metrics])()\n',
        "",
        EVALUATOR,
    ),
    Mutant(
        "local-variables-before-the-weights",
        "toolkit/inference/evaluator.py",
        "            self._saver.restore(self._session, plain)\n"
        "        if self._graph.after_restore is not None:\n"
        "            self._session.run(self._graph.after_restore)\n"
        "        self._session.run(self._initialize_locals)\n",
        "            self._session.run(self._initialize_locals)\n"
        "            self._saver.restore(self._session, plain)\n",
        EVALUATOR + ("tests/test_api.py",),
    ),
    Mutant(
        "average-is-not-used-in-an-evaluation",
        "toolkit/inference/evaluator.py",
        "            self._session.run(self._graph.after_restore)\n",
        "            pass\n",
        ("tests/extensions/test_averages.py",),
    ),
    Mutant(
        "gradients-are-changed-before-they-are-clipped",
        "toolkit/graph/updates.py",
        "_check_changed(change(limited, update.variables), update.variables)\n",
        "clip(change(gradients, update.variables), options.clip, 1.0)\n",
        ("tests/graph/test_updates.py",),
    ),
    Mutant(
        "samples-of-all-seeds-draw-the-same-in-the-graph",
        "toolkit/inference/sampling.py",
        "        return self.seed * 2**20 + self.first\n",
        "        return self.first\n",
        ("tests/inference/test_sampling.py",),
    ),
    Mutant(
        "scorers-predict-with-the-first-checkpoint",
        "toolkit/inference/evaluator.py",
        "            self._evaluator.load(path)\n",
        "            pass\n",
        EVALUATOR + ("tests/inference/test_scorer.py",),
    ),
]

OPTION_ORDER = [
    Mutant(
        "variables-beat-flags",
        "toolkit/options/resolution.py",
        "sources.append(Source(FLAGS, ",
        "sources.insert(-1, Source(FLAGS, ",
        OPTIONS,
    ),
    Mutant(
        "weak-steps-beat-strong-epochs",
        "toolkit/options/collection.py",
        "            self._drop_steps()\n        for name, key",
        "            pass\n        for name, key",
        OPTIONS,
    ),
    Mutant(
        "preset-by-data-is-not-saved-as-such",
        "toolkit/preset_choice.py",
        "return {**config, **changes, ORIGINS: dict(now.first_origins)}",
        "return {**config, **changes}",
        ("tests/test_preset_choice.py",),
    ),
    Mutant(
        "weakest-preset-wins",
        "toolkit/options/resolution.py",
        "for position, source in enumerate(sources)\n        for option",
        "for position, source in reversed(list(enumerate(sources)))\n        for option",
        OPTIONS,
    ),
]

AUDIT = [
    Mutant(
        "verify-does-not-compare-tensors",
        "toolkit/audit/checks.py",
        "if checkpoint_reader.fingerprint(checkpoint.path) == checkpoint.tensors:",
        "if checkpoint_reader.fingerprint(checkpoint.path):",
        VERIFY,
    ),
    Mutant(
        "verify-accepts-commits-out-of-order",
        "toolkit/audit/checks.py",
        "entry.step <= position",
        "entry.step < position",
        VERIFY,
    ),
]

CLASSIFIER = [
    Mutant(
        "smoothing-loses-probability",
        "plugins/classifier/toolkit_classifier/losses.py",
        "targets * (1.0 - share) + share / targets",
        "targets * (1.0 - share) + 0.0 * share / targets",
        ("tests/classifier/test_losses.py",),
    ),
    Mutant(
        "class-weights-are-not-normalised",
        "plugins/classifier/toolkit_classifier/losses.py",
        "tf.reduce_sum(values * example_weights) / divisor",
        "tf.reduce_mean(values * example_weights)",
        ("tests/classifier/test_losses.py",),
    ),
    Mutant(
        "evaluation-loss-is-smoothed",
        "plugins/classifier/toolkit_classifier/losses.py",
        'if run.mode != "train":',
        'if run.mode == "predict":',
        ("tests/classifier/test_losses.py",),
    ),
    Mutant(
        "mean-probabilities-do-not-sum-to-1",
        "plugins/classifier/toolkit_classifier/networks.py",
        "tf.reduce_logsumexp(logs, axis=0) - math.log(len(views))",
        "tf.reduce_mean(logs, axis=0)",
        ("tests/classifier/test_tta.py",),
    ),
]

AUGMENTATION = [
    Mutant(
        "rotation-turns-the-other-way",
        "toolkit/augmentation/geometry.py",
        "sine = (tf.sin(angles) / zooms)[:, None]",
        "sine = (-tf.sin(angles) / zooms)[:, None]",
        ("tests/augmentation/test_geometry.py",),
    ),
    Mutant(
        "shift-never-reaches-its-limit",
        "toolkit/augmentation/geometry.py",
        "maxval=limit + 1.0)",
        "maxval=limit)",
        ("tests/augmentation/test_geometry.py",),
    ),
    Mutant(
        "mixup-prefers-the-partner",
        "toolkit/augmentation/mixing.py",
        "return tf.maximum(share, 1.0 - share)",
        "return tf.minimum(share, 1.0 - share)",
        ("tests/augmentation/test_operations.py",),
    ),
    Mutant(
        "flip-of-a-warp-is-off-by-one",
        "toolkit/augmentation/geometry.py",
        "(size - 1.0) - positions, positions)",
        "(size - 0.0) - positions, positions)",
        ("tests/augmentation/test_geometry.py",),
    ),
    Mutant(
        "reflection-repeats-the-border",
        "toolkit/augmentation/geometry.py",
        "return tf.minimum(positions, period - positions)",
        "return tf.minimum(positions, period + 1 - positions)",
        ("tests/augmentation/test_geometry.py",),
    ),
    Mutant(
        "masks-stay-where-they-are",
        "toolkit/augmentation/apply.py",
        "masks = None if masks is None else _move_masks(move, masks)",
        "masks = masks",
        ("tests/augmentation/test_geometry.py",),
    ),
    Mutant(
        "cutmix-targets-have-the-share-of-the-partner",
        "toolkit/augmentation/mixing.py",
        "1.0 - box.area",
        "box.area",
        ("tests/augmentation/test_operations.py",),
    ),
    Mutant(
        "maps-are-joined-in-reverse",
        "toolkit/augmentation/rand_augment.py",
        "current.after(total)",
        "total.after(current)",
        ("tests/augmentation/test_operations.py",),
    ),
    Mutant(
        "chunks-have-no-common-mean",
        "toolkit/data/normalization.py",
        "difference**2 * sums.num_values * share",
        "0 * difference",
        ("tests/data/test_normalization.py",),
    ),
    Mutant(
        "constants-are-divided-by-zero",
        "toolkit/data/normalization.py",
        "np.where(np.isfinite(factor), factor, np.float32(1.0))",
        "factor",
        ("tests/data/test_normalization.py",),
    ),
]

GAN = [
    Mutant(
        "hinge-margin-is-gone",
        "plugins/gan/toolkit_gan/losses.py",
        "tf.nn.relu(1.0 + fake)",
        "tf.nn.relu(fake)",
        GAN_LOSSES,
    ),
    Mutant(
        "wasserstein-sign",
        "plugins/gan/toolkit_gan/losses.py",
        "return tf.reduce_mean(fake) - tf.reduce_mean(real), -tf.reduce_mean(fake)",
        "return tf.reduce_mean(real) - tf.reduce_mean(fake), -tf.reduce_mean(fake)",
        GAN_LOSSES,
    ),
    Mutant(
        "class-loss-without-reals",
        "plugins/gan/toolkit_gan/losses.py",
        'values["d_loss"] += weight * (real + fake)',
        'values["d_loss"] += weight * fake',
        GAN_LOSSES + GAN_STEPS,
    ),
    Mutant(
        "penalty-of-the-mean-logit",
        "plugins/gan/toolkit_gan/penalties.py",
        "tf.gradients(tf.reduce_sum(logits), images)[0]",
        "tf.gradients(tf.reduce_mean(logits), images)[0]",
        GAN_PENALTIES,
    ),
    Mutant(
        "r1-without-its-half",
        "plugins/gan/toolkit_gan/penalties.py",
        "return 0.5 * weight * tf.reduce_mean(_squared_norms(gradients))",
        "return weight * tf.reduce_mean(_squared_norms(gradients))",
        GAN_PENALTIES,
    ),
    Mutant(
        "weight-clipping-of-kernels-alone",
        "plugins/gan/toolkit_gan/penalties.py",
        "        for v in variables\n    ]\n    return tf.group(*clips)",
        "        for v in variables\n        if v.shape.ndims >= 2\n    ]\n"
        "    return tf.group(*clips)",
        GAN_PENALTIES,
    ),
    Mutant(
        "generator-sees-the-old-discriminator",
        "plugins/gan/toolkit_gan/train_step.py",
        "    with tf.control_dependencies([update]):\n        last = run",
        "    with tf.control_dependencies(None):\n        last = run",
        GAN_STEPS,
    ),
    Mutant(
        "discriminator-updates-share-a-batch",
        "plugins/gan/toolkit_gan/train_step.py",
        "update_batch(model, scale_images(features), labels, number, run)",
        "update_batch(model, scale_images(features), labels, 0, run)",
        GAN_STEPS,
    ),
    Mutant(
        "average-has-no-warm-up",
        "plugins/gan/toolkit_gan/average.py",
        "return tf.minimum(options.ema, (1 + step) / (10 + step))",
        "return tf.constant(options.ema)",
        GAN_STEPS,
    ),
    Mutant(
        "generator-trains-the-discriminator",
        "plugins/gan/toolkit_gan/train_step.py",
        '"variables": model.generator.variables,',
        '"variables": model.generator.variables + model.discriminator.variables,',
        GAN_STEPS,
    ),
    Mutant(
        "spectral-norm-without-iteration",
        "plugins/gan/toolkit_gan/layers.py",
        "    if iterate:\n",
        "    if False:\n",
        GAN_LAYERS,
    ),
    Mutant(
        "spectral-norm-has-gradients-of-vectors",
        "plugins/gan/toolkit_gan/layers.py",
        "    u, v = tf.stop_gradient(u), tf.stop_gradient(v)\n",
        "",
        GAN_LAYERS,
    ),
    Mutant(
        "power-iteration-in-each-pass",
        "plugins/gan/toolkit_gan/forward_pass.py",
        "run.options.batch_size)\n    weights = model.discriminator.weights(iterate=False)",
        "run.options.batch_size)\n    weights = model.discriminator.weights(iterate=True)",
        GAN_STEPS,
    ),
    Mutant(
        "biased-covariance",
        "plugins/gan/toolkit_gan/scores/distances.py",
        "centred.T @ centred / (len(features) - 1)",
        "centred.T @ centred / len(features)",
        ("tests/gan/test_gan_distances.py",),
    ),
    Mutant(
        "frechet-distance-without-means",
        "plugins/gan/toolkit_gan/scores/distances.py",
        "max(0.0, means + np.trace(a.covariance)",
        "max(0.0, np.trace(a.covariance)",
        ("tests/gan/test_gan_distances.py",),
    ),
    Mutant(
        "each-ball-has-the-smallest-radius",
        "plugins/gan/toolkit_gan/scores/neighbours.py",
        "near = block <= real_radii + slack",
        "near = block <= real_radii.min() + slack",
        ("tests/gan/test_gan_distances.py",),
    ),
    Mutant(
        "classes-are-left-out-until-one-image-remains",
        "plugins/gan/toolkit_gan/scores/ruler.py",
        "classes[len(labels) - counts >= MIN_IMAGES]",
        "classes[len(labels) - counts >= 1]",
        ("tests/gan/test_gan_ruler.py",),
    ),
    Mutant(
        "first-by-interval-is-judged-without-correction",
        "plugins/gan/toolkit_gan/commands/standings.py",
        "return statistics.adjust(separators, LEVEL)",
        "return [each(LEVEL) for each in separators]",
        ("tests/gan/test_gan_league.py",),
    ),
    Mutant(
        "warm-up-of-the-health-is-ignored",
        "plugins/gan/toolkit_gan/health.py",
        "if sentence is None or step < WARM_UP:",
        "if sentence is None:",
        ("tests/gan/test_gan_health.py",),
    ),
]

COMMAND_LINE: List[Mutant] = [
    Mutant(
        "a-verdict-by-values-of-seeds-holds-for-all-examples",
        "toolkit/statistics/separation.py",
        "filter(None, [note, THESE_EXAMPLES])",
        "filter(None, [note])",
        ("tests/statistics/test_separation.py",),
    ),
    Mutant(
        "images-that-look-inverted-are-inverted",
        "toolkit/inference/predict.py",
        "    if is_inverted:\n        features",
        "    if is_inverted or look_inverted(features, brightness):\n        features",
        ("tests/inference/test_predict_files.py",),
    ),
    Mutant(
        "control-characters-reach-the-terminal",
        "toolkit/cli/streams.py",
        "printable = self._escape(text)",
        "printable = text",
        ("tests/test_streams.py",),
    ),
    Mutant(
        "what-is-left-in-the-buffer-fails-at-exit",
        "toolkit/cli/streams.py",
        "                self._discard_buffer()\n",
        "",
        ("tests/test_streams.py",),
    ),
    Mutant(
        "formulas-reach-a-table",
        "toolkit/display/escapes.py",
        """escape_controls("'" + text if _FORMULA.match(text) else text)""",
        "escape_controls(text)",
        ("tests/display/test_escapes.py",),
    ),
    Mutant(
        "predictions-replace-their-input",
        "toolkit/cli/predict.py",
        "output in [os.path.realpath(path) for path in files]:",
        "output in files:",
        ("tests/test_outputs.py",),
    ),
]

TRUST_TESTS = ["tests/test_trust.py"]
TRUST = [
    Mutant(
        "any-code-is-trusted",
        "toolkit/plugins/trust.py",
        "    elif not _is_recorded(files):\n        changes",
        "    elif False:\n        changes",
        TRUST_TESTS,
    ),
    Mutant(
        "any-neighbour-is-trusted",
        "toolkit/plugins/trust.py",
        "    elif files.hashes[files.name] != sha256 or not _is_recorded(files):",
        "    elif False:",
        TRUST_TESTS,
    ),
    Mutant(
        "chaos-trusts-any-code",
        "toolkit/audit/processes.py",
        "if is_everything_trusted() else []",
        "if True else []",
        TRUST_TESTS,
    ),
    Mutant(
        "the-record-of-the-working-directory-is-read",
        "toolkit/plugins/trust.py",
        ' if os.path.isabs(state) else ""',
        "",
        TRUST_TESTS,
    ),
    Mutant(
        "doctor-executes-code",
        "toolkit/cli/doctor.py",
        "    executes_code = False",
        "    executes_code = True",
        TRUST_TESTS,
    ),
    Mutant(
        "neighbours-precede-installed-modules",
        "toolkit/plugins/neighbours.py",
        "finders.insert(len(others), self)",
        "finders.insert(0, self)",
        TRUST_TESTS,
    ),
]

TASKS = ("tests/cluster/test_tasks.py",)
SLURM = ("tests/cluster/test_slurm.py",)
RESUME_FLAG = ("tests/test_resume_flag.py",)
CLUSTER: List[Mutant] = [
    Mutant(
        "rank-is-the-index-of-the-task",
        "toolkit/cluster/tasks.py",
        "return trainers.index(self.task) if",
        "return self.task.index if",
        TASKS,
    ),
    Mutant(
        "channel-takes-the-port-of-a-task",
        "toolkit/cluster/tasks.py",
        "next(port for port in ports if port not in used)",
        "next(iter(ports))",
        TASKS,
    ),
    Mutant(
        "addresses-are-compared-as-texts",
        "toolkit/cluster/definition.py",
        "owners.setdefault((host.lower(), port), ",
        "owners.setdefault((address, port), ",
        TASKS,
    ),
    Mutant(
        "index-of-a-task-may-be-the-number-of-tasks",
        "toolkit/cluster/definition.py",
        "if (index or 0) >= count:",
        "if (index or 0) > count:",
        TASKS,
    ),
    Mutant(
        "misspelt-cluster-trains-alone",
        "toolkit/cluster/definition.py",
        '            _refuse_misspelt("TF_CONFIG", values, key)',
        "            pass",
        TASKS,
    ),
    Mutant(
        "leading-zeros-of-nodes-are-lost",
        "toolkit/cluster/slurm.py",
        "yield str(number).zfill(len(first))",
        "yield str(number)",
        SLURM,
    ),
    Mutant(
        "cyclic-distribution-is-read-as-block",
        "toolkit/cluster/slurm.py",
        'distribution.startswith("cyclic")',
        'distribution.startswith("no")',
        SLURM,
    ),
    Mutant(
        "tasks-of-another-distribution-start",
        "toolkit/cluster/slurm.py",
        "    if actual != place:",
        "    if False:",
        SLURM,
    ),
    Mutant(
        "jobs-on-one-node-have-the-same-ports",
        "toolkit/cluster/slurm.py",
        "((job + 53 * step) % _BLOCKS)",
        "(step % _BLOCKS)",
        SLURM,
    ),
    Mutant(
        "resume-flag-continues-another-plugin",
        "toolkit/cli/run.py",
        "            refuse_other_plugins(existing, selection)\n",
        "            pass\n",
        RESUME_FLAG,
    ),
    Mutant(
        "resume-flag-continues-a-run-that-stopped-early",
        "toolkit/cli/run.py",
        "sets_length = has_other_length(existing, resolved.options)",
        "sets_length = True",
        RESUME_FLAG,
    ),
]

CHANNEL_START = ("tests/cluster/test_channel_start.py",)
CHANNEL_MESSAGES = ("tests/cluster/test_channel_messages.py",)
CHANNEL_END = ("tests/cluster/test_channel_end.py",)
CHANNEL: List[Mutant] = [
    Mutant(
        "silent-process-is-alive",
        "toolkit/cluster/watch.py",
        "last_heard > self._peer_secs and",
        "last_heard > 1000 and",
        CHANNEL_END,
    ),
    Mutant(
        "stopped-process-blames-the-others",
        "toolkit/cluster/watch.py",
        "        if was_delayed:",
        "        if False:",
        CHANNEL_END,
    ),
    Mutant(
        "process-that-hangs-outlives-the-job",
        "toolkit/cluster/watch.py",
        "        self._leave(error.exit_code)",
        "        pass",
        CHANNEL_END,
    ),
    Mutant(
        "beat-waits-for-a-payload",
        "toolkit/cluster/frames.py",
        "acquire(timeout=max(0.0, wait_secs))",
        "acquire()",
        CHANNEL_MESSAGES,
    ),
    Mutant(
        "chief-does-not-spread-a-loss",
        "toolkit/cluster/channel.py",
        "for peer in peers if peer is not source]",
        "for peer in peers if not isinstance(error, PeerError)]",
        CHANNEL_END,
    ),
    Mutant(
        "follower-that-left-is-dead",
        "toolkit/cluster/channel.py",
        "(peer.has_left and not peer.owes_reply)",
        "False",
        CHANNEL_END,
    ),
    Mutant(
        "second-process-takes-the-place-of-the-first",
        "toolkit/cluster/channel.py",
        "            if task in self._peers:  #",
        "            if False:  #",
        CHANNEL_START,
    ),
    Mutant(
        "other-version-joins",
        "toolkit/cluster/handshake.py",
        "(identity.protocol, identity.toolkit) != (own.protocol, own.toolkit)",
        "identity.protocol != own.protocol",
        CHANNEL_START,
    ),
]

FEED = ("tests/storage/test_checkpoint_feed.py",)
FOLLOW = [
    Mutant(
        "feed-takes-the-oldest-checkpoint",
        "toolkit/storage/checkpoint_feed.py",
        "existing if self._settings.every else existing[-1:]",
        "existing",
        FEED,
    ),
    Mutant(
        "feed-takes-deleted-checkpoints",
        "toolkit/storage/checkpoint_feed.py",
        " if latest.get(each.checkpoint.step) == each.checkpoint]",
        "]",
        FEED,
    ),
    Mutant(
        "feed-ends-with-a-damaged-checkpoint",
        "toolkit/storage/checkpoint_feed.py",
        "if end is not None and not fault and self._is_current:",
        "if end is not None:",
        FEED,
    ),
    Mutant(
        "feed-ignores-the-lock-of-the-run",
        "toolkit/storage/checkpoint_feed.py",
        "            if not self.folder.is_locked():\n",
        "            if True:\n",
        FEED,
    ),
    Mutant(
        "end-of-an-earlier-session-counts",
        "toolkit/storage/checkpoint_feed.py",
        "return None if is_former and self._is_as_at_start() else end",
        "return end",
        FEED,
    ),
    Mutant(
        "test-that-fails-leaves-no-exit-code",
        "toolkit/training/run_log.py",
        "            self._folder.update_manifest(exit_code=code)\n",
        "            pass\n",
        ("tests/inference/test_follow.py",),
    ),
    Mutant(
        "evaluations-keep-reports-in-the-run",
        "toolkit/inference/evaluation.py",
        "        return dict(result, tensors=checkpoint.tensors, **self.identity())\n",
        "        self.report()\n"
        "        return dict(result, tensors=checkpoint.tensors, **self.identity())\n",
        ("tests/inference/test_follow.py",),
    ),
    Mutant(
        "graph-of-an-earlier-session-is-used",
        "toolkit/cli/follow.py",
        "if self._evaluation is None or item.session != self._session:",
        "if self._evaluation is None:",
        ("tests/inference/test_follow.py",),
    ),
]

LAUNCHER = ("tests/launch/test_launcher.py",)
LAUNCH = [
    Mutant(
        "processes-survive-their-launcher",
        "toolkit/launch/child.py",
        "        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)",
        "        pass",
        LAUNCHER,
    ),
    Mutant(
        "what-a-dead-process-started-survives",
        "toolkit/launch/child.py",
        "                os.killpg(self.pid, signal.SIGKILL)",
        "                pass",
        LAUNCHER,
    ),
    Mutant(
        "each-failure-restarts",
        "toolkit/launch/launcher.py",
        "        if not ending.is_retryable:\n            return False",
        "        if False:\n            return False",
        LAUNCHER,
    ),
    Mutant(
        "a-kill-by-chaos-counts-as-a-restart",
        "toolkit/launch/launcher.py",
        "        return ending.signum == signal.SIGKILL and ending.name in victims",
        "        return False",
        LAUNCHER,
    ),
    Mutant(
        "json-of-a-dead-process-is-printed",
        "toolkit/launch/launcher.py",
        '            self._result = ""\n            ending',
        "            ending",
        LAUNCHER,
    ),
    Mutant(
        "a-second-hangup-kills",
        "toolkit/launch/launcher.py",
        "        is_second = bool(self._interrupts) and signum != signal.SIGHUP",
        "        is_second = bool(self._interrupts)",
        LAUNCHER,
    ),
    Mutant(
        "a-restart-starts-over",
        "toolkit/launch/command.py",
        '        return [*words, "--resume"]',
        "        return words",
        ("tests/launch/test_layout.py",),
    ),
    Mutant(
        "an-ending-bar-leaves-a-line",
        "toolkit/launch/output.py",
        "        if is_erasure:\n            self._lines.pop()",
        "        pass",
        ("tests/launch/test_output.py", "tests/launch/test_launch_terminal.py"),
    ),
]

MUTANTS: List[Mutant] = [
    *GRAPH,
    *DATA,
    *STORAGE,
    *TRAINING,
    *INFERENCE,
    *FOLLOW,
    *OPTION_ORDER,
    *AUDIT,
    *CLASSIFIER,
    *AUGMENTATION,
    *GAN,
    *COMMAND_LINE,
    *TRUST,
    *CLUSTER,
    *CHANNEL,
    *LAUNCH,
]


def find_mutant(name: str) -> Mutant:
    """The mutant of a name."""
    return next(mutant for mutant in MUTANTS if mutant.name == name)
