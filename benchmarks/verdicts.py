"""How often verdicts are wrong where the truth is known.

python benchmarks/verdicts.py [--repeats N]

Also how often the intervals of paired shares contain the true difference.

Draws pairs of methods on a test split: with equal means, and with a difference. `separate` should
separate at most 5 % of the equal pairs. The examples of a split are easier or harder for all
models; each seed adds noise of its own to each example, and a shift of all examples that is
`seed error` times the standard error of that noise.
"""

from __future__ import annotations

import argparse
import functools
from typing import List, NamedTuple, Tuple

import numpy as np

from toolkit.statistics import adjust, separate

LEVEL = 0.95


class Case(NamedTuple):
    """Simulated pairs of methods.

    Attributes:
        name: of the row.
        seeds: the numbers of runs of both methods.
        seed_error: the standard deviation of the shift of a seed, in standard errors of a run.
        is_bool: whether the metric is a share.
        num_examples: of the test split.
    """

    name: str
    seeds: Tuple[int, int]
    seed_error: float = 0.0
    is_bool: bool = True
    num_examples: int = 500


def list_cases() -> List[Case]:
    cases = []
    for metric, is_bool in (("share", True), ("mean", False)):
        cases.append(Case(metric, (1, 1), 0.0, is_bool))
        for seeds in ((1, 3), (2, 2), (3, 3), (5, 5), (3, 10)):
            for seed_error in (0.0, 1.0, 5.0):
                cases.append(Case(metric, seeds, seed_error, is_bool))
    return cases


def draw_runs(
    case: Case, difference: float, random: np.random.RandomState
) -> Tuple[List[np.ndarray], List[np.ndarray]]:
    """The values of the examples of all runs of two methods.

    Args:
        case: what to draw.
        difference: of the methods, in standard errors of the difference of two runs.
        random: the generator.
    """
    count = case.num_examples
    easy = random.standard_normal(count)
    sides = []
    for number, sign in zip(case.seeds, (0.5, -0.5)):
        common = easy + 0.5 * random.standard_normal(count)  # what a method finds easy
        error = (1 + 0.25) ** 0.5 / count**0.5  # of the mean of a run, without the easy part
        shifts = case.seed_error * error * random.standard_normal(number)
        shift = sign * difference * error * 2**0.5
        rows = [common + random.standard_normal(count) + shift + each for each in shifts]
        sides.append([row > -1.5 for row in rows] if case.is_bool else rows)
    return sides[0], sides[1]


def separation_rate(case: Case, difference: float, repeats: int, seed: int = 0) -> float:
    """The share of simulated pairs that are separated."""
    random = np.random.RandomState(seed)
    return float(
        np.mean(
            [
                separate(*draw_runs(case, difference, random), LEVEL).is_separated
                for _ in range(repeats)
            ]
        )
    )


def family_error(repeats: int, num_methods: int = 4, seed: int = 0) -> Tuple[float, float]:
    """The share of families of equal methods with any separated pair, alone and adjusted."""
    random, errors = np.random.RandomState(seed), []
    for _ in range(repeats):
        methods = []
        easy = random.standard_normal(300)
        for _ in range(num_methods):
            methods.append([easy + random.standard_normal(300) for _ in range(3)])
        separators = [
            functools.partial(separate, a, b) for i, a in enumerate(methods) for b in methods[:i]
        ]
        alone = [separator(LEVEL) for separator in separators]
        together = adjust(separators, LEVEL)
        errors.append([any(p.is_separated for p in each) for each in (alone, together)])
    alone_error, together_error = np.mean(errors, axis=0)
    return float(alone_error), float(together_error)


class Coverage(NamedTuple):
    """How often an interval of paired shares contains the true difference.

    Attributes:
        contains: the share of the intervals that do.
        above: the share that lies above the true difference.
        below: the share that lies below it.
        half: half of the mean width.
    """

    contains: float
    above: float
    below: float
    half: float


# Shares of examples on which the first alone and the second alone is right, and their number. The
# first four are a model that is nowhere worse, 82 and 8 of 500, and two weaker differences.
PAIRED_SHARES = (
    *((0.038, 0.0, 500), (0.164, 0.016, 500), (0.10, 0.02, 500), (0.05, 0.03, 500)),
    *((0.02, 0.02, 500), (0.01, 0.0, 500), (0.002, 0.002, 500), (0.30, 0.30, 500)),
    *((0.10, 0.0, 50), (0.20, 0.10, 50), (0.40, 0.05, 50), (0.10, 0.02, 20)),
    *((0.0038, 0.0, 10000), (0.01, 0.008, 10000)),
)


def measure_coverage(
    better: float, worse: float, count: int, repeats: int, seed: int = 0
) -> Coverage:
    """How often the interval of two models on the same examples contains the true difference.

    Args:
        better: the share of examples on which the first alone is right.
        worse: the share on which the second alone is.
        count: number of examples.
        repeats: number of intervals.
        seed: of the draws.
    """
    random, ends = np.random.RandomState(seed), []
    shares = [better, worse, 1 - better - worse]
    for counts in random.multinomial(count, shares, repeats):
        a = np.repeat([True, False, True], counts)
        b = np.repeat([False, True, True], counts)
        result = separate([a], [b], LEVEL)
        ends.append((result.low, result.high))
    lows, highs = np.transpose(ends)
    # A multiple of 1 / count such as 0 is a difference, too: rounding must not decide.
    is_above, is_below = (lows > better - worse + 1e-12), (highs < better - worse - 1e-12)
    return Coverage(
        float(np.mean(~is_above & ~is_below)),
        float(np.mean(is_above)),
        float(np.mean(is_below)),
        float(np.mean(highs - lows)) / 2,
    )


def bound(repeats: int) -> float:
    """What a rate of 5 % exceeds by chance once in a thousand: 3.1 standard errors above it."""
    share = 1 - LEVEL
    return share + 3.1 * (share * (1 - share) / repeats) ** 0.5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeats", type=int, default=2000)
    repeats = parser.parse_args().repeats
    print(f"{repeats} pairs per number; promised: at most 5 % of equal pairs are separated.\n")
    print(
        "| metric | seeds | seed error | equal pairs separated | pairs 4 errors apart separated |"
    )
    print("|---|---|---|---|---|")
    for case in list_cases():
        wrong, right = (separation_rate(case, d, repeats) for d in (0.0, 4.0))
        mark = " (!)" if wrong > bound(repeats) else ""
        seeds = f"{case.seeds[0]} and {case.seeds[1]}"
        print(f"| {case.name} | {seeds} | {case.seed_error:g} | {wrong:.1%}{mark} | {right:.0%} |")
    alone, together = family_error(max(1, repeats // 4))
    print(f"\nAny of 6 pairs of 4 equal methods: {alone:.1%} alone, {together:.1%} adjusted.\n")
    print_coverage(repeats)


def print_coverage(repeats: int) -> None:
    print("| first alone right | second alone right | examples | contains | above | below | half |")
    print("|---|---|---|---|---|---|---|")
    for better, worse, count in PAIRED_SHARES:
        result = measure_coverage(better, worse, count, repeats)
        mark = " (!)" if 1 - result.contains > bound(repeats) else ""
        print(
            f"| {better:.2%} | {worse:.2%} | {count:,} | {result.contains:.1%}{mark} | "
            f"{result.above:.1%} | {result.below:.1%} | {result.half:.4f} |"
        )


if __name__ == "__main__":
    main()
