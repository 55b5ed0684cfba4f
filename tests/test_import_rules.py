"""The import rules of docs/architecture.md, checked against the imports of every file."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import diffpool

PACKAGE = Path(diffpool.__file__).parent

PAGE = PACKAGE.parent / "docs" / "architecture.md"


def _lists() -> list[dict[str, set[str]]]:
    """The two lists of the page: allowed imports between packages, and where third-party packages are imported."""
    page = PAGE.read_text().split("## Import rules")[1].split("\n## ")[0]
    lists = []
    for block in re.findall(r"```text\n(.*?)```", page, re.DOTALL):
        rows = (line.split() for line in block.splitlines())
        lists.append({name: set(words) - {"-"} for name, *words in rows})
    return lists


MAY_IMPORT, HOMES = _lists()


def room(module: str) -> str:
    """The longest name in the list that is a prefix of a dotted name."""
    parts = module.removesuffix(".__init__").split(".")
    if parts[0] == "backends":
        return "backends" if len(parts) == 1 else "backends.*"
    names = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
    return next((name for name in names if name in MAY_IMPORT), parts[0])


def modules() -> dict[str, Path]:
    """Every file of the package, by its dotted name within the package."""
    return {
        ".".join(path.relative_to(PACKAGE).with_suffix("").parts): path
        for path in sorted(PACKAGE.rglob("*.py"))
    }


def imports(path: Path) -> Iterator[str]:
    """The dotted names that a file imports, including imports inside functions."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}: imports are absolute"
            if node.module == "diffpool":  # `from diffpool import equations`
                yield from (f"diffpool.{alias.name}" for alias in node.names)
            else:
                yield node.module


def test_the_page_lists_every_package() -> None:
    assert {room(name) for name in modules()} == MAY_IMPORT.keys()


@pytest.mark.parametrize("module", modules())
def test_a_module_imports_only_what_the_page_allows(module: str) -> None:
    home = room(module)
    names = {
        name.removeprefix("diffpool.") for name in imports(modules()[module]) if "diffpool." in name
    }
    used = {room(name) for name in names}
    assert used - {home} <= MAY_IMPORT[home]


def test_the_import_rules_have_no_cycles() -> None:
    remaining = dict(MAY_IMPORT)
    while remaining:
        bottom = {name for name, below in remaining.items() if not below & remaining.keys()}
        assert bottom, f"a circle among {sorted(remaining)}"
        remaining = {name: below for name, below in remaining.items() if name not in bottom}


@pytest.mark.parametrize("module", modules())
def test_third_party_packages_are_imported_only_where_allowed(module: str) -> None:
    outside = {name.split(".")[0] for name in imports(modules()[module])}
    outside -= {"diffpool", "__future__", *sys.stdlib_module_names}
    for name in sorted(outside):
        assert name in HOMES, f"{name} has no home"
        homes = HOMES[name]
        assert "everywhere" in homes or any(f"{module}.".startswith(f"{home}.") for home in homes)


def loaded_by(code: str) -> set[str]:
    """The packages that a new process has imported after this code."""
    code += "; import sys; print(*{m.split('.')[0] for m in sys.modules})"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(run.stdout.split())


HEAVY = {"torch", "numpy", "safetensors", "scipy", "sklearn", "matplotlib", "typer", "rich"}


def test_importing_the_package_loads_no_other_package() -> None:
    loaded = loaded_by("import diffpool")
    assert "diffpool" in loaded
    assert not loaded & HEAVY


def test_settings_are_declared_without_torch_and_numpy() -> None:
    code = "import diffpool.experiments.methods, diffpool.experiments.grid"
    assert not loaded_by(code) & HEAVY


def test_training_needs_torch_numpy_and_safetensors_only() -> None:
    """Modules that torch itself loads, now or later, do not count."""
    loaded = loaded_by("import diffpool; diffpool.train, diffpool.load_model, diffpool.embedded")
    assert {"torch", "numpy", "safetensors"} <= loaded
    assert not loaded & {"sklearn", "scipy", "matplotlib", "torch_geometric", "typer", "rich"}


LAZY = [
    "diffpool",
    "diffpool.analysis",
    "diffpool.data",
    "diffpool.training",
    "diffpool.experiments",
]


@pytest.mark.parametrize("package", LAZY)
def test_every_public_name_exists_and_is_known_to_type_checkers(package: str) -> None:
    module = importlib.import_module(package)
    assert module.__file__ is not None
    tree = ast.parse(Path(module.__file__).read_text())
    typed = {
        alias.name for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) for alias in n.names
    }
    for name in module.__all__:
        value = getattr(module, name)
        assert not isinstance(value, ModuleType), f"{package}.{name} is also the name of a module"
        assert name in typed or name == "__version__"


def test_a_missing_name_and_a_submodule_behave_as_usual() -> None:
    with pytest.raises(AttributeError, match="module 'diffpool' has no attribute 'nothing'"):
        _ = diffpool.nothing
    with pytest.raises(ImportError):
        exec("from diffpool.training import nothing")
    code = "import diffpool; assert diffpool.data.jsonl.__name__ == 'diffpool.data.jsonl'"
    assert "torch" in loaded_by(code)


@pytest.mark.parametrize("module", modules())
def test_no_module_executes_or_unpickles_data(module: str) -> None:
    path = modules()[module]
    assert not set(imports(path)) & {"pickle", "marshal", "shelve", "joblib", "dill"}
    calls = [n.func for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Call)]
    assert not {ast.unparse(call) for call in calls} & {"eval", "exec", "torch.load"}


# The paper's code is plain PyTorch; of the backends it knows the mark `accelerated` and nothing else.
PAPER = [
    name
    for name in modules()
    if name.split(".")[0]
    in ("equations", "graphs", "edges", "edge_checks", "layout", "segment", "nn")
]
BACKEND_WORDS = r"triton|cuda|\bgpu\b|\btiles?\b|\bstreams?\b|\bkernels?\b|_kernels?\b|native|captur|\baligned\b|openmp"


@pytest.mark.parametrize("module", PAPER)
def test_the_code_of_the_paper_names_no_backend(module: str) -> None:
    path = modules()[module]
    found = re.findall(BACKEND_WORDS, path.read_text(), re.IGNORECASE)
    assert not found
    assert {name for name in imports(path) if "backends" in name} <= {"diffpool.backends"}
    used = re.findall(r"from diffpool\.backends import (.*)", path.read_text())
    assert set(used) <= {"accelerated"}


def test_the_classifier_does_not_ask_for_the_types_of_poolers() -> None:
    text = modules()["nn.classifier"].read_text()
    nodes = list(ast.walk(ast.parse(text)))
    used = {node.id for node in nodes if isinstance(node, ast.Name)}
    used |= {node.name for node in nodes if isinstance(node, ast.alias)}
    assert not {name for name in used if "DiffPool" in name}
    assert not re.search(r"isinstance\(pooler|type\(pooler", text)
