"""The pure heart: events, state, fold, decisions."""
