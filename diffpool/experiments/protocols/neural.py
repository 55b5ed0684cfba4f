"""The base class of the protocols for neural networks."""

from __future__ import annotations

from collections.abc import Sequence

from diffpool.experiments.plan import Plan, Results, Task
from diffpool.experiments.status import Search
from diffpool.training.cohort import Cohort


class NeuralProtocol:
    def losers(self, tasks: Sequence[Task], cohort: Cohort) -> list[int]:
        """The models of a cohort that need no further training after this epoch."""
        return []

    def compete(self, task: Task) -> bool:
        """Whether the models of a cohort with this one compete, so that the result depends on the cohort."""
        return False

    def search(self, plan: Plan, done: Results) -> Search | None:
        """The progress of a search for settings; None if the protocol does not search, or in several folds."""
        return None
