from diffpool.experiments.methods import METHODS, Method, settings_for
from diffpool.experiments.run import Outcome, fit, train_once

__all__ = ["METHODS", "Method", "Outcome", "fit", "settings_for", "train_once"]
