"""A network as it is written in a file: its spec, how it is loaded, its reference."""
