"""These tests judge swasim by a real SGLang; `run.sh` puts one release on the path at a time."""

from __future__ import annotations

import os

import pytest

if not os.environ.get("SGLANG_RELEASE"):
    pytest.exit("tests/sglang needs a release on the path: run `make test-sglang`", returncode=4)
