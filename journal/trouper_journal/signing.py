"""Signed checkpoints of a journal, and the keys for them (C2SP signed-note, tlog-checkpoint, tlog-cosignature)."""

from trouper_journal._checkpoints import Checkpoint as Checkpoint
from trouper_journal._checkpoints import Cosignature as Cosignature
from trouper_journal._checkpoints import SignedCheckpoint as SignedCheckpoint
from trouper_journal._checkpoints import cosign as cosign
from trouper_journal._checkpoints import open_checkpoint as open_checkpoint
from trouper_journal._checkpoints import sign_checkpoint as sign_checkpoint
from trouper_journal._checkpoints import split_notes as split_notes
from trouper_journal._comparing import compare as compare
from trouper_journal._comparing import verify_signed as verify_signed
from trouper_journal._errors import CheckpointMismatch as CheckpointMismatch
from trouper_journal._errors import InvalidKey as InvalidKey
from trouper_journal._errors import InvalidNote as InvalidNote
from trouper_journal._errors import MissingExtra as MissingExtra
from trouper_journal._key_files import CheckpointFile as CheckpointFile
from trouper_journal._key_files import new_key as new_key
from trouper_journal._key_files import read_key as read_key
from trouper_journal._key_files import read_public_key as read_public_key
from trouper_journal._key_files import write_key as write_key
from trouper_journal._notes import Note as Note
from trouper_journal._notes import NoteSignature as NoteSignature
from trouper_journal._notes import SignatureType as SignatureType
from trouper_journal._notes import SignerKey as SignerKey
from trouper_journal._notes import VerifierKey as VerifierKey
from trouper_journal._notes import sign_note as sign_note
from trouper_journal._notes import trusted_signatures as trusted_signatures
from trouper_journal._proving import sign_head as sign_head
