"""Start-up file of every Python process below `swasim record`: arms the recorder, and no more.

The interpreter imports the first `sitecustomize` on its path, so the one that this file hides is
run behind it. Nothing here may keep a process from starting.
"""

import importlib.machinery
import importlib.util
import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))


def _arm() -> None:
    if not os.environ.get("SWASIM_RECORD"):
        return
    try:
        from swasim.recorder.plugin import arm
    except ImportError as error:
        # Only a Python that could run SGLang is worth a word.
        if importlib.util.find_spec("sglang") is not None:
            sys.stderr.write(f"swasim: this Python cannot record: {error}\n")
        return
    arm()


def _run_hidden() -> None:
    others = [entry for entry in sys.path if os.path.abspath(entry or ".") != _HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


_arm()
_run_hidden()
