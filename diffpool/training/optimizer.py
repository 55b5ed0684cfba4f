"""Adam with gradient clipping for M models side by side: all their parameters form one matrix [M, P].

A step takes a few operations, regardless of the number of parameters and models. Each model has its own learning rate,
weight decay, clipping threshold and step count; a model without graphs in a step does not change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from diffpool.backends import accelerated
from diffpool.training.settings import Training

BETAS, EPS = (0.9, 0.999), 1e-8


class Optimizer:
    """Adam on the parameters of a model, which become views of one matrix; frozen parameters are ignored.

    Move the model to its device first; it must stay there. Weight decay applies to weight matrices: the parameters with
    at least two axes after the leading axis of the models.
    """

    def __init__(self, model: nn.Module, configs: Training | Sequence[Training]):
        configs = [configs] if isinstance(configs, Training) else list(configs)
        self.views = [p for p in model.parameters() if p.requires_grad]
        rows = [p.detach().reshape(len(configs), -1) for p in self.views]
        # Zeros after each parameter align the next one to a multiple of 16, which makes it faster to read.
        self.gaps = [row.new_zeros(len(configs), -row.shape[1] % 16) for row in rows]
        self.parameters = joined(rows, self.gaps)
        start = 0
        for p, row, gap in zip(self.views, rows, self.gaps, strict=True):
            p.data = self.parameters[:, start : start + row.shape[1]].view(p.shape)
            start += row.shape[1] + gap.shape[1]
        self.gradient = torch.zeros_like(self.parameters)  # a buffer
        self.mean, self.square = torch.zeros_like(self.gradient), torch.zeros_like(self.gradient)

        def column(name: str) -> Tensor:
            values = [getattr(config, name) for config in configs]
            return self.parameters.new_tensor(values)[:, None]  # [M, 1]

        self.rate, self.clip = column("learning_rate"), column("clip")
        self.decay: Tensor | None = None
        if any(c.weight_decay for c in configs):
            matrices = [
                torch.full_like(r, p.dim() > 2) for p, r in zip(self.views, rows, strict=True)
            ]
            self.decay = column("weight_decay") * joined(matrices, self.gaps)  # [M, P]
        self.steps = torch.zeros_like(self.rate, dtype=torch.float32)

    @torch.no_grad()
    def step(self, loss: Tensor, present: Tensor | None = None) -> None:
        """Take one step on the loss, with gradient clipping; `present` [M] selects the models to update (None: all)."""
        grads = torch.autograd.grad(loss, self.views, allow_unused=True, materialize_grads=True)
        if present is None:
            present = torch.ones_like(self.steps[:, 0], dtype=torch.bool)
        self.steps += present[:, None]
        moments = (self.mean, self.square, self.decay)
        state = (self.clip, self.rate, self.steps, present)
        adam_step(self.parameters, grads, self.gaps, self.gradient, *moments, *state, BETAS, EPS)

    @torch.no_grad()
    def shared_step(self, losses: Tensor, counts: Tensor, add: Callable[[Tensor], None]) -> None:
        """Take one step on the mean loss over the graphs of all processes, with the gradients summed by `add`.

        `losses` and `counts` [M] are the sums of losses and the numbers of graphs of this process.
        """
        ones = torch.ones_like(losses)
        grads = torch.autograd.grad(
            losses, self.views, ones, allow_unused=True, materialize_grads=True
        )
        joined(grads, self.gaps, self.gradient)
        sums = torch.cat([self.gradient, counts[:, None].to(self.gradient)], 1)  # [M, P + 1]
        add(sums)
        gradient, count = sums[:, :-1], sums[:, -1:]
        torch.div(gradient, count.clamp(min=1), out=self.gradient)
        present = count[:, 0] > 0
        self.steps += present[:, None]
        norm = torch.linalg.vector_norm(self.gradient, dim=1, keepdim=True)
        moments = (self.mean, self.square, self.decay)
        state = (norm, self.clip, self.rate, self.steps, present)
        adam_update(self.parameters, self.gradient, *moments, *state, BETAS, EPS)

    def state(self) -> dict[str, Tensor]:
        """Everything besides the parameters that is needed to continue later; every tensor has one row per model."""
        return {"mean": self.mean, "square": self.square, "steps": self.steps}

    def load_state(self, state: dict[str, Tensor]) -> None:
        for name, tensor in self.state().items():
            tensor.copy_(state[name])


def joined(rows: Sequence[Tensor], gaps: Sequence[Tensor], out: Tensor | None = None) -> Tensor:
    """Concatenate one tensor [M, …] per parameter, with the gaps between them: [M, P]."""
    models = gaps[0].shape[0]
    pairs = zip(rows, gaps, strict=True)
    both = [t for row, gap in pairs for t in (row.reshape(models, -1), gap) if t.shape[1] > 0]
    return torch.cat(both, 1, out=out)


@accelerated
def adam_step(
    parameters: Tensor,
    grads: Sequence[Tensor],
    gaps: Sequence[Tensor],
    gradient: Tensor,
    mean: Tensor,
    square: Tensor,
    decay: Tensor | None,
    clip: Tensor,
    rate: Tensor,
    steps: Tensor,
    present: Tensor,
    betas: tuple[float, float],
    eps: float,
) -> None:
    """Update as `adam_update` does, given the gradient of each parameter: [M, …]; `gradient` [M, P] is a buffer."""
    joined(grads, gaps, gradient)
    norm = torch.linalg.vector_norm(gradient, dim=1, keepdim=True)
    moments = (mean, square, decay)
    adam_update(parameters, gradient, *moments, norm, clip, rate, steps, present, betas, eps)


@accelerated
def adam_update(
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
    """Update parameters, mean and square [M, P] in place for the models that are `present` [M]; changes the gradient.

    The gradient is clipped to `clip` [M, 1] by its `norm` [M, 1]; `steps` [M, 1] includes this step.
    """
    gradient.mul_((clip / (norm + 1e-6)).clamp(max=1.0))
    if decay is not None:
        gradient.addcmul_(parameters, decay)
    first, second = betas
    active = present[:, None].to(gradient.dtype)  # 0 leaves a model unchanged
    mean.addcmul_(gradient - mean, (1 - first) * active)
    square.addcmul_(gradient.square() - square, (1 - second) * active)
    count = steps.double().clamp(min=1)
    step_size = (rate * active / (1 - first**count)).to(gradient.dtype)
    spread = ((1 - second**count).sqrt()).to(gradient.dtype)
    parameters.addcdiv_(mean * -step_size, (square.sqrt() / spread).add_(eps))
