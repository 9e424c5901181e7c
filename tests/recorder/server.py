"""A process that records an allocator at work, for the tests that kill or fork it.

python -m tests.recorder.server PATH CALLS [RING]
"""

from __future__ import annotations

import sys

import torch

from swasim.recorder import record
from tests.support.recording import extend, live


def main(path: str, calls: int, ring: int | None) -> None:
    pair = live(kv_size=256, kv_size_swa=256)
    record(pair, path, ring=ring)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    held: list[torch.Tensor] = []
    for number in range(calls):
        if len(held) > 8:
            pair.free(held.pop(number % 8))
        else:
            held.append(extend(pair, 5 + number % 7))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else None)
