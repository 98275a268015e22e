"""What was signed before streams left for an archive is still what the journal holds, and still proves records."""

from __future__ import annotations

from pathlib import Path

import trio
from tests.cli.program import ok_called, one_object
from tests.journal.notes import REGISTRY, Note

from trouper_journal import Archived, Journal, Write
from trouper_journal.archive import beside, move_to_archive, open_archive, write_archive
from trouper_journal.proofs import check_consistency, check_inclusion, prove_growth, prove_inclusion
from trouper_journal.signing import SignedCheckpoint, new_key, sign_head, verify_signed

KEY = new_key("example.com/desk")


async def made(path: Path) -> SignedCheckpoint:
    async with Journal.open(path, registry=REGISTRY) as journal, journal.drive("me") as fence:
        for number in range(20):
            await journal.commit([Write(f"s{number % 3}", [Note(number, "said")], label="ended")], fence=fence)
        signed = await sign_head(journal, KEY)
        await write_archive(journal, path.with_suffix(".archive"), [["s2"]], new_id=b"an archive's id.", now=1)
        moved = await move_to_archive(
            journal, path.with_suffix(".archive"), at=await journal.position(), allowed=lambda _: True
        )
        assert moved.records == 6
        await journal.append("s0", [Note(21)], fence=fence)
    return signed


def test_checkpoints_and_proofs_outlast_archiving(tmp_path: Path) -> None:
    signed = trio.run(made, path := tmp_path / "j.db")
    root = signed.checkpoint.root

    async def check(journal: Journal) -> None:
        found = await verify_signed(journal, [signed])
        assert (found.grade, found.records) == ("matches checkpoint", 21)
        proof = await prove_inclusion(journal, [1, 3, 20], size=20)
        for position, proved in proof.paths.items():
            check_inclusion(proof.leaves[position], position - 1, 20, proved, root)
        growth = await prove_growth(journal, 20)
        check_consistency(20, 21, growth.path, root, growth.new_root)
        assert (await sign_head(journal, KEY, [signed.checkpoint])).checkpoint.size == 21

    async def alone() -> None:
        async with Journal.open(path, registry=REGISTRY, read_only=True) as journal:
            assert isinstance((await journal.read_page("s2"))[0], Archived)
            await check(journal)

    async def with_archive() -> None:
        async with (
            open_archive(path.with_suffix(".archive")) as archive,
            Journal.open(path, registry=REGISTRY, read_only=True, wrap=beside(archive)) as journal,
        ):
            assert not isinstance((await journal.read_page("s2"))[0], Archived)
            await check(journal)

    trio.run(alone)
    trio.run(with_archive)


def test_the_command_proves_an_archived_record_and_names_its_archive(tmp_path: Path) -> None:
    trio.run(made, path := tmp_path / "j.db")
    found = one_object(ok_called("prove", path, "3"))
    assert found["record"] == {"stream": "s2", "version": 1, "archived": "j.archive"}
    assert "archived" not in str(one_object(ok_called("prove", path, "1"))["record"])
