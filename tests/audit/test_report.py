"""The HTML report: complete, readable anywhere, and inert whatever stands in the journal."""

from __future__ import annotations

import base64
import json
import re
import sqlite3
from collections.abc import Mapping
from html.parser import HTMLParser
from pathlib import Path

import pytest
from attrs import define, evolve, field
from hypothesis import given
from hypothesis import strategies as st
from tests.audit.rewriting import rewritten
from tests.cli.program import called, complaint, ok_called

from trouper import REGISTRY, Agent, Human, Image, Principal, Runtime, tool
from trouper.audit import ReportOptions, Subject, write_report
from trouper.audit.chapters import Reading, read_chapters
from trouper.audit.markup import el
from trouper.audit.report_parts import result_block
from trouper.audit.report_proof import proof_of
from trouper.audit.report_spend import spend_table
from trouper.audit.story import RunStory
from trouper.audit.trace import read_trace
from trouper.core.conversation import Part, Shown
from trouper.core.events import ActionPlanned, ApprovalDecided, ApprovalRequested
from trouper.core.state import RunState
from trouper.narration.text import clean
from trouper.testing import ScriptedModel, call
from trouper_journal import Journal

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)> </pre></td> <!-- ]]> &lt; javascript:alert(3)"
HIDDEN = "\u202egpj.exe \x1b[31m\u200bzero \ud83d"
_VOID = {"meta", "img", "br", "hr"}
_TAGS = frozenset(
    [
        "a",
        "body",
        "code",
        "dd",
        "div",
        "dl",
        "dt",
        "footer",
        "h1",
        "h2",
        "h3",
        "head",
        "header",
        "html",
        "img",
        "li",
        "meta",
        "nav",
        "ol",
        "p",
        "pre",
        "section",
        "span",
        "strong",
        "style",
        "table",
        "tbody",
        "td",
        "th",
        "thead",
        "title",
        "tr",
        "ul",
    ]
)
_ATTRIBUTES = frozenset(
    [
        "alt",
        "charset",
        "class",
        "colspan",
        "content",
        "data-head",
        "href",
        "http-equiv",
        "id",
        "lang",
        "name",
        "src",
        "title",
    ]
)


@define
class Page(HTMLParser):
    """A page as a browser would take it apart; refuses what a report must never hold."""

    open: list[str] = field(factory=list)
    text: list[str] = field(factory=list)
    ids: list[str] = field(factory=list)
    links: list[str] = field(factory=list)
    pictures: list[str] = field(factory=list)

    def __attrs_post_init__(self) -> None:
        HTMLParser.__init__(self, convert_charrefs=True)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in _TAGS, tag
        named = dict(attrs)
        assert len(named) == len(attrs)
        assert named.keys() <= _ATTRIBUTES, named
        if (href := named.get("href")) is not None:
            assert href.startswith("#")
            self.links.append(href[1:])
        if (source := named.get("src")) is not None:
            self.pictures.append(source)
        if (identity := named.get("id")) is not None:
            self.ids.append(identity)
        if tag not in _VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] != ["style"]:
            self.text.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(data)


def parsed(html: str) -> Page:
    html.encode("utf-8")
    page = Page()
    page.feed(html)
    page.close()
    assert page.open == []
    assert len(set(page.ids)) == len(page.ids)
    assert set(page.links) <= set(page.ids), set(page.links) - set(page.ids)
    return page


async def reported(path: Path, subject: Subject, *, redact: bool = False) -> str:
    pieces: list[str] = []
    async with Journal.open(path, registry=REGISTRY) as journal:
        options = ReportOptions(1_790_000_000_000_000_000, await journal.verify(), redact)
        await write_report(journal, subject, pieces.append, options)
    return "\n".join(pieces)


async def told(path: Path, run: str) -> str:
    """The text of a run's report, with single spaces."""
    return " ".join("".join(parsed(await reported(path, Subject("run", run))).text).split())


@given(st.text())
def test_a_text_stays_a_text_wherever_it_stands(text: str) -> None:
    page = parsed(el("p", el("span", text, title=text), text, id=f"#{text}"))
    assert "".join(page.text) == 2 * re.sub("\r\n?", "\n", clean(text, keep="\n\t"))


async def hostile_journal(path: Path) -> str:
    picture = base64.b64encode(b"\x89PNG\r\n").decode()

    @tool(effect="read_only", requires_approval=True)
    def lookup(ticket: str) -> dict[str, str]:
        """Read <b>a</b> ticket."""
        return {"note": HOSTILE + HIDDEN, ticket: HOSTILE}

    model = ScriptedModel([call("lookup", ticket=HOSTILE), HOSTILE + HIDDEN])
    desk = Agent("desk", HOSTILE, tools=[lookup], model=model)
    content: list[Part | Shown] = [
        {"type": "text", "text": HOSTILE + HIDDEN},
        Image(url=f"data:image/png;base64,{picture}"),
        Image(url="https://example.org/pixel.png"),
        Image(url="data:image/svg+xml;base64,PHN2Zy8+"),
    ]
    async with Runtime.open(path, agents=[desk]) as runtime:
        by = Principal(HOSTILE, "person", HIDDEN.encode("utf-8", "replace").decode())
        run = await runtime.submit("desk", [Human("1", content)], by=by)
        async with runtime.journal.news() as news:
            while not (waiting := await runtime.approvals()):
                await news.wait()
        await runtime.approve(waiting[0].action, by=by, reason=HOSTILE)
        await run.wait()
    return run.id


async def test_hostile_content_is_shown_and_does_nothing(tmp_path: Path) -> None:
    run = await hostile_journal(tmp_path / "hostile.db")
    html = await reported(tmp_path / "hostile.db", Subject("run", run))
    page = parsed(html)
    text = "".join(page.text)
    assert text.count("<script>alert(1)</script>") > 5
    assert "\\u202egpj.exe" in text
    for char in ("\u202e", "\x1b", "\u200b"):
        assert char not in html
    assert {source[:22] for source in page.pictures} == {"data:image/png;base64,"}
    assert "[image: https://example.org/pixel.png]" in text


async def test_a_report_loads_nothing_and_runs_nothing(golden_runs: Path) -> None:
    html = await reported(golden_runs, Subject("session", "cust-1"))
    assert "default-src 'none'" in html.replace("&#x27;", "'")
    assert not re.search(r"@import|url\(|https?://", html)


async def test_every_run_and_session_of_a_release_can_be_reported(golden_runs: Path) -> None:
    async with Journal.open(golden_runs, registry=REGISTRY) as journal:
        runs = [
            head.stream.removeprefix("run/") async for head in journal.streams(prefix="run/") if "~" not in head.stream
        ]
        sessions = [head.stream.removeprefix("session/") async for head in journal.streams(prefix="session/")]
        subjects = [*(Subject("run", run) for run in runs), *(Subject("session", name) for name in sessions)]
        for subject in subjects:
            pieces: list[str] = []
            await write_report(journal, subject, pieces.append, ReportOptions(0))
            text = "".join(parsed("\n".join(pieces)).text)
            assert "unknown to this release" not in text
            assert "are damaged" not in text


async def test_a_report_has_what_was_said_who_allowed_it_and_what_it_cost(golden_runs: Path) -> None:
    rows = _runs(golden_runs)
    texts = [await told(golden_runs, run) for run, agent in rows.items() if agent == "treasurer"]
    assert any("standing rule" in text and "made by otto" in text for text in texts)
    lead = next(run for run, agent in rows.items() if agent == "lead")
    text = await told(golden_runs, lead)
    assert "It rains on Mondays." in text
    assert "Both are known." in text
    assert "Run of researcher" in text
    assert "self-consistent" in text


async def test_names_of_those_who_decided_stand_with_what_is_known_of_them(tmp_path: Path) -> None:
    run = await hostile_journal(tmp_path / "named.db")
    html = await reported(tmp_path / "named.db", Subject("run", run))
    decisions = html.partition('id="people"')[2].partition('id="spend"')[0]
    assert "person, asserted via" in decisions
    assert "bound to digest" in decisions


async def test_a_redacted_report_tells_only_facts(tmp_path: Path) -> None:
    run = await hostile_journal(tmp_path / "redacted.db")
    html = await reported(tmp_path / "redacted.db", Subject("run", run), redact=True)
    text = "".join(parsed(html).text)
    assert "alert" not in text
    assert "gpj.exe" not in text
    assert "[withheld]" in text
    assert "[erased]" not in text
    assert "lookup" in text


async def test_runs_whose_content_is_gone_can_be_reported(golden_runs: Path) -> None:
    for run in _runs(golden_runs):
        parsed(await reported(golden_runs, Subject("run", run), redact=True))


def damage(path: Path, statement: str) -> None:
    database = sqlite3.connect(path)
    for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        database.execute(f"DROP TRIGGER {name}")
    database.execute(statement)
    database.commit()
    database.close()


async def test_a_damaged_record_is_shown_as_such(golden_runs: Path) -> None:
    damage(golden_runs, "UPDATE events SET recorded_at = recorded_at + 1 WHERE position = 4")
    text = "".join(parsed(await reported(golden_runs, Subject("run", "01KDVDQ4K08R1PCMZZ5184GMN6"))).text)
    assert "1 of 36 records here are damaged." in text
    assert "damaged: the stored bytes do not have the recorded digest" in text


async def test_a_decision_in_a_run_that_cannot_be_folded_is_told_as_a_record_alone(golden_runs: Path) -> None:
    """Which approvals counted is worked out by the fold: where that ends, so does what is said of them."""
    damage(golden_runs, "UPDATE events SET facts = x'80' WHERE position = 444")
    text = await told(golden_runs, "01KE0QS170Q6VV9WXMVFBXXTFJ")
    assert text.count("not known whether it counted: approved by otto") == 2


def _runs(path: Path) -> Mapping[str, str]:
    database = sqlite3.connect(path)
    names = [str(name) for (name,) in database.execute("SELECT name FROM streams WHERE name LIKE 'run/%'")]
    agents = {}
    for name in names:
        facts = database.execute(
            "SELECT facts FROM events JOIN streams ON streams.id = stream_id WHERE name = ? AND events.version = 1",
            (name,),
        ).fetchone()[0]
        agents[name.removeprefix("run/")] = facts.partition(b"agent")[2][1:20].decode("latin-1")
    database.close()
    return {run: re.match(r"[a-z]*", agent)[0] for run, agent in agents.items()}  # type: ignore[index]


async def test_nothing_is_told_as_a_fact_of_what_may_have_been_erased(tmp_path: Path) -> None:
    """A reply without reasoning or refusal, a call that no hook changed, an approval without a reason."""
    run = await hostile_journal(tmp_path / "erased.db")
    text = "".join(parsed(await reported(tmp_path / "erased.db", Subject("run", run), redact=True)).text)
    for never in ("Reasoning as", "Refusal", "which a hook changed", "changed them", "The tool's whole result"):
        assert never not in text
    assert "[withheld, if there was one]" in text


# ---- what it says is what the records say


@pytest.mark.parametrize(
    "text", ['{"amount": 1, "amount": 1000}', '{"x": 1e400}', '{"n": 1.10}', '["\\u0041"]', '{"a":1, "b":2}', "{ }"]
)
def test_a_result_is_shown_as_the_model_was_told_it(text: str) -> None:
    """What JSON would read otherwise is left as it is: a name twice, a number that no program keeps, an escape."""
    assert "".join(parsed(result_block(text)).text) == text


def test_a_result_that_is_plain_json_is_laid_out() -> None:
    text = json.dumps({"invoices": [{"number": f"R-{number}", "open": "1,240.00 EUR"} for number in range(5)]})
    shown = "".join(parsed(result_block(text)).text)
    assert shown.count("\n") > 5
    assert json.loads(shown) == json.loads(text)


async def test_by_whose_leave_names_those_whose_approval_counted(golden_runs: Path) -> None:
    """An approval that lapsed with its request, or was given twice by one person, is nobody's leave any more."""
    text = await told(golden_runs, "01KE0QS170Q6VV9WXMVFBXXTFJ")
    leave = text.partition("By whose leave")[2].partition("Decisions by people")[0]
    assert leave.count("approved by eva") == 1
    assert "approved by otto" not in text
    assert "lapsed, and did not count any more: approval by otto" in leave
    text = await told(golden_runs, "01KE108130PHKTK0SJ25WR0B49")
    leave = text.partition("By whose leave")[2].partition("Decisions by people")[0]
    assert leave.count("approved by maria") == 1


async def test_those_named_are_those_whom_the_fold_counts(golden_runs: Path) -> None:
    async with Journal.open(golden_runs, registry=REGISTRY, read_only=True) as journal:
        for run in _runs(golden_runs):
            trace = await read_trace(journal, run)
            story = RunStory(run, RunState(run))
            async for record in journal.read(f"run/{run}"):
                story.hear(record, journal.registry.decode(record), None)
            for name, call in story.calls.items():
                approved = [vote.by for _, vote in call.votes if vote.decision == "approve"]
                assert approved == list(trace.calls[name].approved_by), (run, name)


async def test_the_rows_of_the_spend_table_add_up_to_what_the_run_spent(golden_runs: Path) -> None:
    async with Journal.open(golden_runs, registry=REGISTRY, read_only=True) as journal:
        for run in _runs(golden_runs):
            chapters = await read_chapters(journal, Subject("run", run), Reading())
            story = chapters.runs[0]
            assert story.state is not None
            spent = story.state.own_spent
            for name in ("input_tokens", "output_tokens", "cached_tokens", "assumed_tokens", "cost"):
                assert sum(getattr(cost, name) or 0 for cost in story.costs) == getattr(spent, name), (run, name)
            rows = re.findall(r"<tr[^>]*>(.*?)</tr>", spend_table([story], chapters.definitions))
            tokens = [_number(row, "Tokens in") for row in rows[1:]]
            assert sum(tokens) == (2 if len(tokens) > 1 else 1) * spent.input_tokens, run


def _number(row: str, head: str) -> int:
    found = re.search(rf'data-head="{head}"[^>]*>([\d,]+)<', row)
    return 0 if found is None else int(found[1].replace(",", ""))


async def test_what_it_starts_from_and_what_it_was_told_are_held_against_their_digests(golden_runs: Path) -> None:
    text = await told(golden_runs, "01KE0W46B0BJA9K890PTPFDCYW")
    assert "run 01KE0W2BR0EK83908FPP3FA5Y2 as it stood after its event 12" in text
    assert "with the digest that was pinned" in text
    assert "The document has the digest that its runs have pinned." in text


async def test_a_call_that_nobody_was_asked_about_stands_out(golden_runs: Path, tmp_path: Path) -> None:
    """All digests are right, and the report says by whose leave it was made: by nobody's, against the definition."""

    def unasked(_: str, event: object) -> object | None:
        if isinstance(event, ActionPlanned) and event.gate == "person" and not event.grounds.policy:
            return evolve(event, gate="free")
        return None if isinstance(event, ApprovalRequested | ApprovalDecided) else event

    forged = await rewritten(golden_runs, tmp_path / "forged.db", unasked)
    text = await told(forged, "01KE108130PHKTK0SJ25WR0B49")
    head = text.partition("Contents")[0]
    assert "These calls are NOT as the definition has it" in head
    assert "01KE108130PHKTK0SJ25WR0B49/0.0" in head
    assert "NOT as the definition has it: " in text.partition("By whose leave")[2].partition("Decisions by people")[0]


async def test_no_golden_run_is_told_to_contradict_its_definition(golden_runs: Path) -> None:
    async with Journal.open(golden_runs, registry=REGISTRY, read_only=True) as journal:
        for run in _runs(golden_runs):
            chapters = await read_chapters(journal, Subject("run", run), Reading())
            assert [call.breach for story in chapters.runs for call in story.calls.values() if call.breach] == []


async def test_green_is_for_what_was_signed(golden_runs: Path) -> None:
    """Who looked at no signature, or tells of what came after it, must not look as if something were proven."""
    async with Journal.open(golden_runs, registry=REGISTRY, read_only=True) as journal:
        found = await journal.verify()
        chapters = await read_chapters(journal, Subject("run", "01KDVDQ4K08R1PCMZZ5184GMN6"), Reading())
    signed = evolve(found, grade="matches checkpoint", signed=found.records)
    for verification, style in (
        (None, "doubt"),
        (found, "doubt"),
        (signed, "ok"),
        (evolve(signed, signed=chapters.last), "ok"),
        (evolve(signed, signed=chapters.last - 1), "doubt"),
        (evolve(found, grade="inconsistent", found=1), "bad"),
    ):
        assert proof_of(chapters, verification).style == style, verification


async def test_a_report_tells_of_nothing_behind_its_end(golden_runs: Path) -> None:
    pieces: list[str] = []
    async with Journal.open(golden_runs, registry=REGISTRY, read_only=True) as journal:
        subject = Subject("run", "01KDVDQ4K08R1PCMZZ5184GMN6")
        assert await write_report(journal, subject, pieces.append, ReportOptions(0, upto=9)) == 8
    text = " ".join("".join(parsed("\n".join(pieces)).text).split())
    assert "At its last record the run is running." in text
    assert "It rains on Mondays." not in text


# ---- the command


def test_the_command_makes_one_file_that_stands_for_itself(golden_runs: Path, tmp_path: Path) -> None:
    before = golden_runs.read_bytes()
    out = tmp_path / "report.html"
    ok_called("export", golden_runs, "--session", "cust-2", "--format", "html", "--out", out)
    page = parsed(out.read_text("utf-8"))
    assert "Session cust-2" in "".join(page.text)
    assert golden_runs.read_bytes() == before
    unverified = ok_called("export", golden_runs, "--session", "cust-2", "--format", "html", "--no-verify")
    assert "The whole journal was not verified for this report." in unverified


@pytest.mark.parametrize(("options", "code"), [([], 2), (["--run", "nobody"], 3), (["--session", "nobody"], 3)])
def test_a_report_needs_a_run_or_a_session(golden_runs: Path, options: list[str], code: int) -> None:
    done = called("export", golden_runs, "--format", "html", *options)
    assert (done.returncode, done.stdout) == (code, "")
    assert complaint(done)
