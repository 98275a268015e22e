"""Tools for whoever audits a journal: they need the file alone, neither the agents' code nor keys."""

from trouper.audit import verify_bundle as verify_bundle
from trouper.audit.assert_replay import Drift as Drift
from trouper.audit.assert_replay import Replayed as Replayed
from trouper.audit.assert_replay import ReplayFailed as ReplayFailed
from trouper.audit.assert_replay import assert_replays as assert_replays
from trouper.audit.bundle import BundleOptions as BundleOptions
from trouper.audit.bundle import write_bundle as write_bundle
from trouper.audit.chain import AnswerWhy as AnswerWhy
from trouper.audit.chain import CallWhy as CallWhy
from trouper.audit.chain import SpendWhy as SpendWhy
from trouper.audit.diff import Comparison as Comparison
from trouper.audit.diff import compare as compare
from trouper.audit.jsonl import export_jsonl as export_jsonl
from trouper.audit.lines import LineOptions as LineOptions
from trouper.audit.lines import record_line as record_line
from trouper.audit.lines import record_object as record_object
from trouper.audit.lines import record_schema as record_schema
from trouper.audit.replay_report import ReplayProblem as ReplayProblem
from trouper.audit.replay_report import StreamReplay as StreamReplay
from trouper.audit.replaying import replay_streams as replay_streams
from trouper.audit.report import ReportOptions as ReportOptions
from trouper.audit.report import write_report as write_report
from trouper.audit.subjects import Subject as Subject
from trouper.audit.verifier import verifier_source as verifier_source
from trouper.audit.why import Explainer as Explainer
from trouper.audit.why import sound as sound
