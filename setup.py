"""Builds the optional C kernels. All other settings are in pyproject.toml."""

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            "diffpool.backends.cpu._kernels",
            ["diffpool/backends/cpu/kernels.c"],
            depends=[
                f"diffpool/backends/cpu/{name}.h"
                for name in (
                    "threads",
                    "gemm",
                    "tile",
                    "layers",
                    "pooling",
                    "adam",
                    "batch",
                    "arguments",
                )
            ],
            extra_compile_args=["-O3", "-fopenmp-simd", "-fno-math-errno", "-fno-trapping-math"],
            libraries=["m", "pthread"],
            py_limited_api=True,
            optional=True,  # without a C compiler, PyTorch does the work
        )
    ]
)
