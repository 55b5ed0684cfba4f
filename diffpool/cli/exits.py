"""How a command fails: one line on standard error, and the exit code."""

from __future__ import annotations

import os
import re
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn

from diffpool.cli import torchrun
from diffpool.errors import DiffPoolError, did_you_mean
from diffpool.text import printable

INTERRUPTED, BROKEN_PIPE = 130, 141  # exit codes


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Print warnings and errors as one line each. A user error exits with code 2."""
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _print_warning
            yield
            sys.stdout.flush()  # so that a closed pipe is noticed here
    except DiffPoolError as error:
        _complain(str(error))
    except KeyboardInterrupt:
        stop("stopped")
    except BrokenPipeError:
        _end_silently()
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):  # Typer and Rich exit with code 1
            _end_silently()
        raise
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        _complain(f"{where}{error.strerror or error}")
    except Exception as error:
        message = getattr(error, "format_message", None)  # an error from the command-line parser
        if message is None:
            _complain_about_memory(error)
            raise  # a bug: the traceback helps to report it
        text = message() or "see diffpool --help"
        if wrong := getattr(error, "option_name", None):  # the option does not exist
            text = f"no such option: {wrong}{did_you_mean(wrong, _options(error), prefix='. ')}"
        _complain(_no_number(error) or text)


@contextmanager
def resumable(finished: str = "folds are recorded") -> Iterator[None]:
    """Explain how to continue after Ctrl-C."""
    try:
        yield
    except KeyboardInterrupt:
        stop(f"stopped. Finished {finished}: run the same command again to continue.")


def check_completion(words: list[str]) -> None:
    """Raise an error for `python -m diffpool`: the completion script needs the name of a program."""
    for option in ("--install-completion", "--show-completion"):
        if option in words[1:] and Path(words[0]).name == "__main__.py":
            _complain(f"completion works for the installed command only: run `diffpool {option}`")


def _end_silently() -> NoReturn:
    """Exit without a message, because the reader of the output, such as `head`, has exited."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(BROKEN_PIPE)


def _complain_about_memory(error: Exception) -> None:
    from diffpool.training.memory import is_out_of_memory

    if is_out_of_memory(error):
        _complain("not enough memory: use fewer or smaller graphs, or a machine with more memory")


def _no_number(error: Any) -> str | None:
    """The message about an option whose value is not a number, in the style of the other messages."""
    found = re.search(r"valid (integer|float|number)", str(getattr(error, "message", "")))
    option = getattr(error, "param", None)
    if found is None or option is None:
        return None
    kind = "an integer" if found[1] == "integer" else "a number"
    words = [piece for word in sys.argv for piece in word.split("=", 1)]
    given = [after for word, after in pairwise(words) if word in option.opts]
    got = f", got {given[-1]!r}" if given else ""
    return f"expected {option.opts[0]} to be {kind}{got}"


def _print_warning(message: Warning | str, *details: Any, **more: Any) -> None:
    print(f"diffpool: warning: {_one_line(str(message))}", file=sys.stderr)


def _options(error: Any) -> list[str]:
    """The options of the command that a parser error is about."""
    params = error.ctx.command.params if getattr(error, "ctx", None) else []
    return [name for option in params for name in option.opts]


def stop(message: str) -> NoReturn:
    """Exit after Ctrl-C with the code that shells expect. Of several processes, the first prints the message."""
    if torchrun.leads():
        print(f"diffpool: {_one_line(message)}", file=sys.stderr)
    sys.exit(INTERRUPTED)


def _complain(message: str) -> NoReturn:
    if torchrun.may_complain():
        print(f"diffpool: {_one_line(message)}", file=sys.stderr)
    else:
        time.sleep(
            1
        )  # torchrun ends all processes when the first one exits: let the message come first
    sys.exit(2)


def _one_line(message: str) -> str:
    return printable(" ".join(message.splitlines()))
