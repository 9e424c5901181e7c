"""YAML, flags, environment and trace header to one frozen, checked `SimConfig`.

The one idea: every value remembers where it came from, so that an impossible one can be answered
with the file and line, the flag or the variable that gave it. What must not be added here:
anything that knows traces or allocators.
"""

from swasim.config.merge import ResolvedConfig, ShownValue, resolve, show_config
from swasim.config.values import KEYS, SimConfig

__all__ = ["KEYS", "ResolvedConfig", "ShownValue", "SimConfig", "resolve", "show_config"]
