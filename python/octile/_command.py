"""Runs the ``octile`` command in a child process."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence

from . import _native

# Loads the extension module alone, by its path: numpy is not needed, and a folder named octile where the user
# happens to be is not imported instead. The interpreter's own arguments restart the command.
_CODE = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("octile._native", {path!r})
native = importlib.util.module_from_spec(spec)
spec.loader.exec_module(native)
sys.exit(native.run_command(["octile", *sys.argv[1:]], sys.orig_argv[:5]))
"""


# What the command says, and what to do in Python instead.
_IN_PYTHON = {
    r": write `jax\.jit\(f\)[^`]*` to a file": "",
    r"the operands are random; pass --tensors FILE --expect NAME to compare": "pass `expect`",
    r"name the expected tensor with --expect": "pass `expect`",
    r" on operands [a\d, ]+; choose others with --operands": "",
    r"--tensors FILE": "arrays",
    r"'?--no-races'?": "`races=False`",
    r"'?--(atol|chip|devices|expect|kernel|libtpu|rtol|seed)\b( <?[A-Z]+\b>?)?'?": r"`\1`",
    r"'?--max-operations\b( <?[A-Z]+\b>?)?'?": "`max_operations`",
}


class Error(Exception):
    """A request that cannot be carried out: one sentence that says what is wrong and what to do."""

    __module__ = "octile"


def command_line() -> list[str]:
    """Arguments that start the command of this package in a new process."""
    return [sys.executable, "-I", "-S", "-c", _CODE.format(path=_native.__file__)]


def in_python(text: str) -> str:
    """What the command says, with the names of arguments in place of its options."""
    for command, python in _IN_PYTHON.items():
        text = re.sub(command, python, text)
    return text


def run(
    arguments: Sequence[str | os.PathLike[str]],
    timeout: float | None = None,
    shown: Mapping[str, str] | None = None,
) -> tuple[int, str]:
    """Runs the command and returns its exit code, 0 or 1, and what it printed.

    A child process keeps Ctrl-C and time limits working, and this process alive whatever happens there.
    `shown` replaces temporary paths by names that mean something to the caller.
    """
    line = command_line() + [os.fspath(argument) for argument in arguments]
    environment = dict(os.environ)
    # The command looks for libtpu in the active virtual environment: this one, activated or not.
    environment.setdefault("VIRTUAL_ENV", sys.prefix)
    # Notebooks ask all programs for colours, which a report that is kept as text must not have.
    for name in ("CLICOLOR", "CLICOLOR_FORCE", "FORCE_COLOR"):
        environment.pop(name, None)
    pipe = subprocess.PIPE
    try:
        child = subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, env=environment)
    except OSError as error:
        raise Error(f"cannot start octile: {error}") from error
    with child:
        try:
            output, complaint = child.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            child.kill()
            raise Error(f"octile {arguments[0]} was stopped after {timeout:g} s: raise `timeout`") from None
        except BaseException:
            # In a notebook an interrupt reaches this process alone.
            child.kill()
            raise
    said = [stream.decode(errors="replace") for stream in (output, complaint)]
    for path, name in (shown or {}).items():
        # A relative one, such as ".", may stand anywhere.
        if not os.path.isabs(path):
            continue
        said = [text.replace(path, name) for text in said]
    if child.returncode in (0, 1):
        return child.returncode, said[0]
    raise Error(_sentence(arguments[0], child.returncode, said[1].strip()))


def _sentence(name: str | os.PathLike[str], code: int, complaint: str) -> str:
    """What went wrong, from the exit code and standard error."""
    if code == 2 and complaint:
        # What follows an empty line is the usage of the command.
        return in_python(complaint.split("\n\n")[0].removeprefix("octile: ").removeprefix("error: "))
    number = -code if code < 0 else code - 128
    reason = signal.Signals(number).name if number in signal.valid_signals() else f"exit code {code}"
    last = complaint.splitlines()[-1] if complaint else "it said nothing more"
    return f"octile {name} ended by {reason}: {last}"
