"""The truth, and the checks that hold an allocator against it."""
