"""The traced calls as shared functions and loops."""
