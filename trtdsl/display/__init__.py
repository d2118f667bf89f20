"""Summaries and tables for people."""
