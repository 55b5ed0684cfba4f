"""The operations of the C kernels: importing these modules registers them.

The kernels replace about a thousand PyTorch operations of a few microseconds each in a training step on small graphs.
`python -m benchmarks.cpu_step` measures the speedup.
"""

from diffpool.backends.cpu import adam, batch, encoder, pooling

__all__ = ["adam", "batch", "encoder", "pooling"]
