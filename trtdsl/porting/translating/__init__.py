"""Torch's calls as calls of trtdsl's functions."""
