"""From a network file to an engine and its manifest on disk."""
