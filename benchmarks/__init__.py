"""Measurements of Trouper beside floors: `python -m benchmarks`."""
