"""Adam for M models as one Triton kernel: one pass over the parameters instead of a dozen.

The reference is `training.optimizer.adam_update`.
"""

from __future__ import annotations

import math

import triton
import triton.language as tl
from torch import Tensor


@triton.jit(do_not_specialize=["count"])
def _adam(
    parameters, gradient, mean, square, decay, norm, clip, rate, steps, present, count, eps,
    FIRST: tl.constexpr, SECOND: tl.constexpr, LOG_FIRST: tl.constexpr, LOG_SECOND: tl.constexpr,
    DECAY: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    model = tl.program_id(0).to(tl.int64)
    if tl.load(present + model):
        index = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
        here = index < count
        index = model * count + index
        p = tl.load(parameters + index, mask=here, other=0.0)
        g = tl.load(gradient + index, mask=here, other=0.0)
        factor = tl.load(clip + model) / (tl.load(norm + model) + 1e-6)
        g = g * tl.where(factor > 1, 1.0, factor)  # NaN stays NaN
        if DECAY:
            g += p * tl.load(decay + index, mask=here, other=0.0)
        m = tl.load(mean + index, mask=here, other=0.0)
        v = tl.load(square + index, mask=here, other=0.0)
        m += (1 - FIRST) * (g - m)
        v += (1 - SECOND) * (g * g - v)
        n = tl.load(steps + model).to(tl.float64)
        step = (tl.load(rate + model) / (1 - tl.exp(n * LOG_FIRST))).to(tl.float32)
        spread = tl.sqrt(1 - tl.exp(n * LOG_SECOND)).to(tl.float32)
        tl.store(mean + index, m, mask=here)
        tl.store(square + index, v, mask=here)
        tl.store(parameters + index, p - step * m / (tl.sqrt(v) / spread + eps), mask=here)


def adam(
    parameters: Tensor,
    gradient: Tensor,
    mean: Tensor,
    square: Tensor,
    decay: Tensor | None,
    norm: Tensor,
    clip: Tensor,
    rate: Tensor,
    steps: Tensor,
    present: Tensor,
    betas: tuple[float, float],
    eps: float,
) -> None:
    """Update parameters, mean and square [M, P] in place for the models that are `present` [M].

    The gradient is clipped to `clip` [M, 1] by its `norm` [M, 1]; `steps` [M, 1] includes this step.
    """
    models, count = parameters.shape
    first, second = betas
    block = 1024
    _adam[(models, triton.cdiv(count, block))](
        parameters, gradient, mean, square, parameters if decay is None else decay, norm, clip, rate, steps, present,
        count, eps, FIRST=first, SECOND=second, LOG_FIRST=math.log(first), LOG_SECOND=math.log(second),
        DECAY=decay is not None, BLOCK=block,
    )  # fmt: skip
