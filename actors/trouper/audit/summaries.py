"""Requests for a summary of a history that was too long, as they were sent."""

from __future__ import annotations

from typing import Literal

from attrs import frozen

from trouper.audit.trace import Entry
from trouper.core.conversation import Message
from trouper.core.digests import extend_chain
from trouper.core.session_events import SummaryRequested
from trouper.core.state import RunState
from trouper.errors import ContentWithheld, JournalCorrupt, JournalError, UnknownEvent, UnknownRun
from trouper.runtime.histories import Histories
from trouper.runtime.plan_session import lost_messages, summary_request
from trouper_journal import Plain


@frozen(slots=False, repr=False, eq=False)
class SummaryWhy(Plain):
    """A request for a summary of what is not handed on any more.

    Attributes:
        entry: The record of it.
        dropped: The messages that were to be summarised; none where they were erased.
        messages: What the summarising model saw.
        digest: Whether the digest over the dropped messages, computed anew, is the recorded one; ``unread``: they are
            of a newer release, or in an archive.
        unread: Why they cannot be read.
    """

    entry: Entry
    dropped: tuple[Message, ...]
    messages: tuple[Message, ...]
    digest: Literal["matches", "differs", "erased", "unread"]
    unread: str | None = None


async def summary_of(histories: Histories, entry: Entry, event: SummaryRequested, state: RunState) -> SummaryWhy:
    """Rebuild one, given the run behind its record.

    Raises:
        JournalError: The journal cannot be read.
    """
    try:
        lost = await lost_messages(histories, state)
        pieces = [] if state.base is None else await histories.pieces(state.base.refs)
        segments = [await histories.segment(piece.ref.run, piece.ref.version) for piece in pieces]
    except ContentWithheld:
        return SummaryWhy(entry, (), (), "erased")
    except UnknownEvent as error:
        return SummaryWhy(entry, (), (), "unread", str(error))
    except (UnknownRun, JournalCorrupt) as error:
        return SummaryWhy(entry, (), (), "differs", f"what was summarised cannot be read: {error}")
    except JournalError:
        raise
    except Exception as error:  # noqa: BLE001 -- another run's records may be made up, and break the fold
        return SummaryWhy(entry, (), (), "differs", f"what was summarised cannot be folded: {error!r}")
    if not state.salt or any(segment.erased for segment in segments):
        return SummaryWhy(entry, (), (), "erased")
    chain = b""
    for message in lost:
        chain = extend_chain(chain, state.salt, message)
    return SummaryWhy(entry, lost, summary_request(lost), "matches" if chain == event.digest else "differs")
