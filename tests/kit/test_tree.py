"""Names, the tree, statistics, and handles that cannot be forged."""

from __future__ import annotations

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from trouper.kit import (
    Actor,
    ActorStopped,
    ActorSystem,
    Context,
    NameTaken,
    Ref,
    Reply,
    State,
    SystemStatistics,
    open_system,
)


class Leaf(Actor[str]):
    def __init__(self, gate: trio.Event) -> None:
        self.gate = gate

    async def receive(self, message: str) -> None:
        await self.gate.wait()


class Branch(Actor[str]):
    def __init__(self, gate: trio.Event) -> None:
        self.gate = gate
        self.leaves: list[Ref[str]] = []

    async def started(self) -> None:
        for name in ("left", "right"):
            self.leaves.append(await self.context.spawn(Leaf(self.gate), name=name, mailbox=5))

    async def receive(self, message: str) -> None:
        await self.context.system.spawn(Leaf(self.gate), name=message)


async def test_the_tree_shows_names_states_depths_and_children() -> None:
    gate = trio.Event()
    async with open_system(name="shop") as system:
        branch = Branch(gate)
        await system.spawn(branch, name="branch")
        await wait_all_tasks_blocked()
        for _ in range(3):
            branch.leaves[1].tell_nowait("")
        await wait_all_tasks_blocked()
        branch.leaves[1].request_stop()
        tree = system.tree()
        assert (tree.name, tree.path, tree.state) == ("shop", "shop", State.RUNNING)
        assert str(tree).splitlines() == [
            "shop running",
            "  branch running 0/100",
            "    left running 0/5",
            "    right stopping 2/5",
        ]
        assert [child.path for child in tree.children[0].children] == ["shop/branch/left", "shop/branch/right"]
        assert system.statistics() == SystemStatistics(
            actors=3, mailbox=2, waiting_senders=0, spawned=3, failures=0, restarts=0
        )
        gate.set()
    assert system.tree().state is State.STOPPED
    assert system.tree().children == ()
    assert system.statistics().actors == 0


async def test_names_are_unique_among_living_siblings() -> None:
    gate = trio.Event()
    async with open_system() as system:
        first = await system.spawn(Leaf(gate), name="left")
        with pytest.raises(NameTaken, match="system/left"):
            await system.spawn(Leaf(gate), name="left")
        await system.spawn(Branch(gate), name="branch")
        await first.stop()
        await system.spawn(Leaf(gate), name="left")


async def test_an_actor_without_a_name_is_named_for_its_class() -> None:
    gate = trio.Event()
    async with open_system() as system:
        names = [(await system.spawn(actor)).name for actor in (Leaf(gate), Leaf(gate), lambda: Leaf(gate))]
        assert names == ["system/leaf-1", "system/leaf-2", "system/actor-3"]


@pytest.mark.parametrize("name", ["", "a/b"])
async def test_bad_names_and_bounds_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="name"):
        async with open_system(name=name):
            pass
    async with open_system() as system:
        with pytest.raises(ValueError, match="name"):
            await system.spawn(Leaf(trio.Event()), name=name)
        with pytest.raises(ValueError, match="at least 1"):
            await system.spawn(Leaf(trio.Event()), mailbox=0)
        assert system.statistics().spawned == 0


async def test_an_actor_may_spawn_beside_its_supervisor() -> None:
    gate = trio.Event()
    async with open_system() as system:
        ref = await system.spawn(Branch(gate), name="branch")
        await ref.tell("sibling")
        await wait_all_tasks_blocked()
        assert [child.name for child in system.tree().children] == ["branch", "sibling"]


async def test_a_child_that_ended_leaves_the_tree() -> None:
    gate = trio.Event()
    async with open_system() as system:
        branch = Branch(gate)
        ref = await system.spawn(branch)
        await wait_all_tasks_blocked()
        await branch.leaves[0].stop()
        assert ref.statistics().children == 1


async def test_a_context_is_there_from_started_on_and_not_before() -> None:
    actor = Leaf(trio.Event())
    with pytest.raises(RuntimeError, match="Leaf has a context only once it is spawned"):
        _ = actor.context
    async with open_system() as system:
        ref = await system.spawn(actor, name="leaf")
        context = actor.context
        assert (context.name, context.ref, context.system) == ("system/leaf", ref, system)
        await ref.stop()
        with pytest.raises(ActorStopped):
            context.start_task(trio.sleep_forever)
        with pytest.raises(ActorStopped):
            await context.spawn(Leaf(trio.Event()))


@pytest.mark.parametrize("handle", [Ref, Context, Reply, ActorSystem])
def test_handles_cannot_be_forged(handle: type) -> None:
    with pytest.raises(TypeError, match="no public constructor"):
        handle()
    assert handle.__final__  # type: ignore[attr-defined]


async def test_reprs_say_which_and_how() -> None:
    async with open_system(name="shop") as system:
        ref = await system.spawn(Leaf(trio.Event()), name="leaf")
        await wait_all_tasks_blocked()
        assert (repr(system), repr(ref)) == ("<ActorSystem shop running>", "<Ref shop/leaf running>")


async def test_two_systems_in_one_process_know_nothing_of_each_other() -> None:
    async with open_system() as one, open_system() as two:
        await one.spawn(Leaf(trio.Event()), name="leaf")
        await two.spawn(Leaf(trio.Event()), name="leaf")
        assert one.statistics().actors == two.statistics().actors == 1


async def test_what_an_ended_actor_held_is_let_go() -> None:
    import gc
    import weakref

    async with open_system() as system:
        actor = Leaf(trio.Event())
        seen = weakref.ref(actor)
        ref = await system.spawn(actor)
        await ref.stop()
        del actor
        gc.collect()
        assert seen() is None
        assert ref.statistics().state is State.STOPPED
