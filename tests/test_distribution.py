"""The source distribution and the wheel: what they contain, and that they work without a compiler."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

from diffpool.version import VERSION

ROOT = Path(__file__).parent.parent
BUILD = "import sys; from setuptools import build_meta; build_meta.build_{}(sys.argv[1])"


def build(kind: str, source: Path, out: Path) -> tuple[Path, str]:
    """Build an "sdist" or a "wheel" as `pip` does, without a working compiler; the file, and what was printed."""
    out.mkdir()
    environment = {**os.environ, "CC": "false"}
    command = [sys.executable, "-c", BUILD.format(kind), str(out)]
    ran = subprocess.run(
        command, cwd=source, env=environment, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    (file,) = out.iterdir()
    return file, ran.stdout


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked source distribution, built from a copy of the source tree."""
    folder = tmp_path_factory.mktemp("sdist")
    left_out = [line.strip("/") for line in (ROOT / ".gitignore").read_text().split()]
    shutil.copytree(ROOT, folder / "tree", ignore=shutil.ignore_patterns(*left_out, ".git"))
    file, _ = build("sdist", folder / "tree", folder / "out")
    assert file.name == f"diffpool-{VERSION}.tar.gz"
    with tarfile.open(file) as archive:
        archive.extractall(folder, filter="data")
    return folder / f"diffpool-{VERSION}"


@pytest.fixture(scope="module")
def wheel(sdist: Path) -> tuple[Path, str]:
    """The unpacked wheel that is built from the source distribution without a compiler, and what its build printed."""
    file, output = build("wheel", sdist, sdist.parent / "wheel")
    assert file.name.startswith(f"diffpool-{VERSION}-cp311-abi3-")
    with zipfile.ZipFile(file) as archive:
        archive.extractall(sdist.parent / "installed")
    return sdist.parent / "installed", output


def files(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_the_source_distribution_contains_the_source_tree(sdist: Path) -> None:
    """Code, sources of the kernels, tests, documentation and records."""
    found = files(sdist)
    for folder, pattern in {
        "diffpool": "*.py",
        "diffpool/backends/cpu": "*.[ch]",
        "tests": "*.py",
        "docs": "*.md",
        "examples": "*.py",
        "benchmarks": "*.json*",
        "results": "*.jsonl",
    }.items():
        wanted = {path.relative_to(ROOT).as_posix() for path in (ROOT / folder).rglob(pattern)}
        assert wanted
        assert wanted <= found
    assert {"LICENSE", "CHANGELOG.md", "CITATION.cff", "Makefile", "constraints.txt"} <= found
    assert not [name for name in found if name.endswith((".so", ".pyc"))]


def test_the_wheel_contains_the_package_and_nothing_else(wheel: tuple[Path, str]) -> None:
    folder, _ = wheel
    code = {f"diffpool/{p.relative_to(ROOT / 'diffpool')}" for p in ROOT.glob("diffpool/**/*.py")}
    found = files(folder)
    names = ("page.js", "page.css", "live.js", "results.js", "results.css")
    page = {f"diffpool/explorer/assets/{name}" for name in names}
    assert {name for name in found if ".dist-info/" not in name} == {
        *code,
        *page,
        "diffpool/py.typed",
    }
    assert f"diffpool-{VERSION}.dist-info/licenses/LICENSE" in found


def test_the_metadata_names_version_license_and_python(wheel: tuple[Path, str]) -> None:
    folder, _ = wheel
    text = (folder / f"diffpool-{VERSION}.dist-info" / "METADATA").read_text()
    metadata = Parser().parsestr(text)
    assert metadata["Version"] == VERSION
    assert metadata["License-Expression"] == "MIT"
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert "# diffpool" in metadata.get_payload()


def test_a_build_without_a_compiler_says_what_is_missing(wheel: tuple[Path, str]) -> None:
    _, output = wheel
    assert "The C kernels were not built" in output
    assert "install GCC or Clang" in output


def test_the_package_works_without_the_kernels(wheel: tuple[Path, str], tmp_path: Path) -> None:
    folder, _ = wheel
    ran = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "smoke.py"), "--no-kernels"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert f"diffpool {VERSION} in {folder / 'diffpool'} works" in ran.stdout
