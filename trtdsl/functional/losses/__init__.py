"""Losses, for networks that give one as an output or use one inside."""
