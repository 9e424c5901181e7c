"""Allocators under test and the registry that names them."""
