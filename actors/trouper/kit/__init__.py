"""A small, general actor kit on Trio."""
