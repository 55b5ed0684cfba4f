"""The protocols by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from diffpool.errors import SettingError, did_you_mean
from diffpool.experiments.grid import parse_grid
from diffpool.experiments.methods import Method, with_settings
from diffpool.experiments.protocols.inner_cv import InnerCV
from diffpool.experiments.protocols.nested import Nested
from diffpool.experiments.protocols.paper import Paper
from diffpool.experiments.protocols.tenfold import Tenfold
from diffpool.experiments.selection import TRIALS, space_for

Protocol = Paper | Tenfold | Nested
PROTOCOLS: dict[str, Protocol] = {p.name: p for p in (Paper(), Tenfold(), Nested())}
KERNEL_PROTOCOLS = {p.name: p for p in (InnerCV(),)}


def choose_protocol(
    name: str,
    grid: Sequence[str] | None = None,
    fixed: Mapping[str, Any] | None = None,
    trials: int | None = None,
    inner_folds: int = 1,
    tuned: Method | None = None,
) -> Protocol:
    """The protocol with this name.

    `grid`: for the protocol nested, see `parse_grid`; by default its usual grid without the `fixed` settings. `trials`:
    the number of points of the grid to try, by default all. `inner_folds`: folds of the selection, 1 for a hold-out.
    `tuned`: choose as `tune` does for this method: in its search space unless there is a grid, by default with its
    number of trials, and with successive halving.
    """
    if name not in PROTOCOLS:
        hint = did_you_mean(name, PROTOCOLS)
        if name in KERNEL_PROTOCOLS:
            hint = ", which is for kernels only"
        raise SettingError(
            f"expected one of the protocols {', '.join(PROTOCOLS)}, got {name!r}{hint}"
        )
    protocol, fixed = PROTOCOLS[name], fixed or {}
    searches = trials is not None or inner_folds != 1 or tuned is not None
    if searches and not isinstance(protocol, Nested):
        raise SettingError(
            f"the protocol {name} takes no trials or inner folds, and does not tune: only nested searches over settings"
        )
    if isinstance(protocol, Paper):
        for setting in ("patience", "monitor"):
            if setting in fixed:
                raise SettingError(
                    f"the protocol paper trains to the last epoch: {setting} does not apply"
                )
    if isinstance(protocol, Nested):
        given = parse_grid(grid or ())
        if both := [name for name, _ in given if name in fixed]:
            raise SettingError(
                f"{both[0]} is given both as a setting and in the grid: remove one of them"
            )
        if tuned is not None:
            usual = space_for(tuned, list(fixed))
            trials = TRIALS if trials is None else trials
        else:
            usual = tuple((name, values) for name, values in protocol.grid if name not in fixed)
        return replace(
            protocol,
            grid=given or usual,
            trials=trials,
            inner_folds=inner_folds,
            halving=tuned is not None,
        )
    if grid:
        raise SettingError(
            f"the protocol {name} does not use a grid: only nested searches over settings"
        )
    return protocol


def choose_kernel_protocol(name: str) -> InnerCV:
    """The protocol for kernels with this name."""
    if name not in KERNEL_PROTOCOLS:
        hint = did_you_mean(name, KERNEL_PROTOCOLS)
        if name in PROTOCOLS:
            hint = ", which is for neural networks"
        raise SettingError(
            f"expected the protocol {', '.join(KERNEL_PROTOCOLS)} for a kernel, got {name!r}{hint}"
        )
    return KERNEL_PROTOCOLS[name]


def needs_edges(method: Method, protocol: Protocol) -> bool | None:
    """Whether any model of a run needs edge features; None if some use them where they exist."""
    tried = protocol.points if isinstance(protocol, Nested) else [{}]
    wanted = [with_settings(method, point).architecture.edges for point in tried]
    return True if True in wanted else None if None in wanted else False
