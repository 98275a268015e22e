"""Writes the golden sealed journal with its keys; run once for each format that was released, never to mend one."""

from __future__ import annotations

import json

import trio
from tests.golden.sealed import FOLDER, MASTER, REGISTRY, Noted, Spoken

from trouper_journal import Domain, Journal, Write
from trouper_journal.sealing import FileKeyStore, destroy_keys

NAME = "sealed-1"


async def main() -> None:
    keys = FileKeyStore(FOLDER / f"{NAME}.keys", MASTER)
    async with Journal.open(FOLDER / f"{NAME}.db", registry=REGISTRY, keys=keys) as journal:
        for name in ("kept", "erased"):
            domain = Domain(f"room/{name}", name.encode() * 4)
            await journal.commit(
                [
                    Write(f"{name}/a", [Spoken("a word"), Noted(1), Spoken({"deep": [1, 2.5, None]})], domain=domain),
                    Write(f"{name}/b", [Spoken("long " * 10_000), Spoken("long " * 10_000)], domain=domain),
                ]
            )
        await journal.append("plain", [Spoken("for everybody")])
        told = [Noted(2), Noted(3)]
        await destroy_keys(
            journal,
            "room/erased",
            ordered=lambda _: told[0],
            carried_out=lambda _: told[1],
            require={"erased/a": 3, "erased/b": 2},
        )
        found = await journal.verify()
        described = {"records": found.records, "root": found.root}
    await trio.Path(FOLDER / f"{NAME}.json").write_text(json.dumps(described) + "\n")


if __name__ == "__main__":
    trio.run(main)
