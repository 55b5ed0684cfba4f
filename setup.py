"""Builds the optional C kernels. All other settings are in pyproject.toml."""

import sysconfig
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

FOLDER = Path("diffpool/backends/cpu")
MISSING = """
The C kernels were not built; the reason is printed above. diffpool works without them: PyTorch computes the same
results, but training on small graphs takes longer on a CPU. To get the kernels, install GCC or Clang, then diffpool
again.
"""


class BuildKernels(build_ext):
    """Says so if the kernels could not be built; the installation continues without them."""

    def run(self):
        super().run()
        if not all(Path(file).exists() for file in self.get_outputs()):
            print(MISSING)


kernels = Extension(
    "diffpool.backends.cpu._kernels",
    [f"{FOLDER}/kernels.c"],
    depends=sorted(str(header) for header in FOLDER.glob("*.h")),
    # for any processor of the platform: kernels.c chooses the instructions when it runs
    extra_compile_args=["-O3", "-g0", "-fopenmp-simd", "-fno-math-errno", "-fno-trapping-math"],
    libraries=["m", "pthread"],
    py_limited_api=True,
    optional=True,  # without a C compiler, PyTorch does the work
)
# Py_LIMITED_API in kernels.c is this version: one wheel serves it and all later ones.
abi = {} if sysconfig.get_config_var("Py_GIL_DISABLED") else {"py_limited_api": "cp311"}

setup(
    ext_modules=[kernels],
    cmdclass={"build_ext": BuildKernels},
    options={"bdist_wheel": abi},
)
