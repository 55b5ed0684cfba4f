"""The command line."""

from diffpool.cli.commands import main

__all__ = ["main"]
