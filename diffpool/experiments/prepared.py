"""A method and a data set made ready for each other."""

from __future__ import annotations

from dataclasses import replace

from diffpool.baselines.prepare import Watch, prepare, resolved, wanted
from diffpool.data import GraphDataset
from diffpool.errors import SettingError
from diffpool.experiments.grid import points
from diffpool.experiments.methods import Method, with_settings
from diffpool.experiments.protocols import Nested, Protocol


def prepared(
    method: Method, dataset: GraphDataset, watch: Watch = lambda share: None
) -> tuple[Method, GraphDataset]:
    """The method with the numbers that it takes from the data set, and the data set with what the method wants of it.

    `watch` gets the share that is done, where something is computed. Asked again, it answers at once.
    """
    sizes = dataset.graphs.layout.sizes.numpy()
    architecture = resolved(method.architecture, sizes)
    graphs = prepare(architecture, dataset.graphs, watch=watch)
    return replace(method, architecture=architecture), replace(dataset, graphs=graphs)


def check_grid(method: Method, dataset: GraphDataset, protocol: Protocol) -> None:
    """Raise an error if settings to choose from want other things of the graphs: these are computed once for all."""
    if not isinstance(protocol, Nested):
        return
    for point in points(protocol.grid):
        other = with_settings(method, point).architecture
        if wanted(other, dataset.largest) != wanted(method.architecture, dataset.largest):
            raise SettingError(
                f"expected a grid that leaves alone what {method.name} computes beforehand, got {dict(point)}: "
                "give these settings as options, one run for each"
            )
