"""From a network definition to an engine in memory: the builder's options and the compiler."""
