"""Random workloads: what a scheduler may ask of an allocator, and what a sloppy one asks."""
