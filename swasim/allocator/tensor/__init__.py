"""The torch reference engine: SGLang's paged full/SWA allocators on any device.

One implementation serves every release and every known fault: what differs is declared in
`swasim.allocator.profile`. Methods and attributes have their upstream names.
"""
