"""For tests: the promises of a journal, to be checked over any store, and a store that fails on demand."""

from trouper_journal._conformance import PROMISES as PROMISES
from trouper_journal._conformance import NewStorage as NewStorage
from trouper_journal._conformance import OpenJournal as OpenJournal
from trouper_journal._conformance import check_journal as check_journal
from trouper_journal._faults import FaultyStore as FaultyStore
from trouper_journal._faults import Hook as Hook
