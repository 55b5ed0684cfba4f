"""Settings that were given and have no effect."""

from __future__ import annotations

from diffpool.cli.options import Settings
from diffpool.cli.torchrun import EXAMPLE, by_torchrun
from diffpool.errors import SettingError
from diffpool.experiments.methods import METHOD_SETTINGS, METHODS, Method

# The settings that have no effect without pooling.
POOLING_SETTINGS = ("ratio", "clusters", "min_clusters", "link_weight", "entropy_weight")


def check_settings(method: Method, given: Settings, resume: bool = False) -> None:
    """Raise an error about a setting that was given and has no effect.

    With `resume`, the settings are those of the interrupted run, which may have had several processes.
    """
    a = method.architecture
    for name in POOLING_SETTINGS if a.poolings == 0 else ():
        if name in given:
            flat = f"{method.name}, which has no pooling"
            if METHODS[method.name].architecture.poolings:
                flat = f"{method.name} and --poolings 0"
            option = METHOD_SETTINGS[name].option
            raise SettingError(f"expected no {option} with {flat}: leave it out")
    for name in ("ratio", "min_clusters") if isinstance(a.clusters, tuple) else ():
        if name in given:
            numbers = METHOD_SETTINGS["clusters"].show(a.clusters)
            raise SettingError(
                f"expected {METHOD_SETTINGS[name].option} or --clusters {numbers}, got both: leave one of them out"
            )
    if "batch_statistics" in given and not (by_torchrun() or resume):
        raise SettingError(
            f"expected no {METHOD_SETTINGS['batch_statistics'].option} without torchrun, because a single process has "
            f"the whole batch: leave it out, or train one model with several processes (`{EXAMPLE}`)"
        )
