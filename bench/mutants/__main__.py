"""Try every mutant: a test that names its requirements must fail. The others are printed, and the exit code is 1.

    python -m bench.mutants [--list] [--only ID ...] [--requirement S4-34 ...] [--jobs N] [--limit SECONDS] [--control]
    python -m bench.mutants --modules [NAME ...]    change pure modules, expression by expression (modules.py)

`--control` runs the tests that failed once more, each once, in the unchanged copy: a test that fails anyway kills nothing. Nor
does a time-out, or an error before the test itself.
"""

import argparse
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from queue import SimpleQueue

from bench.mutants import modules
from bench.mutants.catalogue import MUTANTS
from bench.mutants.mutant import Mutant
from bench.mutants.tree import Tree, Trial, open_tree
from tests.docs.requirements_page import NamingTest, naming_tests

# The tests that take longest: browsers, crashes, and operations in random sequences.
_LAST = ("tests/operations/test_catalog_machine.py", "tests/ui/", "tests/crash/", "tests/acceptance/")


def main() -> int:
    """Run the command; its exit code."""
    parser = argparse.ArgumentParser(prog="bench.mutants")
    parser.add_argument("--list", action="store_true", help="Print the mutants instead of trying them.")
    parser.add_argument("--only", nargs="+", metavar="ID", default=[], help="Try these mutants.")
    parser.add_argument(
        "--requirement", nargs="+", metavar="ID", default=[], help="Try the mutants of these requirements."
    )
    parser.add_argument("--jobs", type=int, default=1, help="Number of copies in which mutants are tried.")
    parser.add_argument("--limit", type=float, default=300, help="Seconds for the tests of one mutant.")
    parser.add_argument(
        "--control", action="store_true", help="Run the tests that failed without any mutant, too."
    )
    parser.add_argument(
        "--modules",
        nargs="*",
        metavar="NAME",
        choices=[*modules.MODULES],
        help="Change the pure modules instead, or some of them.",
    )
    arguments = parser.parse_args()
    if arguments.modules is not None:
        return modules.main(arguments.modules)
    mutants = _select(arguments.only, arguments.requirement)
    if arguments.list:
        for mutant in mutants:
            print(f"{mutant.id:34} {mutant.path}  {' '.join(mutant.requirements)}")
        return 0
    trials = _try_all(mutants, arguments.jobs, arguments.limit)
    if arguments.control:
        trials = _control(trials, arguments.limit)
    return _report(trials)


def _select(ids: Sequence[str], requirements: Sequence[str]) -> list[Mutant]:
    if unknown := set(ids) - {mutant.id for mutant in MUTANTS}:
        sys.exit(f"No such mutant: {', '.join(sorted(unknown))}. `--list` prints all.")
    chosen = sorted(MUTANTS, key=lambda mutant: ids.index(mutant.id) if mutant.id in ids else len(ids))
    return [
        mutant
        for mutant in chosen
        if (not ids or mutant.id in ids)
        and (not requirements or not set(requirements).isdisjoint(mutant.requirements))
    ]


def _tests_of(requirements: Iterable[str], tests: Sequence[NamingTest]) -> list[str]:
    """The tests that name one of these requirements, the slow ones last."""
    wanted = set(requirements)
    chosen = [test for test in tests if not wanted.isdisjoint(test.requirements)]
    chosen.sort(key=lambda test: (test.path.startswith(_LAST), test.is_slow, test.path))
    return [f"{test.path}::{test.name}" for test in chosen]


def _control(trials: Sequence[tuple[Mutant, Trial]], limit: float) -> list[tuple[Mutant, Trial]]:
    """The trials, those as unproved whose test fails without the mutant, too."""
    killers = list(dict.fromkeys(test for _, trial in trials for test in trial.failed_tests))
    with open_tree() as tree:
        control = tree.run_tests(killers, limit * len(trials), stop=False)
    print(f"{control.verdict:10} {control.seconds:6.1f} s  {len(killers)} tests without a mutant", flush=True)
    if control.verdict == "survived":
        return list(trials)
    failed = set(control.failed_tests) if control.verdict == "killed" else set(killers)
    print(*sorted(failed), sep="\n")
    return [
        (mutant, replace(trial, verdict="unproved") if failed.intersection(trial.failed_tests) else trial)
        for mutant, trial in trials
    ]


def _try_all(mutants: Sequence[Mutant], jobs: int, limit: float) -> list[tuple[Mutant, Trial]]:
    tests = list(naming_tests())
    trees: SimpleQueue[Tree] = SimpleQueue()

    def try_one(mutant: Mutant) -> tuple[Mutant, Trial]:
        tree = trees.get()
        try:
            with tree.changed(mutant.path, mutant.apply(tree.read(mutant.path))):
                trial = tree.run_tests(_tests_of(mutant.requirements, tests), limit)
        finally:
            trees.put(tree)
        print(f"{trial.verdict:10} {trial.seconds:6.1f} s  {mutant.id}  {trial.reason}", flush=True)
        return mutant, trial

    with ExitStack() as stack:
        for _ in range(jobs):
            trees.put(stack.enter_context(open_tree()))
        pool = stack.enter_context(ThreadPoolExecutor(jobs))
        return list(pool.map(try_one, mutants))


def _report(trials: Sequence[tuple[Mutant, Trial]]) -> int:
    alive = [(mutant, trial) for mutant, trial in trials if trial.verdict != "killed"]
    for mutant, trial in alive:
        print(f"\n{mutant.id} {trial.verdict}: {mutant.path}, {' '.join(mutant.requirements)}")
        print(f"    - {mutant.old}\n    + {mutant.new}")
        if trial.verdict == "broken":
            print(trial.output[-2000:])
    print(f"\n{len(trials) - len(alive)} of {len(trials)} mutants were killed.")
    return 1 if alive else 0


if __name__ == "__main__":
    sys.exit(main())
