"""The outside world for Trouper: model providers and other services."""
