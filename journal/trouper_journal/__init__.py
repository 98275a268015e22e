"""An append-only journal of events: store, codec, fold, verify. Knows nothing of agents."""
