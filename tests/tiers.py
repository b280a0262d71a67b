"""Which tests run when: the three tiers, and how CI's two Pythons share the second.

Each test belongs to one tier:

quick: README's command runs it, on each Python.
ci:    .ci/run runs it as well, on one of its two Pythons in turn, or on both (`BOTH`).
long:  `./check --long` runs it, before a release.

Measured time decides. `seconds.txt` has the CPU seconds of each function whose tests take more than
`QUICK` seconds each, those of processes that they start included; what it does not list is quick. A
file in which half of the functions take more has one line, their mean, and none of it is quick.
`PICKED` are quick although they take longer, since each is the one real run of a capability; `LONG`
are the tests that CI does without, and why. Where a path is named, `pytest tests/x.py`, its tests
of all tiers run.

    pytest --tier ci --save-seconds FILE      measure
    python tests/tiers.py [FILE ...]          renew seconds.txt
"""

import collections
import os
import re
import sys
import zlib

TIERS = ("quick", "ci", "long")
SHARE = "CI_TEST_SHARE"  # "1/2:7": the first of two Pythons, in the landing with number 7
QUICK = 0.4  # CPU seconds of the dearest quick test that is not picked
# A file has one line if more than so many functions, and this share of them, are not quick.
FEW, MOST = 2, 0.5
UNLISTED = 0.03  # what others take
SECONDS_FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "seconds.txt")

# Beginnings of the names of tests, that is paths and functions as pytest prints them.
PICKED = ("tests/test_each_capability.py",)
# Not quick, even if cheap: they share a dear fixture with others, which the first of them makes.
SHARING = (
    "samples/text-classifier/tests/test_text_classifier.py::test_a_longer_text",
    "samples/text-classifier/tests/test_text_classifier.py::test_an_evaluation_draws",
    "samples/vae/tests/test_vae.py::test_pictures_change_no_bit",
    "tests/classifier/test_known_answers.py",
    "tests/fuzz/test_fuzz_runs.py",
    "tests/gan/test_gan_plugin.py::test_a_run_leaves_reals",
    "tests/kit/test_new_plugins_installed.py",
)
# Of these, the tier `ci` has a smaller sister or a part.
LONG = (
    # Whole pages and the README, of 300 s; `ci` runs the fast part of each page, but of those whose
    # commands, options and hooks other tests of it have.
    "tests/docs/test_pages.py::test_a_page_works_as_a_whole",
    "tests/docs/test_pages.py::test_every_command_of_the_readme_runs_as_printed",
    "tests/docs/test_pages.py::test_the_fast_part_of_a_page_works[docs/augmentation.md",
    "tests/docs/test_pages.py::test_the_fast_part_of_a_page_works[docs/comparing.md",
    "tests/docs/test_pages.py::test_the_fast_part_of_a_page_works[docs/numbers.md",
    "tests/docs/test_pages.py::test_the_fast_part_of_a_page_works[docs/optimizers.md",
    "tests/docs/test_pages.py::test_the_fast_part_of_a_page_works[docs/plugins/extensions.md",
    "tests/docs/test_pages.py::test_the_fast_part_of_a_page_works[docs/plugins/options.md",
    "tests/docs/test_pages.py::test_the_fast_part_of_a_page_works[docs/plugins/samples.md",
    "tests/docs/test_pages.py::test_the_fast_part_of_a_page_works[docs/plugins/session-hooks.md",
    "tests/docs/test_pages.py::test_the_fast_part_of_a_page_works[docs/reports.md",
    # The page on Python, which trains seven times, and a sample of 200 steps in a notebook; `ci`
    # has what `toolkit.train` and a trained run do (test_api.py).
    "tests/docs/test_notebook.py",
    # Lifted graphs of two networks, and of a model function, in a loop; `ci` has one with noise.
    "tests/adopt/test_lift_graph.py::"
    "test_single_steps_a_loop_and_a_resume_end_with_the_same_bits[gan]",
    "tests/adopt/test_lift_model_fn.py::test_single_steps_and_a_resume_end_with_the_bits_of_a_loop",
    # Contracts of all kinds, for samples, for networks of convolutions and with changes of images;
    # `ci` has those of the classifier's perceptron and, for samples, their own facts.
    "samples/diffusion/tests/test_diffusion.py::test_a_contract_holds",
    "samples/plugins/tests/test_sample_plugins.py::test_a_plugin_keeps_its_contracts[estimator",
    "samples/plugins/tests/test_sample_plugins.py::test_a_plugin_keeps_its_contracts[keras_cnn",
    "samples/plugins/tests/test_sample_plugins.py::test_a_plugin_keeps_its_contracts[segmentation",
    "samples/plugins/tests/test_sample_plugins.py::test_a_plugin_keeps_its_contracts[two_",
    "samples/mlflow-tracker/tests/test_mlflow_tracker.py::test_a_contract_holds",
    "samples/segmentation/tests/test_scene_segmentation.py::test_a_contract_holds",
    "samples/text-classifier/tests/test_text_classifier.py::test_a_contract_holds",
    "samples/vae/tests/test_vae.py::test_a_contract_holds",
    "tests/classifier/test_contract.py::test_each_network_keeps_a_contract[cnn",
    "tests/classifier/test_contract.py::test_each_network_keeps_a_contract[resnet",
    "tests/classifier/test_contract.py::test_accumulation_and_skipping",
    # Own tests of new plugins, which are their contracts; `ci` trains a new model with a new
    # extension, calls a new command, and checks a linear model and extensions of it.
    "tests/kit/test_new_plugins_installed.py::test_the_tests_of_a_new_plugin_pass",
    "tests/regressor/test_regressor_contract.py::test_pictures",
    # Those of the regressor that train longest and depend least on its networks.
    "tests/regressor/test_regressor_contract.py::"
    "test_the_plugin_keeps_a_contract[resumes-exactly-from-a-stream",
    "tests/regressor/test_regressor_contract.py::"
    "test_the_plugin_keeps_a_contract[trains-with-all-hooks",
    # A run that somebody deleted at the server, and the bits of one without the tracker, whose
    # contracts are above; `ci` has the other resumes.
    "samples/mlflow-tracker/tests/test_mlflow_tracker.py::test_a_resume_begins_a_new_run",
    "samples/mlflow-tracker/tests/test_mlflow_tracker.py::test_the_run_has_the_bits",
    # Pictures and masks as in the sample of one file, whose test `ci` has; a coverage of 100 draws.
    "samples/segmentation/tests/test_scene_segmentation.py::test_masks_in_files",
    "tests/classifier/test_reports.py::test_the_interval_of_f1_covers_the_true_value",
    # A real Ray of two workers, on Python 3.11 where it is installed (CONTRIBUTING.md).
    "samples/ray-search/tests/test_ray_search.py",
    # Several kills at random, of real trials, and one of a run that is not reproducible;
    # test_verify.py has one, test_search_study.py those of workers in its memory, and
    # test_verify.py the same comparison after a replay.
    "tests/audit/test_chaos.py",
    "tests/audit/test_verify.py::test_chaos_detects_a_plugin_that_is_not_reproducible",
    "tests/search/test_search_study.py::test_a_search_of_six_trials_that_is_killed_thirty_times",
    "tests/search/test_search_command.py::test_a_search_that_is_killed_and_interrupted",
    "tests/search/test_search_command.py::test_a_trial_that_was_paused",
    "plugins/gan-league/tests/test_tournament.py::"
    "test_a_tournament_that_is_killed_ends_with_the_same_table",
    # Of a GAN whose scores need a network of their own; the classifier's contracts are in `ci`,
    # scores by pixels, and in test_image_features.py which features a run has.
    "tests/gan/test_gan_contract.py",
    "tests/gan/test_gan_plugin.py::test_other_data_is_scored_with_the_features_of_the_run",
    # The deepest networks of a GAN; `ci` trains smaller ones, and test_gan_networks.py has the
    # gradients of the deep ones. A run on vectors, whose scores tests/image_scores has in parts.
    "tests/gan/test_gan_plugin.py::test_two_steps_move_every_kernel_of_both_networks[resnet",
    "tests/gan/test_gan_plugin.py::test_what_makes_no_picture_trains_without_grids",
    # A long training without a verdict; `ci` has the bounds of each rule.
    "tests/gan/test_gan_plugin.py::test_a_healthy_run_on_digits_has_no_verdict",
    # Classifiers and GANs compiled by XLA, and whole runs of a GAN in calls of several lengths;
    # `ci` compiles linear models with batch norm, groups and averages, has whole runs of a linear
    # model, and in their own tests the steps of the classifier and of the GAN in a loop.
    "tests/graph/test_while_loop.py::test_a_compiled_gan",
    "tests/graph/test_while_loop.py::test_a_compiled_step_agrees_with_a_plain_one[cnn",
    "tests/gan/test_gan_clusters.py::test_other_data_with_classes_and_replicas_train_on",
    "tests/gan/test_gan_clusters.py::test_a_run_on_data_without_labels_resumes_samples_and_exports",
    # A resume of models on data of other kinds, and of an optimizer object of tf.train; `ci` has
    # those of streams of such data, of their parts (samples/), and of the optimizers by name.
    "tests/graph/test_optimizer_objects.py::test_a_resumed_run_ends_with_the_same_bits[tf.train]",
    # A run with the weights of another, and a resume, compiled by XLA; `ci` has each without XLA.
    "tests/training/test_initial_weights.py::"
    "test_the_weights_of_a_named_step_are_in_place_before_the_first_step[1-on",
    # All changes of images compiled by XLA; `ci` compiles those of a preset.
    "tests/augmentation/test_operations.py::"
    "test_compiled_by_xla_the_same_random_numbers_change_images_alike[all]",
    # Steps compiled by XLA where `ci` has another value, form or kind of the same.
    "tests/graph/test_optimizer_objects.py::test_a_compiled_step_makes_the_same_updates[keras]",
    "tests/graph/test_optimizer_objects.py::test_a_compiled_step_makes_the_same_updates[tf.train]",
    "tests/graph/test_groups.py::test_a_compiled_step_trains_groups_as_a_plain_one_does[plain]",
    "tests/training/test_step_runner.py::test_a_hook_fetches_the_values_of_its_own_step[xla]",
    "tests/training/test_step_runner.py::test_a_hook_reads_variables_after_its_step[xla",
    "tests/training/test_step_runner.py::"
    "test_a_record_has_the_means_of_the_steps_that_happened_since_the_one_before[xla]",
    "tests/training/test_step_runner.py::"
    "test_a_run_ends_after_the_call_in_which_its_time_limit_passes[xla]",
    "tests/training/test_step_runner.py::test_hooks_of_tensorflow_work_as_in_other_programs[xla]",
    "tests/training/test_step_runner.py::"
    "test_no_call_makes_more_steps_than_an_epoch_of_data_in_memory_has[xla]",
    # Whole clusters; `ci` has those of other sizes, kills in test_exactness.py and test_verify.py,
    # and which commands the batch script and the manifest start (test_cluster_samples.py). Two
    # hosts are network namespaces.
    "tests/cluster_training/test_exactness.py::"
    "test_a_cluster_whose_processes_are_killed_ends_with_the_same_bits[gan]",
    "tests/cluster/test_cluster_samples_train.py",
    "tests/cluster_training/test_exactness.py::test_two_runs_of_three_workers_have_the_same_bits",
    "tests/cluster_training/test_hosts.py",
    "tests/cluster_training/test_parameter_servers.py::test_a_gan_trains_its_two_networks",
)
# What meets the graph, the sessions or the checkpoints of TensorFlow in a way of its own.
BOTH = (
    "tests/gan/test_gan_train_step.py::test_the_generator_sees_the_new_discriminator",
    "tests/graph/test_guard.py::test_a_step_is_refused",
    "tests/graph/test_guard.py::test_batch_statistics",
    "tests/graph/test_networks.py",
    "tests/graph/test_optimizer_objects.py::test_a_resumed_run",
    "tests/inference/test_evaluate_predict_export.py",
    "tests/training/test_exact_resume.py::test_a_death_at_any_step",
    "tests/training/test_exact_resume.py::test_a_death_leaves_no_trace_in_a_stream",
    "tests/versions/",
)


def tier_of(nodeid, seconds):
    """The tier of a test. `seconds` is what `read_seconds` returns."""
    if nodeid.startswith(LONG):
        return "long"
    if nodeid.startswith(PICKED):
        return "quick"
    is_cheap = seconds_of(nodeid, seconds) <= QUICK and not nodeid.startswith(SHARING)
    return "quick" if is_cheap else "ci"


def select(items, tiers, share=None):
    """Divide pytest's items into those to run and the others.

    Args:
        items: collected tests.
        tiers: the names of tiers.
        share: the text of `SHARE`, which leaves the tests of the other Python out of the tier `ci`.
    """
    seconds = read_seconds()
    chosen = [item for item in items if tier_of(item.nodeid, seconds) in tiers]
    if share:
        number, count, landing = read_share(share)
        shared = [
            item
            for item in chosen
            if not is_for_each(item) and tier_of(item.nodeid, seconds) == "ci"
        ]
        mine = (number - 1 + landing) % count
        others = {file for file in map(file_of, shared) if turn_of(file, count) != mine}
        chosen = [item for item in chosen if is_for_each(item) or file_of(item) not in others]
    kept = set(chosen)
    return chosen, [item for item in items if item not in kept]


def turn_of(file, count):
    """Which of `count` Pythons, from 0, tests a file: its name alone decides, so that a change of
    other tests moves none to a Python that did not run it before.
    """
    return zlib.crc32(file.encode()) % count


def is_for_each(item):
    """Whether each Python has to run a test: one skips it by itself, or its facts may differ."""
    return item.get_closest_marker("skipif") is not None or item.nodeid.startswith(BOTH)


def read_share(text):
    """Read "1/2:7" as (1, 2, 7).

    Raises:
        ValueError: it is no share.
    """
    share, _, landing = text.partition(":")
    number, count = map(int, share.split("/"))
    if not 1 <= number <= count:
        raise ValueError(f"{SHARE} is {text!r}, which is no share such as '1/2:7'")
    return number, count, int(landing or 0)


def file_of(item):
    return item.nodeid.partition("::")[0]


def function_of(nodeid):
    return nodeid.partition("[")[0]


def seconds_of(nodeid, seconds):
    """The CPU seconds that a test takes."""
    file = nodeid.partition("::")[0]
    return seconds.get(function_of(nodeid), seconds.get(file, UNLISTED))


def read_seconds(path=SECONDS_FILE):
    """Function, or file, -> CPU seconds of each of its tests."""
    with open(path, encoding="utf-8") as file:
        lines = [line.split(None, 1) for line in file if not line.startswith("#")]
    return {name.strip(): float(number) for number, name in lines}


def write_seconds(measured, path=SECONDS_FILE):
    """Write the seconds of functions that are there and not quick, or one mean for a file of such.

    `measured` is function, or file, -> seconds of each of its tests.
    """
    rows = {}
    for file in {name.partition("::")[0] for name in measured}:
        names = [f"{file}::{function}" for function in functions_in(file)]
        values = {name: seconds_of(name, measured) for name in names}
        dear = {name: seconds for name, seconds in values.items() if seconds > QUICK}
        if len(dear) > FEW and len(dear) >= MOST * len(names):
            dear = {file: max(sum(values.values()) / len(values), min(dear.values()))}
        rows.update(dear)
    with open(path, "w", encoding="utf-8") as file:
        file.write("# CPU seconds of each test of a function or file, written by tests/tiers.py\n")
        file.writelines(f"{seconds:.2f} {name}\n" for name, seconds in sorted(rows.items()))


def is_there(name):
    """Whether the folder, the file, or the function in a file of a name is there."""
    path, _, rest = name.partition("::")
    if not rest:
        return os.path.exists(path_of(path))
    return any(each.startswith(function_of(rest)) for each in functions_in(path))


def functions_in(file):
    """The names of the functions in a file of tests, none where there is no file."""
    if not os.path.isfile(path_of(file)):
        return []
    with open(path_of(file), encoding="utf-8") as source:
        return re.findall(r"^def (test_\w+)", source.read(), re.M)


def path_of(name):
    return os.path.join(os.path.dirname(os.path.dirname(SECONDS_FILE)), name)


def main(paths):
    """Renew the seconds of all tests that the files have, of which the greatest count, and forget
    those of functions that are gone. Without a file, only that.
    """
    renewed = {}
    for path in paths:
        tests = collections.defaultdict(list)
        for nodeid, seconds in read_seconds(path).items():
            tests[function_of(nodeid)].append(seconds)
        for name, values in tests.items():
            renewed[name] = max(sum(values) / len(values), renewed.get(name, 0.0))
    write_seconds({**read_seconds(), **renewed})


if __name__ == "__main__":
    main(sys.argv[1:])
