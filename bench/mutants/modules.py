"""Change the pure modules expression by expression, and see whether their own tests notice.

    retry, access, fusion, pacing, lexer, chunking      decisions without a database
    transitions                                         the functions over SQL; their tests need the database

mutmut and cosmic-ray start Python for every change. Here that costs five seconds, for tests that take a tenth of one. So each
module's tests are imported and collected once, by pytest; every change is then made in a forked copy of that process, in the
code objects of the module, and the copy's exit code says whether a test failed. The fastest tests run first. 85 % must be
noticed, and every change that isn't is listed in `survivors.txt`, with the reason; those that are equivalent, so that no test
could, don't count in the second of the two shares that are printed.
"""

import importlib
import inspect
import json
import os
import re
import resource
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import pytest

from bench.mutants.mutant import ROOT
from bench.mutants.operators import CodeMutation, mutations

SURVIVORS = Path(__file__).parent / "survivors.txt"
MIN_SHARE = 0.85
# A change that makes a loop endless is noticed by this: CPU time as a multiple of what the tests need without a change, so
# that it doesn't depend on how busy the machine is; and seconds for tests that wait in vain.
_CPU_FACTOR, _MIN_CPU_LIMIT, _MAX_SECONDS = 5, 20, 900
_BROKEN = 3  # exit code of a copy in which the changed module can't be imported: that is no mutant
_VERDICTS = {0: "unnoticed", _BROKEN: "broken", -signal.SIGXCPU: "endless", -signal.SIGALRM: "endless"}
_PLUGINS = ("pytest_asyncio.plugin", "xdist.plugin", "bench.mutants.no_shrinking")
_VALUES = (int, float, str, bytes, tuple, frozenset, dict, list, timedelta, re.Pattern)


@dataclass(frozen=True)
class PureModule:
    """A module, the tests of its own, whether they need the database, and which of them are not run."""

    name: str
    tests: tuple[str, ...]
    needs_database: bool = False
    left_out: str = ""  # tests that take longest, as words for pytest's -k: without them it is only harder to notice a change


MODULES = {
    "retry": PureModule("gristmill.jobs.retry", ("tests/jobs/test_retry.py",)),
    "access": PureModule("gristmill.catalog.access", ("tests/catalog/test_access.py",)),
    "fusion": PureModule("gristmill.search.fuse", ("tests/search/test_fuse.py",)),
    "pacing": PureModule("gristmill.embedding.pacing", ("tests/embedding/test_pacing.py",)),
    "lexer": PureModule("gristmill.search.lexer", ("tests/search/test_lexer.py",)),
    "chunking": PureModule(
        "gristmill.ingest.chunk",
        (
            "tests/ingest/test_chunk.py",
            "tests/ingest/test_chunk_limits.py",
            "tests/ingest/test_chunk_structure.py",
        ),
        left_out="linear or blank_lines_cost or memory or nothing_is_lost or depend_on_the_parts",
    ),
    "transitions": PureModule(
        "gristmill.catalog.transitions",
        (
            "tests/operations/test_transitions.py",
            "tests/operations/test_container_status.py",
            "tests/operations/test_stages.py",
            "tests/operations/test_restart.py",
            "tests/ingest/test_attachments.py",
        ),
        needs_database=True,
    ),
}


def main(names: list[str]) -> int:
    """Change these modules, or all; the exit code is 1 if too much goes unnoticed."""
    failed = False
    for name in names or MODULES:
        # A process of its own for each module, so that none sees what another's tests imported.
        process_id = os.fork()
        if process_id == 0:
            code = 2
            try:
                code = _try_module(name, MODULES[name])
            finally:
                sys.stdout.flush()
                os._exit(code)
        _, status = os.waitpid(process_id, 0)
        failed = failed or os.waitstatus_to_exitcode(status) != 0
    return int(failed)


def _try_module(name: str, module: PureModule) -> int:
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    trials = _Trials(name, importlib.import_module(module.name))
    plugins = [argument for plugin in _PLUGINS for argument in ("-p", plugin)]
    options = [
        "-n",
        "0",
        "-q",
        "-x",
        "--tb=no",
        *plugins,
        *(() if module.needs_database else ("--noconftest",)),
        *(("-k", f"not ({module.left_out})") if module.left_out else ()),
    ]
    pytest.main([*options, *(str(ROOT / path) for path in module.tests)], plugins=[trials])
    return trials.report()


class _Trials:
    """A plugin of pytest: instead of running the collected tests once, it runs them in a fork for every change."""

    def __init__(self, name: str, module: ModuleType) -> None:
        self._name, self._module = name, module
        self._verdicts: Counter[str] = Counter()
        self._survivors: list[CodeMutation] = []

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Try every change, after a run without any."""
        baseline = _measure(session)
        if session.testsfailed or baseline is None:
            print(f"{self._name}: its tests fail without any change.")
            return True
        session.items.sort(key=lambda item: baseline.seconds[item.nodeid])
        cpu_limit = round(max(_MIN_CPU_LIMIT, _CPU_FACTOR * baseline.cpu))
        for mutation in mutations(inspect.getsource(self._module)):

            def change(mutation: CodeMutation = mutation) -> None:
                _apply(self._module, mutation)

            verdict = _VERDICTS.get(_run_in_fork(session, change, cpu_limit), "noticed")
            self._verdicts[verdict] += 1
            if verdict == "unnoticed":
                self._survivors.append(mutation)
            if verdict != "noticed":
                print(f"{verdict}: {self._name} line {mutation.line}: {mutation.key}", flush=True)
        return True

    def report(self) -> int:
        """Print the share that was noticed; 0 if it is enough and the rest has its reasons."""
        reasons = explained()
        keys = [f"{self._name} {mutation.key}" for mutation in self._survivors]
        equivalent = sum(reasons.get(key, "").startswith("equivalent") for key in keys)
        noticed = self._verdicts["noticed"] + self._verdicts["endless"]
        total = noticed + self._verdicts["unnoticed"]
        share = noticed / (total - equivalent) if total else 0.0
        print(
            f"{self._name}: {noticed} of {total} changes were noticed ({noticed / max(1, total):.0%}); "
            f"without {equivalent} that are equivalent: {share:.0%}. "
            f"{self._verdicts['endless']} of them made a loop endless."
        )
        unexplained = [key for key in keys if key not in reasons]
        for key in unexplained:
            print(f"  without a reason in {SURVIVORS.name}: {key}")
        return int(share < MIN_SHARE or bool(unexplained))


def explained() -> dict[str, str]:
    """The changes that tests don't notice, with the reasons."""
    lines = [line for line in SURVIVORS.read_text(encoding="utf-8").splitlines() if line[:1] not in ("", "#")]
    return {key.strip(): reason.strip() for key, _, reason in (line.partition("  # ") for line in lines)}


@dataclass(frozen=True)
class _Baseline:
    """What the tests need without any change: seconds by test, and CPU seconds in all."""

    seconds: Mapping[str, float]
    cpu: float


def _measure(session: pytest.Session) -> _Baseline | None:
    """Run the tests once in a copy of this process; None if one fails."""
    receiver, sender = os.pipe()
    process_id = os.fork()
    if process_id == 0:
        seconds: dict[str, float] = {}
        code = _run_tests(session, seconds)
        with os.fdopen(sender, "w") as pipe:
            json.dump(seconds, pipe)
        os._exit(code)
    os.close(sender)
    with os.fdopen(receiver) as pipe:
        seconds = json.load(pipe)
    _, status, usage = os.wait4(process_id, 0)
    return None if status else _Baseline(seconds, usage.ru_utime + usage.ru_stime)


def _run_in_fork(session: pytest.Session, change: Callable[[], None], cpu_limit: int) -> int:
    """Run the tests in a copy of this process until one fails; 0 if none does."""
    process_id = os.fork()
    if process_id == 0:
        signal.alarm(_MAX_SECONDS)
        resource.setrlimit(resource.RLIMIT_CPU, (cpu_limit, cpu_limit + 5))
        try:
            change()
        except BaseException:
            os._exit(_BROKEN)
        os._exit(_run_tests(session, {}))
    _, status = os.waitpid(process_id, 0)
    return os.waitstatus_to_exitcode(status)


def _run_tests(session: pytest.Session, seconds: dict[str, float]) -> int:
    """Run the tests until one fails, in silence; note how long each took."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    try:
        for item, following in zip(session.items, [*session.items[1:], None], strict=True):
            started = time.perf_counter()
            session.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            seconds[item.nodeid] = time.perf_counter() - started
            if session.testsfailed:
                return 1
    except BaseException:
        return 1
    return 0


def _apply(module: ModuleType, mutation: CodeMutation) -> None:
    """Give the functions of a module the code of the changed one, and its constants the changed values: whoever imported them
    has the change too."""
    changed = ModuleType(module.__name__)
    changed.__dict__.update({name: value for name, value in vars(module).items() if name.startswith("__")})
    sys.modules[module.__name__] = changed  # where its dataclasses look for their module
    exec(compile(mutation.tree, module.__file__ or "", "exec"), changed.__dict__)
    sys.modules[module.__name__] = module
    _transplant(vars(module), vars(changed), lambda name, value: setattr(module, name, value))


def _transplant(old: Any, new: Any, assign: Callable[[str, Any], None]) -> None:
    for name, value in list(old.items()):
        other = new.get(name)
        functions = zip(_functions(value), _functions(other), strict=False)
        for function, replacement in functions:
            function.__code__ = replacement.__code__
            function.__defaults__ = replacement.__defaults__
            function.__kwdefaults__ = replacement.__kwdefaults__
        if hasattr(value, "cache_clear"):
            value.cache_clear()
        if inspect.isclass(value) and inspect.isclass(other) and value.__module__ == other.__module__:
            owner = value
            _transplant(
                vars(value), vars(other), lambda name, value, owner=owner: setattr(owner, name, value)
            )
        elif isinstance(value, _VALUES) and value != other and not name.startswith("__"):
            assign(name, other)


def _functions(value: object) -> Iterator[FunctionType]:
    """The function in a value: as it is, or in a property, a class method or a cache."""
    for candidate in (value, getattr(value, "fget", None), getattr(value, "__func__", None)):
        function = (
            inspect.unwrap(candidate) if callable(candidate) and not inspect.isclass(candidate) else None
        )
        if isinstance(function, FunctionType):
            yield function
