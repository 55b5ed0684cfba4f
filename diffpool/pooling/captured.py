"""Steps of your own training loop as CUDA graphs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, overload

import torch
from torch import Tensor

from diffpool.backends.steps import LoaderSteps, can_replay, copied
from diffpool.errors import DataError, shortened
from diffpool.graphs import SparseGraphs

Step = Callable[["StepBatch"], Any]


@dataclass(frozen=True, eq=False)
class StepBatch:
    """The batch that a captured step works on; `SparseGraphs.from_pyg` and the models of this package take it too."""

    graphs: SparseGraphs
    x: Tensor  # [N, F]; N may be larger than the number of nodes
    y: Tensor | None = None  # [B, …]

    @property
    def num_graphs(self) -> int:
        return len(self.graphs)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"a batch of captured_step has graphs, x, y and num_graphs, but no {name!r}: use batch.graphs instead of "
            "edge_index and batch, and make other numbers of nodes and graphs columns of x and y (edge features "
            "cannot be used)"
        )


class CapturedStep:
    """A function of a batch that runs as a CUDA graph; see `captured_step`."""

    def __init__(self, function: Step, device: str | torch.device | None = None):
        if not callable(function):
            raise DataError(
                f"expected a function of a batch, got {shortened(function)}: write @captured_step or "
                "@captured_step(device=…)"
            )
        if device is None:
            device = "cuda" if torch.cuda.is_available() else "cpu"
        self.function, self.device = function, torch.device(device)
        self.steps: LoaderSteps | None = None

    def __call__(self, batch: Any) -> Any:
        """The result of the function on a batch of PyTorch Geometric, or of any object with the same attributes."""
        graphs, x, y = _read(batch)
        # kernels run on the current device
        cuda = self.device.type == "cuda"
        with torch.cuda.device(self.device) if cuda else nullcontext():
            if can_replay(graphs, x, self.device):
                if self.steps is None:
                    self.steps = LoaderSteps(partial(_run, self.function), self.device)
                return self.steps.step(graphs, x, y)
            y = None if y is None else y.to(self.device)
            return copied(_run(self.function, graphs.to(self.device), x.to(self.device), y))

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "steps": None}  # a copy of a model has other parameters

    def __get__(self, instance: object, owner: type) -> CapturedStep:
        if instance is not None:
            raise DataError(
                "expected a function of a batch, got a method: write `self.step = captured_step(self.step)` in "
                "__init__ instead of the decorator"
            )
        return self


def _run(function: Step, graphs: SparseGraphs, x: Tensor, y: Tensor | None) -> Any:
    return function(StepBatch(graphs, x, y))


@overload
def captured_step(function: Step, *, device: str | torch.device | None = None) -> CapturedStep: ...
@overload
def captured_step(
    *, device: str | torch.device | None = None
) -> Callable[[Step], CapturedStep]: ...


def captured_step(
    function: Step | None = None, *, device: str | torch.device | None = None
) -> CapturedStep | Callable[[Step], CapturedStep]:
    """Run a function of a batch as a CUDA graph: the host launches one graph instead of hundreds of operations.

        optimizer = torch.optim.Adam(model.parameters(), capturable=True)   # False on a CPU

        @captured_step
        def train_step(batch):
            logits, auxiliary = model(batch)             # a model with DiffPooling layers
            loss = cross_entropy(logits, batch.y) + auxiliary
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss

        for batch in loader:                             # PyTorch Geometric's DataLoader, on the host
            loss = train_step(batch)

    The function gets a `StepBatch` with `graphs`, `x` and `y`, on the GPU. Batches may have any sizes: they are copied
    into buffers that are somewhat larger, so few sizes occur. The first time that a size occurs, the function runs
    without capture; the second time, it is captured, and afterwards replayed. On a CPU, or if `x` is not in
    float32, it always runs without capture, with the same results.

    The rules of CUDA graphs apply:

    - None of the function's Python code runs during a replay. Values that change, such as the learning rate, must be
      tensors. `zero_grad`, `backward` and the optimizer's `step` belong in the function, and so does `torch.autocast`.
      Use one captured step for training and another one for evaluation.
    - Nothing in it may wait for the GPU: no `.item()`, no printed tensor.
    - Rows of `x` after the last node belong to no graph. The parts of this package ignore them, and so must yours:
      `batch.graphs.readout(h, "sum")` does, `h.sum(0)` and `nn.BatchNorm1d` do not.
    - Every number of graphs in a batch is captured separately: keep the batch size fixed.

    Args:
        function: takes a `StepBatch`; returns a tensor, a tuple, list or dict of tensors, or None. Tensors are returned
            as copies without gradient.
        device: where the step runs; by default, the GPU if there is one, otherwise the CPU.
    """
    if function is None:
        return partial(CapturedStep, device=device)
    return CapturedStep(function, device)


def _read(batch: Any) -> tuple[SparseGraphs, Tensor, Tensor | None]:
    """Graphs, features [N, F] and targets [B, …] of a batch, checked."""
    graphs = SparseGraphs.from_pyg(batch)
    x, y = getattr(batch, "x", None), getattr(batch, "y", None)
    if not isinstance(x, Tensor) or x.dim() != 2 or len(x) != graphs.num_nodes:
        found = list(x.shape) if isinstance(x, Tensor) else type(x).__name__
        column = isinstance(x, Tensor) and x.shape == (graphs.num_nodes,)
        raise DataError(
            f"expected the features of {graphs.num_nodes} nodes as x of the batch, [N, F], got {found}: "
            + ("make it a column with x[:, None]" if column else "give every node a row")
        )
    if y is not None and (not isinstance(y, Tensor) or y.shape[:1] != (len(graphs),)):
        found = list(y.shape) if isinstance(y, Tensor) else type(y).__name__
        raise DataError(
            f"expected one row of y for each of {len(graphs)} graphs, got {found}: a captured step takes targets of "
            "graphs only"
        )
    if torch.is_grad_enabled() and (x.requires_grad or (y is not None and y.requires_grad)):
        raise DataError(
            f"expected {'x' if x.requires_grad else 'y'} without gradient, got one that requires it: compute it in the "
            "step, or detach it"
        )
    return graphs, x, y
