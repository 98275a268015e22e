"""Proofs that a record is in a journal, and that a journal only grew (RFC 6962, RFC 9162)."""

from trouper_journal._digest import leaf_parts as leaf_parts
from trouper_journal._errors import InvalidProof as InvalidProof
from trouper_journal._proofs import NodeCollector as NodeCollector
from trouper_journal._proofs import Span as Span
from trouper_journal._proofs import check_consistency as check_consistency
from trouper_journal._proofs import check_inclusion as check_inclusion
from trouper_journal._proofs import consistency_proof as consistency_proof
from trouper_journal._proofs import consistency_spans as consistency_spans
from trouper_journal._proofs import inclusion_proof as inclusion_proof
from trouper_journal._proofs import inclusion_spans as inclusion_spans
from trouper_journal._proofs import root_of_inclusion as root_of_inclusion
from trouper_journal._proving import Growth as Growth
from trouper_journal._proving import Inclusion as Inclusion
from trouper_journal._proving import prove_growth as prove_growth
from trouper_journal._proving import prove_inclusion as prove_inclusion
from trouper_journal._proving import roots_at as roots_at
