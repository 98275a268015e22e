"""For tests: the promises of a journal, to be checked over any store, and a store that fails on demand."""

from trouper_journal._conformance import PROMISES as PROMISES
from trouper_journal._conformance import NewStorage as NewStorage
from trouper_journal._conformance import OpenJournal as OpenJournal
from trouper_journal._conformance import check_journal as check_journal
from trouper_journal._conformance_keys import KEY_PROMISES as KEY_PROMISES
from trouper_journal._conformance_keys import KeyPromise as KeyPromise
from trouper_journal._conformance_keys import NewKeys as NewKeys
from trouper_journal._conformance_keys import OpenKeys as OpenKeys
from trouper_journal._conformance_keys import check_key_store as check_key_store
from trouper_journal._faults import FaultyStore as FaultyStore
from trouper_journal._faults import Hook as Hook
