"""Long histories: readings within any boundary are the fold of all events, whatever state the key indexes are in."""

import random
from collections.abc import Callable, Iterator

import pytest
import redis

from lastword_projector.engine.known import KeyRef, Needs
from lastword_projector.engine.latest import fold
from lastword_projector.engine.policies import POLICIES
from lastword_projector.engine.records import Entry, Record
from lastword_projector.projector import PartitionProjector
from lastword_projector.store import commits, plans
from lastword_projector.store.calls import together
from lastword_projector.store.names import Names
from lastword_projector.store.pipe import Pipe
from lastword_projector.store.redis import RedisStore
from tests.support.logs import ADA, BEN, UNSET, Log, SentLetters, Stores, event_id, project

LATEST = POLICIES["latest"]
NAMES = Names("main")
OWN = NAMES.of(0)
KEYS = (
    KeyRef(ADA, "global", "tone"),
    KeyRef(ADA, "project:Comet", "tone"),
    KeyRef(ADA, "global", "guess"),
    KeyRef(ADA, "global", "theme"),
    KeyRef(ADA, "global", "answer_detail"),
    KeyRef(BEN, "global", "tone"),
)
"""`theme` is set once, early; `answer_detail` never; `guess` is restated over and over."""

SCOPES = ("global", "project:Comet")

State = Callable[["redis.Redis", Pipe], None]


def long_log(seed: int, length: int) -> Log:
    """One owner's life: statements, turns that are read late, deletes, ties, restatements; refused events, copies."""
    choice = random.Random(seed).choice
    log = Log()
    turns = [log.say(ADA, "no yes no")]
    log.set(ADA, "theme", "dark")
    said = []
    for number in range(length):
        scope = choice(["global", "global", "global", "project:Comet"])
        match choice(
            ["set", "read", "read", "read", "say", "delete", "guess", "guess", "copy", "refused", "other", "move"]
        ):
            case "set":
                said.append(log.set(ADA, "tone", choice(["no", "yes"]), scope=scope))
            case "read":
                start, words = choice([(0, "no"), (3, "yes"), (7, "no")])
                source = choice([turns[-1], turns[-1], turns[-1], choice(turns[-40:]), choice(turns)])
                value = choice([words, "maybe"])
                log.candidate(ADA, "tone", value, source=source, quote=words, start=start, scope=scope)
            case "say":
                turns.append(log.say(ADA, "no yes no"))
            case "delete":
                log.delete(ADA, "tone", scope=scope)
            case "guess":
                log.candidate(ADA, "guess", choice([1] * 30 + [2]), source=choice(turns))
            case "move":
                retires = [{"scope": other, "key": "tone"} for other in SCOPES if other != scope]
                retires += [{"scope": "global", "key": "guess"}] if number % 3 == 0 else []
                log.candidate(
                    *(ADA, "tone", "yes"), source=choice(turns[-9:]), quote="no", scope=scope, retires=retires
                )
            case "copy" if said:
                log.copy(choice(said))
            case "refused":
                log.set(ADA, "undeclared", number)
            case _:
                log.set(BEN, "tone", number)
    return log


@pytest.fixture
def client(redis_url: str) -> Iterator["redis.Redis"]:
    with redis.Redis.from_url(redis_url) as client:
        yield client


@pytest.fixture
def pipe(redis_url: str) -> Iterator[Pipe]:
    pipe = Pipe(redis_url)
    yield pipe
    pipe.reset()


def projected(redis_url: str, log: Log, *, batch: int = 150) -> RedisStore:
    store = RedisStore(redis_url, NAMES)
    worker = PartitionProjector(log.genesis, store, SentLetters())
    for first in range(0, len(log.records), batch):
        worker.project(log.records[first : first + batch])
    return store


def indexed(client: "redis.Redis", owner: str = ADA) -> int:
    """How many items of the history the indexes have."""
    ended = client.get(OWN.indexed(owner))
    assert ended is None or isinstance(ended, bytes)
    return int(ended or 0)


# --- what can have become of the indexes


def as_the_worker_left_them(client: "redis.Redis", pipe: Pipe) -> None:
    """Up to the last multiple of 64 events or so."""


def up_to_the_end(client: "redis.Redis", pipe: Pipe) -> None:
    pipe.run(commits.index(NAMES, 0, ADA))
    assert indexed(client) == client.llen(OWN.history(ADA))


def lost(client: "redis.Redis", pipe: Pipe) -> None:
    """All of them, with the mark."""
    names = [*client.scan_iter(match=f"{OWN.prefix}k:*"), *client.scan_iter(match=f"{OWN.prefix}i:*")]
    assert len(names) > 4
    client.delete(*names)


def without_their_mark(client: "redis.Redis", pipe: Pipe) -> None:
    """The mark alone is lost: they are not believed."""
    assert client.delete(OWN.indexed(ADA)) == 1


def half_built(client: "redis.Redis", pipe: Pipe) -> None:
    """Lost, and then the first step of building them anew was done."""
    lost(client, pipe)
    building = commits.index(NAMES, 0, ADA)
    calls = next(building)
    for _ in range(3):
        calls = building.send(pipe.read(pipe.send_calls(calls)))
    building.close()
    assert indexed(client) == plans.SLICE


def built_once_more(client: "redis.Redis", pipe: Pipe) -> None:
    """The mark was lost, and everything is indexed again on top of what is there."""
    without_their_mark(client, pipe)
    up_to_the_end(client, pipe)


def raced(client: "redis.Redis", pipe: Pipe) -> None:
    """Two build them at the same time; the slower one finds that somebody has been there."""
    lost(client, pipe)
    slow = commits.index(NAMES, 0, ADA)
    calls = next(slow)
    for _ in range(2):
        calls = slow.send(pipe.read(pipe.send_calls(calls)))
    up_to_the_end(client, pipe)
    with pytest.raises(StopIteration):
        slow.send(pipe.read(pipe.send_calls(calls)))
    assert indexed(client) == client.llen(OWN.history(ADA))


STATES = (as_the_worker_left_them, up_to_the_end, lost, without_their_mark, half_built, built_once_more, raced)


def boundaries(log: Log, state: State) -> range:
    """All that there are; for states that are much like another only some."""
    return range(-1, log.next_offset, 1 if state in (as_the_worker_left_them, half_built) else 11)


def within(stores: Stores, ref: KeyRef, as_of: int | None, known_at: int) -> Entry | None:
    """The fold of all of the key's events within the boundary."""
    return fold(
        record
        for record in counting(stores, ref)
        if record.sequence <= known_at and (as_of is None or record.source_sequence <= as_of)
    )


def counting(stores: Stores, ref: KeyRef) -> list[Record]:
    return [
        part
        for record in stores.records(ref.owner)
        for part in (record, *record.deletes())
        if record.counts and (part.scope, part.key) == (ref.scope, ref.key)
    ]


LONG, LONGER = 420, 1300


@pytest.fixture(scope="module")
def log() -> Log:
    return long_log(1, LONG)


@pytest.fixture(scope="module")
def stores(log: Log) -> Stores:
    found = project(log)
    assert len(found.records(ADA)) > plans.SLICE + 64
    verdicts = [record.verdict for record in counting(found, KEYS[0])]
    assert verdicts.count("late") > 20
    assert "conflict" in verdicts
    assert len([record for record in counting(found, KEYS[0]) if record.retired_by]) > 5
    return found


@pytest.mark.parametrize("state", STATES)
def test_every_as_of_is_the_fold_of_all_events_within_it(
    redis_url: str, client: "redis.Redis", pipe: Pipe, log: Log, stores: Stores, state: State
) -> None:
    projected(redis_url, log).reset()
    state(client, pipe)
    last = log.next_offset - 1
    for ref in KEYS:
        asked = [None, *boundaries(log, state), last + 1, 2**53 - 1]
        found = pipe.run(together([plans.entry_at(NAMES, 0, ref, LATEST, as_of=at, known_at=last) for at in asked]))
        assert found == [within(stores, ref, at, last) for at in asked], ref


@pytest.mark.parametrize("state", STATES)
def test_every_known_at_is_the_fold_of_all_events_within_it(
    redis_url: str, client: "redis.Redis", pipe: Pipe, log: Log, stores: Stores, state: State
) -> None:
    projected(redis_url, log).reset()
    state(client, pipe)
    asked = boundaries(log, state)
    for ref, as_of in (*((ref, None) for ref in KEYS), (KEYS[0], log.next_offset // 2)):
        found = pipe.run(together([plans.entry_at(NAMES, 0, ref, LATEST, as_of=as_of, known_at=at) for at in asked]))
        assert found == [within(stores, ref, as_of, at) for at in asked], ref


@pytest.mark.parametrize("seed", range(3))
def test_every_pair_of_boundaries_in_a_longer_history(redis_url: str, pipe: Pipe, seed: int) -> None:
    """Every seventh as-of with every ninth known-at, and those at random."""
    log = long_log(100 + seed, LONGER)
    stores = project(log)
    projected(redis_url, log, batch=400).reset()
    rng = random.Random(seed)
    end = log.next_offset
    pairs = [(as_of, known_at) for as_of in range(seed, end, end // 9) for known_at in range(seed, end, end // 7)]
    pairs += [(rng.randrange(end), rng.randrange(end)) for _ in range(60)]
    for ref in KEYS:
        asked = [plans.entry_at(NAMES, 0, ref, LATEST, as_of=as_of, known_at=known_at) for as_of, known_at in pairs]
        assert pipe.run(together(asked)) == [within(stores, ref, *pair) for pair in pairs], ref


@pytest.mark.parametrize("state", STATES)
def test_a_keys_history_is_all_of_its_counting_events_below_a_sequence(
    redis_url: str, client: "redis.Redis", pipe: Pipe, log: Log, stores: Stores, state: State
) -> None:
    store = projected(redis_url, log)
    state(client, pipe)
    for ref in KEYS:
        expected = counting(stores, ref)
        for below in (0, 2, 3, 64, 65, 200, log.next_offset - 1, log.next_offset, 2**53):
            found = store.key_history(0, ref, below=below)
            assert found == [record for record in expected if record.sequence < below], (ref, below)
    store.reset()


def test_a_key_with_more_events_than_a_window_has_all_of_them(
    redis_url: str, client: "redis.Redis", pipe: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plans, "SLICE", 32)
    log = long_log(7, LONG)
    stores = project(log)
    store = projected(redis_url, log)
    for state in (as_the_worker_left_them, up_to_the_end):
        state(client, pipe)
        for ref in KEYS:
            assert store.key_history(0, ref, below=2**53) == counting(stores, ref)
    store.reset()


@pytest.mark.parametrize("batch", [1, 7, 64, 1000])
def test_the_worker_keeps_the_indexes_of_long_histories_up(redis_url: str, client: "redis.Redis", batch: int) -> None:
    log = long_log(3, 200)
    projected(redis_url, log, batch=batch).reset()
    length = client.llen(OWN.history(ADA))
    assert isinstance(length, int)
    assert length - indexed(client) < 64
    assert indexed(client, "main/user:nobody") == 0


def test_a_state_has_the_checkpoint_that_bounds_it(redis_url: str, pipe: Pipe, log: Log, stores: Stores) -> None:
    store = projected(redis_url, log)
    wanted = [(ref.scope, ref.key) for ref in KEYS if ref.owner == ADA]
    for as_of, known_at in ((None, None), (100, None), (None, 100), (250, 300), (10**9, 10**9)):
        found = pipe.run(plans.state_at(NAMES, 0, ADA, wanted, as_of=as_of, known_at=known_at))
        assert found.checkpoint == stores.store.checkpoint(0)
        limit = log.next_offset - 1 if known_at is None else known_at
        expected = {at: within(stores, KeyRef(ADA, *at), as_of, limit) for at in wanted}
        assert found.entries == {at: entry for at, entry in expected.items() if entry is not None}
        assert found.last is None
    nobody = pipe.run(plans.state_at(Names("empty"), 0, ADA, wanted, as_of=None, known_at=None))
    assert nobody == plans.StateRead(None, {}, None)
    store.reset()


def test_what_can_expire_comes_with_the_last_record_within_the_boundary(redis_url: str, pipe: Pipe) -> None:
    log = Log()
    log.set(ADA, "tone", "brief", expires_at="2027-01-01T00:00:00Z")
    for number in range(10):
        log.set(BEN if number % 2 else ADA, "theme", number)
    store = projected(redis_url, log)
    records = project(log).records(ADA)
    for as_of, known_at in ((None, None), (5, None), (None, 6), (4, 8), (8, 4), (10**9, None)):
        found = pipe.run(plans.state_at(NAMES, 0, ADA, [("global", "tone")], as_of=as_of, known_at=known_at))
        limit = min(value for value in (as_of, known_at, log.next_offset) if value is not None)
        assert found.last == [record for record in records if record.sequence <= limit][-1]
    store.reset()


def test_late_events_refold_a_long_history_from_its_index(redis_url: str, pipe: Pipe) -> None:
    """The same bytes as a store without any index, where events need all of a key's history."""
    log = long_log(11, LONG)
    turn = log.say(ADA, "no yes no")
    for number in range(6):  # ties, which need the history
        quote = ("no", "yes")[number % 2]
        log.candidate(
            ADA, "tone", quote, source=turn, quote="no", event_id=event_id(90_000 - number), authority="stated"
        )
    log.candidate(ADA, "tone", UNSET, source=turn, quote="no")
    store = projected(redis_url, log, batch=50)
    stores = project(log)
    for ref in KEYS:
        assert store.load(0, Needs(entries=[ref])).result().entries[ref] == stores.entry(ref.owner, ref.key, ref.scope)
    assert store.key_history(0, KEYS[0], below=2**53) == counting(stores, KEYS[0])
    store.reset()
