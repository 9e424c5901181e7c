"""Allocators under test and the registry that names them."""

import warnings

# Torch says so where NumPy is missing, and nothing here needs NumPy.
warnings.filterwarnings("ignore", "Failed to initialize NumPy", UserWarning)
