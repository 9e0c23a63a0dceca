"""The layers of the code, as docs/architecture.md lists them: imports only point down."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

LAYERS = (
    ("errors",),
    ("files",),
    ("plugins",),
    ("groups",),
    ("runs",),
    ("config",),
    ("glossary",),
    ("tasks",),
    ("models",),
    ("interventions", "training"),
    ("lenses",),
    ("zoo",),
    ("mechanisms",),
    ("analysis", "inspection"),
    ("studies",),
    ("reports",),
    ("api",),
    ("explorer",),
    ("cli",),
)
HEIGHT = {name: height for height, layer in enumerate(LAYERS) for name in layer}


def _imports(file: Path, module: str) -> Iterator[tuple[str, bool]]:
    """(imported module, whether it is imported when the file is) for every import of statetrace;
    imports for type checkers only are left out."""
    tree = ast.parse(file.read_text())
    typing_only = {
        id(node)
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and "TYPE_CHECKING" in ast.dump(block.test)
        for node in ast.walk(block)
    }
    eager = {id(node) for node in _top_level(tree)}
    for node in ast.walk(tree):
        if id(node) in typing_only:
            continue
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for name in node.names:
                inner = f"{node.module}.{name.name}"
                yield inner if inner in MODULES else node.module, id(node) in eager
        elif isinstance(node, ast.Import):
            for name in node.names:
                yield name.name, id(node) in eager


def _top_level(tree: ast.Module) -> Iterator[ast.stmt]:
    todo: list[ast.stmt] = list(tree.body)
    while todo:
        node = todo.pop()
        yield node
        if isinstance(node, ast.If | ast.Try | ast.With):
            todo += [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt)]


def _module(file: Path) -> str:
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {_module(file): file for file in sorted((ROOT / "statetrace").rglob("*.py"))}
MODULES = set(FILES)
GRAPH = {
    module: {
        (target, eager)
        for target, eager in _imports(file, module)
        if target.startswith("statetrace.") and target != module
    }
    for module, file in FILES.items()
}


def test_every_package_has_a_layer():
    there = {module.split(".")[1] for module in MODULES if "." in module} - {"__main__"}
    assert there == set(HEIGHT)


@pytest.mark.parametrize("module", sorted(MODULES - {"statetrace", "statetrace.__main__"}))
def test_imports_never_point_up(module):
    own = module.split(".")[1]
    for target, _ in GRAPH[module]:
        other = target.split(".")[1]
        assert other == own or HEIGHT[other] < HEIGHT[own], f"{module} imports {target}"


def test_eager_imports_have_no_cycle():
    done: set[str] = set()

    def visit(module: str, path: tuple[str, ...]) -> None:
        assert module not in path, " -> ".join([*path, module])
        if module in done:
            return
        for target, eager in GRAPH.get(module, ()):
            if eager:
                visit(target, (*path, module))
        done.add(module)

    for module in sorted(MODULES):
        visit(module, ())


def test_the_package_does_not_import_what_stays_outside_the_wheel():
    for file in FILES.values():
        for node in ast.walk(ast.parse(file.read_text())):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [each.name for each in node.names] if isinstance(node, ast.Import) else []
            outside = {name.split(".")[0] for name in names} & {"reproduction", "calibration"}
            assert not outside, file
