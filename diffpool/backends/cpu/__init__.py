"""C kernels for the CPU, float32. They are built at installation where there is a C compiler."""

from importlib.util import find_spec


def available() -> bool:
    """Whether the kernels were built."""
    return find_spec("diffpool.backends.cpu._kernels") is not None
