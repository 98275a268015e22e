"""Tools for whoever audits a journal: they need the file alone, neither the agents' code nor keys."""
