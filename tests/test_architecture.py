"""Who may import whom. The dicts here are the architecture document: the test reads every file's imports."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import diffpool

PACKAGE = Path(diffpool.__file__).parent

# What each top-level module or package of diffpool imports from diffpool, at most.
MAY_IMPORT: dict[str, set[str]] = {
    # 0: the paper
    "errors": set(),
    "version": set(),
    "native": set(),
    "layout": set(),
    "cuda": {"layout"},
    "segment": {"cuda", "layout", "native"},
    "graphs": {"cuda", "errors", "layout", "native", "segment"},
    "equations": {"graphs", "layout", "segment"},
    # 1: models and data do not know each other
    "nn": {"cuda", "equations", "errors", "graphs", "layout", "native", "segment"},
    "data": {"errors", "graphs", "native"},
    # 2
    "kernels": {"data", "errors", "graphs"},
    "preparation": {"data", "errors", "graphs", "nn"},
    "training": {
        *("cuda", "data", "errors", "graphs", "layout", "native", "nn", "preparation", "segment"),
    },
    # 3
    "experiments": {"data", "errors", "kernels", "nn", "preparation", "training", "version"},
    # 4
    "viz": {"data", "graphs", "nn"},
    # 5
    "console": {"data", "experiments", "training"},
    "evaluate_display": {"console", "experiments"},
    "cli": {
        *("console", "data", "errors", "evaluate_display", "experiments", "training"),
        *("version", "viz"),
    },
    "__main__": {"cli"},
    "estimator": {"data", "errors", "experiments", "training"},
    # the public names
    "__init__": {"data", "errors", "estimator", "graphs", "nn", "training", "version"},
}

# Where a package from elsewhere may be imported; "" is everywhere.
HOMES: dict[str, tuple[str, ...]] = {
    "torch": ("",),
    "numpy": ("",),
    "scipy": ("data", "graphs", "kernels", "preparation"),
    "safetensors": ("data.cache", "experiments.checkpoint", "preparation.cache", "training"),
    "sklearn": ("data.splits", "kernels", "estimator"),
    "matplotlib": ("viz",),
    "networkx": ("data.own", "viz"),
    "igraph": ("preparation",),
    "rdkit": ("data.molecules",),
    "torch_geometric": ("data.own",),
    "triton": ("cuda",),
    "typer": ("cli",),
    "rich": ("console", "evaluate_display"),
}


def modules() -> dict[str, Path]:
    """Every file of the package by its dotted name inside the package."""
    return {
        ".".join(path.relative_to(PACKAGE).with_suffix("").parts): path
        for path in sorted(PACKAGE.rglob("*.py"))
    }


def imports(path: Path) -> Iterator[str]:
    """The dotted names that a file imports, also inside functions."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}: imports are absolute"
            if node.module == "diffpool":  # `from diffpool import equations`
                yield from (f"diffpool.{alias.name}" for alias in node.names)
            else:
                yield node.module


def test_the_document_names_every_module() -> None:
    assert {name.split(".")[0] for name in modules()} == MAY_IMPORT.keys()


@pytest.mark.parametrize("module", modules())
def test_a_module_imports_only_what_the_document_allows(module: str) -> None:
    home = module.split(".")[0]
    used = {
        name.split(".")[1] for name in imports(modules()[module]) if name.startswith("diffpool.")
    }
    used -= {home, "_native"} if home == "native" else {home}
    assert used <= MAY_IMPORT[home]


def test_the_document_has_no_circles() -> None:
    remaining = dict(MAY_IMPORT)
    while remaining:
        bottom = {name for name, below in remaining.items() if not below & remaining.keys()}
        assert bottom, f"a circle among {sorted(remaining)}"
        remaining = {name: below for name, below in remaining.items() if name not in bottom}


@pytest.mark.parametrize("module", modules())
def test_packages_from_elsewhere_are_imported_at_home_only(module: str) -> None:
    outside = {name.split(".")[0] for name in imports(modules()[module])}
    outside -= {"diffpool", "__future__", *sys.stdlib_module_names}
    for name in sorted(outside):
        assert name in HOMES, f"{name} has no home"
        homes = HOMES[name]
        assert any(f"{module}.".startswith(f"{home}." if home else "") for home in homes), name


def test_importing_the_package_loads_torch_numpy_and_safetensors_only() -> None:
    """In a fresh process; what torch loads itself, now or later, does not count."""
    code = "import sys, torch, numpy; before = set(sys.modules); import diffpool; "
    code += "print(*sorted({m.split('.')[0] for m in set(sys.modules) - before}))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(run.stdout.split())
    assert "diffpool" in loaded
    assert not loaded & {"sklearn", "scipy", "matplotlib", "torch_geometric", "typer", "rich"}


@pytest.mark.parametrize("module", modules())
def test_a_module_neither_runs_nor_unpickles_what_it_reads(module: str) -> None:
    path = modules()[module]
    assert not set(imports(path)) & {"pickle", "marshal", "shelve", "joblib", "dill"}
    calls = [n.func for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Call)]
    assert not {ast.unparse(call) for call in calls} & {"eval", "exec", "torch.load"}
