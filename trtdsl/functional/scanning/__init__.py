"""Recurrences and control flow: scans, recurrent cells, loops and branches."""
