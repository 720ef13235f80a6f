"""Turns at the engine: who is next, who is refused, and that nobody gains by more connections."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt.serve.shares import Owner, RequestShares

TENANTS, CLIENTS = 4, 3
owners = st.builds(
    Owner, st.integers(0, TENANTS - 1).map(str), st.integers(0, CLIENTS - 1).map(str)
)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("enter"), owners),
        st.tuples(st.sampled_from(["begin", "leave"]), st.integers(0, 99)),
    ),
    max_size=120,
)


class Waiting(RequestShares[Any]):
    """Shares of requests that are prepared at once."""

    def enter(self, request: Any, owner: Owner) -> Any:
        refused = super().enter(request, owner)
        self.wait(request)
        return refused


class Play:
    """Requests of a server whose turns are given at once, and what is known of them."""

    def __init__(self, most: int, most_turns: int) -> None:
        self.shares = Waiting(most, most_turns)
        self.most, self.most_turns = most, most_turns
        self.owner: dict[int, Owner] = {}
        self.phase: dict[int, str] = {}
        self.refused: set[int] = set()
        self.last_turn: dict[str, int] = {}
        self.turns = 0

    def enter(self, owner: Owner) -> int:
        number = len(self.owner)
        self.owner[number] = owner
        if self.refused_by(self.shares.enter(number, owner)) != number:
            self.phase[number] = "waiting"
        self.give()
        return number

    def refused_by(self, refused: int | None) -> int | None:
        if refused is not None:
            assert self.phase.pop(refused, "waiting") == "waiting", "what has begun stays"
            self.refused.add(refused)
        return refused

    def under_way(self) -> list[int]:
        return list(self.phase)

    def act(self, what: str, at: int) -> None:
        if not self.phase:
            return
        number = self.under_way()[at % len(self.phase)]
        getattr(self.shares, what)(number)
        if what == "leave":
            del self.phase[number]
        elif self.phase[number] == "turn":
            self.phase[number] = "begun"
        self.give()

    def give(self) -> None:
        before = dict(self.phase)
        for number in self.shares.next_turns():
            self.check_turn(number)
            self.phase[number] = "turn"
        assert len(self.shares) == len(self.phase)
        assert [one for one in before if one not in self.phase] == []

    def served(self, **of: str) -> int:
        return sum(
            self.phase[one] != "waiting" and self.is_of(self.owner[one], **of) for one in self.phase
        )

    @staticmethod
    def is_of(owner: Owner, tenant: str, client: str | None = None) -> bool:
        return owner.tenant == tenant and client in (None, owner.client)

    def in_turn(self, **of: str) -> int:
        return sum(
            self.phase[one] == "turn" and self.is_of(self.owner[one], **of) for one in self.phase
        )

    def check_turn(self, number: int) -> None:
        """A turn goes to a tenant, and a client of it, that no other that waits is behind."""
        owner, all_turns = self.owner[number], list(self.phase.values()).count("turn")
        assert self.phase[number] == "waiting"
        waiting = [self.owner[one] for one in self.phase if self.phase[one] == "waiting"]
        tenant, client = owner.tenant, owner.client
        own = self.in_turn(tenant=tenant)
        if all_turns >= self.most_turns and own:
            assert all_turns < 2 * self.most_turns
            assert not self.in_turn(tenant=tenant, client=client)
            assert {other.tenant for other in waiting} == {tenant}
        elif all_turns < self.most_turns:
            for other in waiting:
                assert self.served(tenant=tenant) <= self.served(tenant=other.tenant)
                if other.tenant == tenant:
                    assert self.served(tenant=tenant, client=client) <= self.served(
                        tenant=tenant, client=other.client
                    )
        earlier = [one for one in range(number) if self.phase.get(one) == "waiting"]
        assert owner not in [self.owner[one] for one in earlier], "a client's own are in order"


@settings(max_examples=200, deadline=None)
@given(steps=steps, most=st.integers(1, 12), most_turns=st.integers(1, 4))
def test_turns_go_to_those_who_have_least(steps, most: int, most_turns: int) -> None:
    play = Play(most, most_turns)
    for what, given_ in steps:
        if what == "enter":
            play.enter(given_)
        else:
            play.act(what, given_)
        assert len(play.shares) <= 2 * most
        waiting = [play.owner[one] for one in play.phase if play.phase[one] == "waiting"]
        turns = list(play.phase.values()).count("turn")
        assert not waiting or turns >= most_turns, "no turn is left over"
        assert all(play.in_turn(tenant=owner.tenant) for owner in waiting)
    while play.phase:  # whatever waits has its turn in the end
        began = [one for one in play.phase if play.phase[one] != "waiting"]
        assert began
        play.act("leave", play.under_way().index(began[0]))


@settings(max_examples=60, deadline=None)
@given(
    crowd=st.integers(1, 30),
    others=st.integers(0, 5),
    ends=st.lists(st.integers(0, 99), min_size=40, max_size=40),
)
def test_a_newcomer_waits_for_one_turn_of_each_other(
    crowd: int, others: int, ends: list[int]
) -> None:
    """Among clients of one tenant, even if turns are short."""
    shares = Waiting(1000, most_turns=1)
    names = ["crowd"] * crowd + [f"other{at}" for at in range(others)]
    owner = {}
    for at, name in enumerate(names * 3):
        owner[name, at] = Owner("key", name)
        shares.enter((name, at), owner[name, at])
    in_turn = shares.next_turns()
    shares.enter(("new", 0), Owner("key", "new"))
    in_turn += shares.next_turns()
    before: list[str] = []
    for at, end in enumerate(ends):
        if ("new", 0) in in_turn:
            break
        ended = in_turn.pop(end % len(in_turn))
        shares.leave(ended)
        shares.enter((ended[0], 1000 + at), Owner("key", ended[0]))  # and asks again
        found = shares.next_turns()
        before += [name for name, _ in found if name != "new"]
        in_turn += found
    assert ("new", 0) in in_turn
    assert max(Counter(before).values(), default=0) <= 1


@settings(max_examples=60, deadline=None)
@given(many=st.integers(2, 40), turns=st.integers(2, 60))
def test_more_connections_and_clients_gain_no_turn(many: int, turns: int) -> None:
    """One asks over many clients at once, the other over one: each has every other turn."""
    shares = Waiting(1000, most_turns=2)
    for at in range(many):
        shares.enter(("many", at), Owner("many", str(at)))
    shares.enter(("one", 0), Owner("one", ""))
    shares.enter(("one", 1), Owner("one", ""))
    had = Counter[str]()
    in_turn = shares.next_turns()
    for at in range(turns):
        name, number = in_turn.pop(0)
        had[name] += 1
        shares.leave((name, number))
        client = str(number % many) if name == "many" else ""
        shares.enter((name, 1000 + at), Owner(name, client))
        in_turn += [one for one in shares.next_turns() if one not in in_turn]
    assert abs(had["many"] - had["one"]) <= 2


def test_a_newcomer_takes_the_place_of_the_last_of_the_largest() -> None:
    shares = Waiting(4, most_turns=1)
    for name in "abcd":
        assert shares.enter(name, Owner("many", name)) is None
    assert shares.next_turns() == ["a", "b"]
    assert shares.enter("e", Owner("many", "e")) == "e", "none has more"
    assert shares.enter("f", Owner("new", "")) == "d"
    assert shares.enter("g", Owner("new", "")) == "c"
    assert shares.enter("h", Owner("new", "")) == "h", "both have two"
    assert shares.next_turns() == ["f"], "a tenant without a turn has one at once"
    assert len(shares) == 4
    shares.leave("d")  # it is told so late
    assert len(shares) == 4


def test_clients_of_a_key_share_its_places() -> None:
    shares = Waiting(4, most_turns=1)
    for number in range(4):
        shares.enter(number, Owner("key", "many"))
    assert shares.next_turns() == [0]
    assert shares.enter(4, Owner("key", "new")) == 3
    assert shares.enter(5, Owner("key", "new")) == 2
    assert shares.enter(6, Owner("key", "new")) == 6
    assert shares.next_turns() == [4]


def test_where_nothing_waits_a_tenant_below_its_share_is_taken() -> None:
    """So many as twice the limit, since what has begun is not ended for others."""
    shares = Waiting(4)
    for number in range(4):
        assert shares.enter(number, Owner("many", "")) is None
    assert shares.next_turns() == [0, 1, 2, 3]
    assert shares.enter(4, Owner("many", "")) == 4
    for number in (5, 6):
        assert shares.enter(number, Owner("new", "")) is None
        assert shares.next_turns() == [number]
    assert shares.enter(7, Owner("new", "")) == 7
    for number in (0, 1):
        shares.leave(number)
    assert len(shares) == 4
    assert shares.enter(8, Owner("many", "")) == 8


def test_what_is_prepared_has_no_turn_and_counts_for_its_owner() -> None:
    shares = RequestShares[str](3, most_turns=1)
    for name in ("slow", "quick"):
        assert shares.enter(name, Owner("many", name)) is None
    assert shares.enter("new", Owner("new", "")) is None
    assert shares.next_turns() == []
    shares.wait("quick")
    shares.wait("new")
    assert shares.next_turns() == ["new", "quick"], "the tenant that has less goes first"
    shares.leave("slow")
    shares.wait("slow")
    assert shares.next_turns() == []
    assert len(shares) == 2
