"""Pages of the site that are not files of this folder, and links to them.

- Pages elsewhere in the repository (CONTRIBUTING.md, benchmarks/README.md, …) keep their path in the site.
- A source file that a page links to becomes a page with its code.
- The reference has one page for each public package, with the names in its `__all__`.

Links are written for the repository, so that they work there too; here they are changed to the paths of the site.
"""

import ast
import re
from pathlib import Path
from posixpath import dirname, normpath, relpath

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent
ELSEWHERE = (
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "benchmarks/README.md",
    "examples/data/README.md",
    "results/README.md",
)
REFERENCE = {
    name: [name]
    for name in (
        "diffpool",
        "diffpool.nn",
        "diffpool.pooling",
        "diffpool.data",
        "diffpool.analysis",
        "diffpool.attribution",
        "diffpool.viz",
        "diffpool.experiments",
    )
} | {
    "diffpool.baselines": [
        f"diffpool.baselines.{name}"
        for name in (
            "ecc",
            "fixed_clusters",
            "graclus",
            "graph_kernels",
            "patchy_san",
            "prepare",
            "set2set",
            "sort_pool",
            "structure2vec",
        )
    ]
}
LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)(#[^)\s]*)?\)")
WITHOUT_SEARCH = "---\nsearch:\n  exclude: true\n---\n"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not files of docs/."""
    for path in ELSEWHERE:
        files.append(File.generated(config, path, content=(ROOT / path).read_text()))
    for path in sorted(linked_sources(files)):
        code = f"{WITHOUT_SEARCH}# {path}\n\n````python\n{(ROOT / path).read_text()}````\n"
        files.append(File.generated(config, site_path(path), content=code))
    for package, modules in REFERENCE.items():
        text = reference(package, modules)
        files.append(File.generated(config, f"reference/{package}.md", content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Change links between files of the repository to links between pages of the site."""
    here = page.file.src_uri

    def changed(link: re.Match[str]) -> str:
        target = relpath(site_path(repository_path(here, link[1])), dirname(here) or ".")
        return f"]({target}{link[2] or ''})"

    return LINK.sub(changed, markdown)


def repository_path(page: str, link: str) -> str:
    """Where a link of a page points to, from the root of the repository."""
    folder = dirname(page if page in ELSEWHERE else f"docs/{page}")
    return normpath(f"{folder or '.'}/{link}")


def site_path(path: str) -> str:
    """The path in the site of a file of the repository."""
    if path == "README.md":
        return "index.md"
    if path.endswith(".py"):
        return f"source/{path}.md"
    return path.removeprefix("docs/")


def linked_sources(files: Files) -> set[str]:
    """The Python files that pages link to."""
    found = set()
    for file in files.documentation_pages():
        for link in LINK.finditer(file.content_string):
            path = repository_path(file.src_uri, link[1])
            if path.endswith(".py") and (ROOT / path).is_file():
                found.add(path)
    return found


def reference(package: str, modules: list[str]) -> str:
    """A page with every public name of some modules."""
    parts = [f"# {package}"]
    for module in modules:
        code = source(module)
        level = 2
        if len(modules) > 1:
            parts.append(f"## {module}")
            level = 3
        parts.append(ast.get_docstring(code) or "")
        for name in public_names(code):
            parts.append(f"::: {module}.{name}\n    options:\n      heading_level: {level}")
    return "\n\n".join(part for part in parts if part) + "\n"


def source(module: str) -> ast.Module:
    path = ROOT / module.replace(".", "/")
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.parse(file.read_text())


def public_names(code: ast.Module) -> list[str]:
    """The names in `__all__`, or the public classes and functions."""
    for statement in code.body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "__all__":
            names = ast.literal_eval(statement.value)
            return [name for name in names if not name.startswith("_")]
    defined = (s for s in code.body if isinstance(s, ast.ClassDef | ast.FunctionDef))
    return [s.name for s in defined if not s.name.startswith("_")]
