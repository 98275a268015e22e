"""The witness behind HTTP, against a real server on loopback that keeps the rules of C2SP tlog-witness."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
import trio
from attrs import define, field
from tests.cli.program import called, complaint, ok_called, one_object
from tests.journal.signed_log import KEY, REGISTRY, WITNESS, Counted, ask

from trouper_adapters.witness_http import HTTPWitness
from trouper_journal import Journal
from trouper_journal.proofs import InvalidProof, check_consistency
from trouper_journal.signing import (
    Checkpoint,
    InvalidNote,
    cosign,
    new_key,
    open_checkpoint,
    read_submission,
    write_key,
)

SIZE = {"Content-Type": "text/x.tlog.size"}

Answer = tuple[int, dict[str, str], str]


@define
class Server:
    """What the witness remembers, and what it is to answer instead of the truth."""

    latest: Checkpoint | None = None
    requests: list[str] = field(factory=list)
    instead: Answer | None = None
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/prefix"

    def answer(self, path: str, body: str) -> Answer:
        assert path == "/prefix/add-checkpoint"
        self.requests.append(body)
        if self.instead is not None:
            return self.instead
        old, proof, note = read_submission(body)
        if Checkpoint.parse(note.text).origin != KEY.name:
            return 404, {}, ""
        try:
            submitted = open_checkpoint(note, KEY.verifier).checkpoint
        except InvalidNote:
            return 403, {}, ""
        size = 0 if self.latest is None else self.latest.size
        if old > submitted.size:
            return 400, {}, ""
        if old != size:
            return 409, SIZE, f"{size}\n"
        if self.latest is not None:
            if size == submitted.size and self.latest.root != submitted.root:
                return 409, {}, ""
            try:
                check_consistency(old, submitted.size, proof, self.latest.root, submitted.root)
            except InvalidProof:
                return 422, {}, ""
        self.latest = submitted
        stranger = new_key("witness.example/other", witness=True)
        lines = [cosign(submitted, key, 1_700_000_000) for key in (stranger, WITNESS)]
        return 200, {}, "".join(f"{line}\n" for line in lines)


@contextmanager
def serving() -> Iterator[Server]:
    state = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            status, headers, text = state.answer(self.path, body)
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(text.encode()))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        state.port = server.server_address[1]
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield state
        finally:
            server.shutdown()
            thread.join()


async def test_a_growing_log_is_cosigned_with_one_request_each() -> None:
    with serving() as server:
        witness = HTTPWitness(server.url, WITNESS.verifier)
        for count in (3, 8, 8):
            signed, why = await ask(witness, count)
            assert not why
            assert [each.name for each in signed.witnesses] == ["witness.example/w"]
            assert len(signed.note.signatures) == 2, "of others nothing is taken over"
        assert [body.split("\n")[0] for body in server.requests] == ["old 0", "old 3", "old 8"]


async def test_a_witness_that_stands_elsewhere_says_so_and_is_given_that_proof() -> None:
    with serving() as server:
        await ask(HTTPWitness(server.url, WITNESS.verifier), 3)
        signed, why = await ask(HTTPWitness(f"{server.url}/", WITNESS.verifier), 8)
        assert not why
        assert signed.witnesses
        assert [body.split("\n")[0] for body in server.requests] == ["old 0", "old 0", "old 3"]


async def test_what_a_witness_finds_wrong_is_said() -> None:
    with serving() as server:
        await ask(witness := HTTPWitness(server.url, WITNESS.verifier), 8)
        _, why = await ask(HTTPWitness(server.url, WITNESS.verifier), 5)
        assert "has cosigned 8 records, the checkpoint has 5" in why
        _, why = await ask(witness, 8, other_from=1)
        assert "has cosigned another history of this size: a split view (HTTP status 409)" in why
        _, why = await ask(witness, 9, other_from=1)
        assert "does not accept the proof" in why


@pytest.mark.parametrize(
    ("instead", "words"),
    [
        ((404, {}, ""), "does not know the log (HTTP status 404)"),
        ((403, {}, ""), "does not trust the key"),
        ((500, {}, "x"), "does not cosign (HTTP status 500)"),
        ((302, {"Location": "http://127.0.0.1:1/"}, ""), "does not cosign (HTTP status 302)"),
        ((200, {}, ""), "without a signature of its key"),
        ((200, {}, "<html>\n"), "answers with something else"),
        ((200, {}, "x" * 200_000), "answers with more than 100,000 bytes"),
        ((200, {"Content-Encoding": "gzip"}, "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"), "answers with something else"),
        ((409, SIZE, "many\n"), "does not say what it has cosigned before"),
        ((409, SIZE, "0\n"), "(HTTP status 409)"),
        ((409, SIZE, "9223372036854775807\n"), "the checkpoint has 3"),
    ],
)
async def test_odd_answers_are_refusals(instead: Answer, words: str) -> None:
    with serving() as server:
        server.instead = instead
        signed, why = await ask(HTTPWitness(server.url, WITNESS.verifier), 3)
    assert words in why
    assert signed.witnesses == ()
    assert len(server.requests) <= 3


async def test_one_that_never_answers_is_a_refusal() -> None:
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listeners[0].socket.getsockname()[1]
    _, why = await ask(HTTPWitness(f"http://127.0.0.1:{port}", WITNESS.verifier, timeout=0.05), 3)
    assert "has not answered within 0.05 seconds" in why
    for listener in listeners:
        await listener.aclose()


async def test_nobody_there_is_a_refusal() -> None:
    with serving() as server:
        url = server.url
    _, why = await ask(HTTPWitness(url, WITNESS.verifier), 3)
    assert "witness.example/w cannot be asked" in why


def test_the_command_asks_witnesses_and_keeps_what_they_sign(tmp_path: Path) -> None:
    async def made(path: Path) -> None:
        async with Journal.open(path, registry=REGISTRY) as journal:
            await journal.append("s", [Counted(1), Counted(2)])

    trio.run(made, journal := tmp_path / "j.db")
    write_key(key := tmp_path / "key", KEY)
    with serving() as server:
        (tmp_path / "ours.py").write_text(
            "from trouper_adapters.witness_http import HTTPWitness\n"
            "from trouper_journal.signing import VerifierKey\n"
            f"witness = HTTPWitness({server.url!r}, VerifierKey.parse({str(WITNESS.verifier)!r}))\n"
        )
        asking = ("checkpoint", journal, "--key", key, "--witness-py", f"{tmp_path}/ours.py:witness")
        printed = ok_called(*asking)
        assert ok_called(*asking) == printed, "who has signed is not asked again"
        assert len(server.requests) == 1
        trio.run(made, journal)
        server.instead = (404, {}, "")
        done = called(*asking)
        assert done.returncode == 1
        assert "the witness witness.example/w has not signed: witness.example/w does not know the log" in done.stderr
        server.instead = None
        ok_called(*asking)
    kept = Path(f"{journal}.checkpoints").read_text("utf-8")
    assert kept.startswith(printed)
    assert kept.count("— witness.example/w ") == 2
    verified = ok_called("verify", journal, "--pub", str(KEY.verifier), "--witness", str(WITNESS.verifier))
    assert verified.startswith("witnessed, checkpoint of 4 records: 4 records")
    assert "cosigned by witness.example/w" in verified
    assert called("checkpoint", journal, "--key", key, "--witness-py", f"{tmp_path}/ours.py:nobody").returncode == 3
    assert called("checkpoint", journal, "--key", key, "--witness-py", f"{tmp_path}/ours.py").returncode == 2


def test_a_witness_is_named_by_its_url_and_key(tmp_path: Path) -> None:
    async def made(path: Path) -> None:
        async with Journal.open(path, registry=REGISTRY) as journal:
            await journal.append("s", [Counted(1), Counted(2)])

    trio.run(made, journal := tmp_path / "j.db")
    write_key(key := tmp_path / "key", KEY)
    (pub := tmp_path / "w.pub").write_text(f"{WITNESS.verifier}\n")
    asking = ("checkpoint", journal, "--key", key)
    first = one_object(ok_called(*asking, "--json"))
    assert (first["added"], first["cosigned_by"]) == (True, [])
    with serving() as server:
        done = called(*asking, "--witness-url", server.url, pub)
        assert done.returncode == 0
        assert "nothing new was recorded since the last one" in done.stderr
        assert done.stderr.endswith("; now cosigned by witness.example/w\n")
        assert "— witness.example/w " in done.stdout
        again = one_object(ok_called(*asking, "--witness-url", server.url, str(WITNESS.verifier), "--json"))
        assert (again["added"], again["cosigned_by"]) == (False, [])
        assert len(server.requests) == 1
        server.instead = (404, {}, "")
        trio.run(made, journal)
        assert "does not know the log" in called(*asking, "--witness-url", server.url, pub).stderr
    verified = ok_called("verify", journal, "--pub", str(KEY.verifier), "--witness", pub)
    assert verified.startswith("matches checkpoint of 4 records: 4 records")
    for url, given, complains in (
        ("witness.example", str(WITNESS.verifier), "is no URL"),
        ("https://witness.example", str(KEY.verifier), "is not a witness's"),
        ("https://witness.example", "w+00000000+nonsense", "no public key"),
    ):
        done = called(*asking, "--witness-url", url, given)
        assert (done.returncode, complains in complaint(done)) == (2, True)
