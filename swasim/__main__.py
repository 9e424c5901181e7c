"""`python -m swasim`, and the command `swasim`: signals, from the first moment to the last.

The command line is loaded inside `main`, because that takes a tenth of a second in which Ctrl-C
must already end the process without a traceback. What must not be added here: imports that cost
time.
"""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

INTERRUPTED = 130
BROKEN_INSTALLATION = 2

_received: list[int] = []
"""Signals, other than Ctrl-C, that asked this process to end."""


def main() -> None:
    """Run swasim on the arguments of this process and exit."""
    # A shell that starts a job in the background has it ignore these; that is respected.
    interruptible = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if interruptible:
        signal.signal(signal.SIGINT, _leave)
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _unwind)
    try:
        code = _run(interruptible)
    except KeyboardInterrupt:
        code = INTERRUPTED
    if interruptible:
        signal.signal(signal.SIGINT, _leave)
    sys.exit(128 + _received[0] if _received else code)


def _run(interruptible: bool) -> int:
    try:
        from swasim.commands.app import run
    except ImportError as error:
        sys.stderr.write(f"swasim: error: the installation is incomplete: {error}\n")
        return BROKEN_INSTALLATION
    if interruptible:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    return run(sys.argv[1:])


def _leave(number: int, frame: FrameType | None) -> None:
    """Nothing is half-written yet, or everything is written."""
    os._exit(128 + number)


def _unwind(number: int, frame: FrameType | None) -> None:
    """As Ctrl-C, so that what is half-written is taken away on the way out."""
    _received.append(number)
    raise KeyboardInterrupt


if __name__ == "__main__":
    main()
