"""Random models: the C kernels agree with the reference, and sanitizers find nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from diffpool.backends import enabled_backends
from tests.backends.cpu.random_models import check

SOURCE = Path(__file__).parents[3] / "diffpool/backends/cpu/kernels.c"
SANITIZERS = "-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer -g -O1"


@pytest.mark.skipif("cpu" not in enabled_backends(), reason="needs the C kernels")
@pytest.mark.parametrize("part", range(4))
def test_random_models_agree_with_the_reference(part: int, soak: bool) -> None:
    count = 250 if soak else 10
    for seed in range(part * count, (part + 1) * count):
        check(seed)


def test_sanitizers_find_nothing(tmp_path: Path, soak: bool) -> None:
    """Address and undefined behavior sanitizers, over models with empty batches among them."""
    compiler = shutil.which("gcc")
    runtime = "" if compiler is None else _output(compiler, "-print-file-name=libasan.so")
    if compiler is None or not Path(runtime).is_file():
        pytest.skip("needs gcc with AddressSanitizer")
    module = tmp_path / "_kernels.abi3.so"
    include = f"-I{sysconfig.get_paths()['include']}"
    flags = [*SANITIZERS.split(), "-DFAST=", "-fopenmp-simd", "-shared", "-fPIC", include]
    subprocess.run(
        [compiler, *flags, str(SOURCE), "-o", str(module), "-lm", "-lpthread"], check=True
    )
    count = 5000 if soak else 20
    command = [sys.executable, "-m", "tests.backends.cpu.random_models", str(module), str(count)]
    settings = {"LD_PRELOAD": runtime, "ASAN_OPTIONS": "detect_leaks=0", "OMP_NUM_THREADS": "1"}
    run = subprocess.run(
        command,
        cwd=SOURCE.parents[3],
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    assert run.stdout == f"{count} random models\n"


def _output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
