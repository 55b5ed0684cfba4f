"""C kernels for the CPU (float32), built during installation if a C compiler is available."""

from importlib.util import find_spec


def available() -> bool:
    """Whether the kernels were built."""
    return find_spec("diffpool.backends.cpu._kernels") is not None
