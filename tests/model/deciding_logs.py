"""Random logs in which nearly everything counts and much is decided: withdrawals of withdrawals, opposite resolves."""

import random
from typing import Any

from hypothesis import strategies as st

from lastword_schemas.positions import Receipt
from tests.model.logs import SCOPES, TEXT, identifier
from tests.support.logs import ADA, UNSET, Log, registry_of

KEYS = ("home", "home", "guess")
INFERRED = {"min_authority": "inferred"}
KINDS = (
    *("say", "say", "set", "set", "set", "delete", "read", "read", "read"),
    *("withdraw", "withdraw", "resolve", "correct"),
)
QUOTES = ((0, "no"), (5, "yes"), (10, "no"))


class Deciding:
    """Writes such a log; every number is drawn from one seed."""

    def __init__(self, seed: int) -> None:
        self.log = Log(registry=registry_of(guess=INFERRED, home={"policy": "branch"}))
        self.random = random.Random(seed)
        self.turns: list[Receipt] = []
        self.said: list[Receipt] = []
        """Whatever can be withdrawn."""
        self.read: list[str] = []
        """Ids of candidates."""
        self.sets: dict[str, list[str]] = {}
        self.number = 0

    def act(self) -> None:
        """Somebody does something."""
        kind = self.random.choice(KINDS)
        self.number += 1
        scope = SCOPES[self.random.choice([0, 0, 0, 1])]
        common: dict[str, Any] = {"event_id": identifier(self.number), "scope": scope}
        key, value = self.random.choice(KEYS), self.random.choice(["no", "yes", "maybe"])
        authority = self.random.choice(["inferred", "stated", "stated", "confirmed", "confirmed"])
        weight = common | {"authority": authority, "role": "person" if authority == "confirmed" else "service"}
        at = f"{common['scope']} {key}"
        if kind == "say":
            self.turns.append(self.log.say(ADA, TEXT, **common))
            self.said.append(self.turns[-1])
        elif kind in ("set", "correct"):
            if kind == "correct" and self.said:
                weight["withdraws"] = [self.random.choice(self.said).event_id]
            if self.random.random() < 0.2:
                weight["retires"] = [{"scope": common["scope"], "key": "guess" if key == "home" else "home"}]
            self._set(at, self.log.set(ADA, key, value, **weight))
        elif kind == "delete":
            self.said.append(self.log.delete(ADA, key, **weight))
        elif kind == "read" and self.turns:
            self._set(at, self.read_one(key, value, self.random.choice(self.turns), common), is_read=True)
        elif kind == "withdraw" and self.said:
            named = {self.random.choice(self.said[-5:]).event_id, self.random.choice(self.said).event_id}
            self.said.append(self.log.withdraw(ADA, *sorted(named), **weight))
        elif kind == "resolve" and len(among := self.sets.get(f"{common['scope']} home", [])) > 1:
            chosen = self.random.sample(among, min(len(among), self.random.choice([2, 2, 3])))
            self.said.append(self.log.resolve(ADA, "home", *chosen, **weight))

    def read_one(self, key: str, value: str, turn: Receipt, common: dict[str, Any]) -> Receipt:
        """A candidate; now and then one that withdraws an earlier one, or a retraction."""
        more: dict[str, Any] = {}
        if self.random.random() < 0.6:
            start, quote = self.random.choice(QUOTES)
            more = {"quote": quote, "start": start}
        if self.random.random() < 0.15:
            return self.log.candidate(ADA, key, UNSET, source=turn, **common, **more)
        if self.read and self.random.random() < 0.25:
            more["withdraws"] = [self.random.choice(self.read)]
        return self.log.candidate(ADA, key, value, source=turn, **common, **more)

    def _set(self, at: str, receipt: Receipt, *, is_read: bool = False) -> None:
        self.said.append(receipt)
        self.sets.setdefault(at, []).append(receipt.event_id)
        if is_read:
            self.read.append(receipt.event_id)


def deciding_log(seed: int, length: int) -> Log:
    """The log of a seed."""
    author = Deciding(seed)
    for _ in range(length):
        author.act()
    return author.log


deciding_logs = st.builds(deciding_log, st.integers(0, 2**32 - 1), st.integers(1, 40))
