"""swasim: the memory debugger for paged full/SWA KV caches."""

__version__ = "0.1.0"
