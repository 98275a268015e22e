"""Effect classes: what may happen to the world when a tool is called, and so what recovery may do about it."""

from __future__ import annotations

from enum import StrEnum


class Effect(StrEnum):
    """What a call of a tool may do to the world.

    ``READ_ONLY`` changes nothing and may always run again. ``IDEMPOTENT_WRITE`` may run again under the same effect
    key. ``QUERYABLE_WRITE`` can be asked, by its query, whether it took place. ``UNQUERYABLE_WRITE`` can be neither
    repeated nor asked: also what a tool is whose effect was not declared.
    """

    READ_ONLY = "read_only"
    IDEMPOTENT_WRITE = "idempotent_write"
    QUERYABLE_WRITE = "queryable_write"
    UNQUERYABLE_WRITE = "unqueryable_write"
