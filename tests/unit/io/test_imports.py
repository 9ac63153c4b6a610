"""Modules of horovod_opt.io import each other in one direction only."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[3]
PACKAGE = "horovod_opt.io"


def modules() -> dict[str, Path]:
    """By name; a package is its __init__.py."""
    files = sorted((ROOT / "horovod_opt" / "io").rglob("*.py"))
    return {".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): file
            for file in files}


def imports_of(body: list[ast.stmt], inside: bool) -> Iterator[tuple[str, str, bool]]:
    """Module, a name from it or "", and whether it is imported when a function is called. What is
    for type checkers is not imported."""
    for statement in body:
        if isinstance(statement, ast.Import):
            yield from ((alias.name, "", inside) for alias in statement.names)
        elif isinstance(statement, ast.ImportFrom):
            yield from ((statement.module or "", alias.name, inside) for alias in statement.names)
        elif isinstance(statement, ast.If) and "TYPE_CHECKING" in ast.unparse(statement.test):
            yield from imports_of(statement.orelse, inside)
        else:
            is_function = isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef))
            for field in ("body", "orelse", "finalbody"):
                yield from imports_of(getattr(statement, field, []), inside or is_function)
            for handler in getattr(statement, "handlers", []):
                yield from imports_of(handler.body, inside)


def graph(with_functions: bool) -> dict[str, set[str]]:
    """The modules of the package that each imports."""
    files = modules()
    edges: dict[str, set[str]] = {}
    for module, file in files.items():
        edges[module] = set()
        for source, name, inside in imports_of(ast.parse(file.read_text()).body, False):
            target = f"{source}.{name}" if f"{source}.{name}" in files else source
            if target in files and target != module and (with_functions or not inside):
                edges[module].add(target)
    return edges


def circles(edges: dict[str, set[str]]) -> list[list[str]]:
    """Groups of modules that lead to each other (Tarjan's strongly connected components)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    groups = []

    def visit(module: str) -> None:
        index[module] = low[module] = len(index)
        stack.append(module)
        for target in sorted(edges[module]):
            if target not in index:
                visit(target)
                low[module] = min(low[module], low[target])
            elif target in stack:
                low[module] = min(low[module], index[target])
        if low[module] == index[module]:
            group = stack[stack.index(module):]
            del stack[stack.index(module):]
            if len(group) > 1:
                groups.append(sorted(group))

    for module in edges:
        if module not in index:
            visit(module)
    return groups


def test_no_module_imports_itself_in_a_circle():
    assert circles(graph(with_functions=False)) == []


def test_no_circle_is_hidden_in_functions():
    assert circles(graph(with_functions=True)) == []


def test_packages_depend_on_each_other_in_one_direction():
    """Of the folders of horovod_opt/io; what is beside them is above or below all of them."""
    edges: dict[str, set[str]] = {}
    for module, targets in graph(with_functions=True).items():
        folder = folder_of(module)
        edges.setdefault(folder, set()).update(
            folder_of(target) for target in targets if folder_of(target) != folder)
    named = {folder: {target for target in targets if target} for folder, targets in edges.items()
             if folder}
    assert circles(named) == []


def folder_of(module: str) -> str:
    """The folder of horovod_opt/io that it is in, or is; "" beside them."""
    parts = module.removeprefix(PACKAGE).strip(".").split(".")
    return parts[0] if (ROOT / "horovod_opt" / "io" / parts[0]).is_dir() else ""


def test_circles_are_found():
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == [["b", "c"]]
