"""The program as Python text."""
