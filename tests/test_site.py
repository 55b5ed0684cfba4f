"""The hooks that make a site of the pages in docs/: links, pages with code, and the reference."""

import importlib
import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def hooks():
    pytest.importorskip("mkdocs")
    spec = importlib.util.spec_from_file_location("hooks", ROOT / "docs" / "hooks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("page", "link", "target"),
    [
        ("data.md", "own-graphs.md", "own-graphs.md"),
        ("data.md", "../results/README.md", "results/README.md"),
        ("index.md", "../README.md", "index.md"),
        ("python.md", "../examples/own_pooler.py", "source/examples/own_pooler.py.md"),
        ("benchmarks/README.md", "../docs/kernels.md", "kernels.md"),
        ("examples/data/README.md", "../../docs/own-graphs.md", "own-graphs.md"),
        ("CHANGELOG.md", "docs/layer.png", "layer.png"),
    ],
)
def test_links_of_the_repository_lead_to_pages_of_the_site(hooks, page, link, target):
    assert hooks.site_path(hooks.repository_path(page, link)) == target


def test_the_reference_has_every_public_name(hooks):
    for package, modules in hooks.REFERENCE.items():
        page = hooks.reference(package, modules)
        for module in modules:
            found = importlib.import_module(module)
            for name in getattr(found, "__all__", []):
                assert name.startswith("__") or f"::: {module}.{name}\n" in page
