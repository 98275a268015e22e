"""Tools from plain functions."""
