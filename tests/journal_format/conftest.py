"""Hypothesis without time limits for single examples, which a busy machine would break."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("trouper", deadline=None)
settings.load_profile("trouper")
