"""The shape of the code that requirements ask for: layers, one owner for each decision, and plain helpers.

import-linter checks every import (`uv run lint-imports`); here is what it can't see.
"""

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

from tests.docs.pages import ROOT, SOURCE

# Who may decide which job an item gets: the one function, and the end of a conversion, which continues the same version.
NEXT_JOB_OWNERS = {"operations/next_job.py", "ingest/convert.py"}
# The lock of a base, as SQL spells it.
BASE_LOCK = "1735551596"


def modules(*folders: str) -> Iterator[tuple[str, ast.Module]]:
    """The modules of these packages, or of all, by their path below src/gristmill."""
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        if not folders or name.split("/")[0] in folders:
            yield name, ast.parse(path.read_text(encoding="utf-8"))


def imports(tree: ast.Module) -> set[str]:
    """The packages of ours that a module imports."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "gristmill":
            parts = (node.module or "").split(".")
            names |= {parts[1]} if len(parts) > 1 else {alias.name for alias in node.names}
    return names


def test_requests_operations_jobs_handlers_and_stores_are_layers() -> None:
    """S1-01: the contract of import-linter has them in this order, and no module imports upwards."""
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contract = config["tool"]["importlinter"]["contracts"][0]
    assert contract["type"] == "layers"
    level = {
        package.strip().removeprefix("gristmill.").strip("()"): number
        for number, layer in enumerate(contract["layers"])
        for package in layer.split("|")
    }
    order = ["server", "operations", "jobs", "db"]
    assert [level[name] for name in order] == sorted(level[name] for name in order)
    for name, tree in modules():
        package = name.split("/")[0].removesuffix(".py")
        upwards = {used for used in imports(tree) if level.get(used, 99) < level.get(package, 99)}
        assert upwards == set() or package not in level, f"{name} imports {upwards}"


def test_scheduling_locking_and_running_have_one_owner_each() -> None:
    """S1-01, S1-07: one function queues the next job of an item, one pair of SQL functions takes a base's lock, and one
    class runs jobs."""
    makers = {
        name
        for name, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("IndexDocument", "PrepareRoot", "kind")
        and name != "work.py"
    }
    assert makers == NEXT_JOB_OWNERS
    sql = [*SOURCE.rglob("*.sql"), *SOURCE.rglob("*.py")]
    lockers = {
        path.relative_to(SOURCE).as_posix()
        for path in sql
        if "migrations" not in path.parts and f"{BASE_LOCK})" in path.read_text(encoding="utf-8")
    }
    assert lockers == {"db/functions/3_bases.sql"}
    callers = {
        name
        for name, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr == "complete_and_claim"
    }
    assert callers == {"jobs/worker.py"}


def test_helpers_of_operations_are_plain_modules() -> None:
    """S1-23: functions and values; a class with methods is an error or immutable."""
    for name, tree in modules("operations"):
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                assert _is_value(node) or _is_error(node) or not _assigns_to_self(node), (
                    f"{name}: {node.name}"
                )


def _is_value(node: ast.ClassDef) -> bool:
    return any("frozen=True" in ast.unparse(decorator) for decorator in node.decorator_list)


def _is_error(node: ast.ClassDef) -> bool:
    return any(ast.unparse(base) in ("Conflict", "Invalid", "NotFound", "Permanent") for base in node.bases)


def _assigns_to_self(node: ast.ClassDef) -> bool:
    """Whether a method other than the constructor changes the object."""
    return any(
        isinstance(target, ast.Attribute) and ast.unparse(target.value) == "self"
        for method in node.body
        if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef) and method.name != "__init__"
        for statement in ast.walk(method)
        if isinstance(statement, ast.Assign)
        for target in statement.targets
    )


def test_the_paths_of_this_file_exist() -> None:
    for name in NEXT_JOB_OWNERS:
        assert (SOURCE / name).is_file(), Path(name)
