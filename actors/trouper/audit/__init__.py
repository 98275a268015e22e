"""Tools for whoever audits a journal: they need the file alone, neither the agents' code nor keys."""

from trouper.audit.jsonl import export_jsonl as export_jsonl
from trouper.audit.lines import LineOptions as LineOptions
from trouper.audit.lines import record_line as record_line
from trouper.audit.lines import record_object as record_object
from trouper.audit.lines import record_schema as record_schema
from trouper.audit.subjects import Subject as Subject
