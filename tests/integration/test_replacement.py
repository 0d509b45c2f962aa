"""Rebuilds beside the projection in force, and migrations, on the real Kafka and a real Redis."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import redis

from lastword.cli import main
from lastword.embedded import EmbeddedBroker
from lastword.running import check_migration, make_auditor, run_rebuild, run_replacement
from lastword_projector.audit.violations import GroundingInvariantViolation
from lastword_projector.engine.upcasting import ChangePolicy, MoveKey, Upcasters
from lastword_projector.migration import MigrationHalted
from lastword_projector.rebuild import RebuildStopped
from lastword_projector.replacement import Replaced, Replacement
from lastword_projector.store import plans, pointer
from lastword_projector.store.calls import Call
from lastword_projector.store.names import Names, field_of
from lastword_projector.store.pipe import Pipe
from lastword_projector.store.ports import StoreUnavailable
from lastword_schemas.errors import InvalidInput
from lastword_schemas.partitions import partition_for
from tests.support.running import RunningLastword
from tests.support.topics import records_of

pytestmark = pytest.mark.real

PARTITIONS = 3
OWNERS = [f"main/user:{number}" for number in range(12)]
ADA = OWNERS[0]
SECONDS = 60.0
Cli = Callable[..., tuple[int, str, str]]


@pytest.fixture
def own(real_kafka: str, redis_url: str) -> Iterator[RunningLastword]:
    """A lastword of the test's own, in which everybody has said something."""
    with RunningLastword(real_kafka, redis_url, partitions=PARTITIONS) as running:
        said = [running.publisher.set(owner, "global", "any", number) for number, owner in enumerate(OWNERS)]
        said += [running.publisher.set(owner, "global", "theme", "dark") for owner in OWNERS]
        running.projected(said)
        yield running


@pytest.fixture
def client(redis_url: str) -> Iterator[Any]:
    with redis.Redis.from_url(redis_url) as client:
        yield client


def namespace(own: RunningLastword) -> str:
    return own.worker_settings.namespace


def in_force(own: RunningLastword, client: Any) -> str:
    found = client.get(f"lw:{namespace(own)}:current")
    return namespace(own) if found is None else found.decode()


def replace(own: RunningLastword, more: Upcasters | None = None, **options: Any) -> Replaced:
    return run_replacement(own.worker_settings, own.log, more, **{"grace_s": 1.0} | options)


def everything(client: Any, name: str) -> dict[bytes, bytes]:
    """All that a namespace holds, but for what is on its way to the topic of changes."""
    names = [found for found in client.scan_iter(f"lw:{name}:*", count=1_000) if not found.endswith(b":outbox")]
    return {found: client.dump(found) for found in names}


def eventually(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"waited {SECONDS:.0f} s for {what}"
        time.sleep(0.02)


class Talking:
    """An owner who counts up while it is read what was said last; nothing may fail or go back. A context manager."""

    def __init__(self, own: RunningLastword, owner: str) -> None:
        self.own, self.owner, self.said = own, owner, 0
        self.stop, self.error = threading.Event(), ""
        self.threads = [threading.Thread(target=self.talk), threading.Thread(target=self.read)]

    def talk(self) -> None:
        while not self.stop.wait(0.02):
            self.said += 1
            self.own.publisher.set(self.owner, "global", "any", self.said)

    def read(self) -> None:
        token = None
        last = -1
        with self.own.new_client() as http:
            while not self.stop.is_set():
                asked: dict[str, Any] = {"owner": self.owner, "key": "any", "scope": "global", "wait_ms": 30_000}
                answer = http.get("/v1/value", params=asked | ({"at_least": token} if token else {}))
                if answer.status_code != 200:
                    self.error = self.error or answer.text
                    return
                value, token = answer.json()["state"]["value"], answer.json()["selection"]["position_token"]
                if value < last:
                    self.error = self.error or f"{value} after {last}"
                last = value

    def __enter__(self) -> "Talking":
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        for thread in self.threads:
            thread.join()


def test_a_rebuild_beside_a_running_worker_is_not_noticed_by_readers(own: RunningLastword, client: Any) -> None:
    with Talking(own, ADA) as talking:
        eventually(lambda: talking.said > 10, "something to be said")
        replaced = replace(own)
        said = talking.said
        eventually(lambda: talking.said > said + 20, "more to be said")
    last = own.publisher.set(ADA, "global", "any", "the end")

    assert talking.error == ""
    assert in_force(own, client) == replaced.new == f"{namespace(own)}-r1"
    token = str(last)
    assert own.value(ADA, "any", at_least=token, wait_ms=30_000)["state"]["value"] == "the end"
    events = own.get("/v1/history", owner=ADA, view="events", limit=1_000).json()["events"]
    values = [event["value"] for event in events if event["key"] == "any"]
    assert values == [0, *range(1, talking.said + 1), "the end"]
    assert not list(client.scan_iter(f"lw:{namespace(own)}:{{p*"))
    report = make_auditor(own.worker_settings, own.log).audit()
    assert (report.violations, report.namespace) == ([], replaced.new)
    assert own.worker_error is None


def test_a_rebuild_tells_every_change_and_none_out_of_turn(own: RunningLastword, client: Any) -> None:
    own.stop_worker()
    unread = [own.publisher.set(owner, "global", "falls", True) for owner in OWNERS]

    replace(own)
    own.start_worker()
    own.projected(unread)
    after = [own.publisher.set(owner, "global", "any", "after") for owner in OWNERS]
    own.projected(after)

    def told() -> int:
        settings = own.worker_settings
        topic = records_of(settings.kafka_settings, settings.changes_topic, PARTITIONS)
        return sum(len({record.value() for record in records}) for records in topic)

    eventually(lambda: told() == 4 * len(OWNERS), "every change to be told")


def test_a_second_rebuild_replaces_the_first(own: RunningLastword, client: Any) -> None:
    first, second = replace(own), replace(own)

    assert (first.new, second.old, second.new) == (second.old, first.new, f"{namespace(own)}-r2")
    eventually(lambda: own.value(ADA, "theme")["state"]["value"] == "dark", "the same answer")
    assert not list(client.scan_iter(f"lw:{first.new}:*"))


def test_a_rebuild_mends_what_an_audit_found(own: RunningLastword, client: Any) -> None:
    partition = partition_for(ADA, PARTITIONS)
    profile = Names(namespace(own)).of(partition).profile(ADA)
    client.hset(profile, field_of("global", "any"), client.hget(profile, field_of("global", "theme")))
    assert make_auditor(own.worker_settings, own.log).audit().count == 1

    replace(own)

    assert make_auditor(own.worker_settings, own.log).audit().violations == []
    eventually(lambda: own.value(ADA, "any")["state"]["value"] == 0, "the mended value")


def test_what_is_not_grounded_is_never_put_in_force(own: RunningLastword, client: Any) -> None:
    before = everything(client, namespace(own))
    candidate = Names(f"{namespace(own)}-r1")

    def tamper(partition: int, next_offset: int) -> None:
        if client.exists(name := candidate.of(partition_for(ADA, PARTITIONS)).profile(ADA)):
            client.hdel(name, field_of("global", "theme"))

    with pytest.raises(GroundingInvariantViolation, match=r"entry-missing: main/user:0 global theme.*Nothing was put"):
        replace(own, on_progress=tamper)

    assert in_force(own, client) == namespace(own)
    partitions = {name: data for name, data in everything(client, namespace(own)).items() if b"{p" in name}
    assert partitions == before
    assert replace(own).new == f"{namespace(own)}-r2"
    assert not list(client.scan_iter(f"lw:{candidate.namespace}:*"))


def test_a_rebuild_that_died_while_it_put_the_new_namespace_in_force_is_undone_by_the_next(
    own: RunningLastword, client: Any, redis_url: str
) -> None:
    own.stop_worker()
    settings, names, partition = own.worker_settings, Names(namespace(own)), partition_for(ADA, PARTITIONS)
    client.rpush(names.of(partition).outbox, b"waits")
    pipe = Pipe(redis_url)
    died = pipe.run(pointer.candidate(namespace(own), Upcasters()))
    pipe.run(pointer.hand_over(own.log.genesis[partition], names, died, 1))
    assert client.lrange(died.of(partition).outbox, 0, -1) == [b"waits"]

    replaced = replace(own)

    new = Names(replaced.new).of(partition)
    assert client.lrange(new.outbox, 0, -1) == [b"waits"]
    assert not list(client.scan_iter(f"lw:{died.namespace}:*"))
    client.delete(new.outbox)
    assert settings.namespace == namespace(own)
    own.start_worker()


@pytest.mark.parametrize("in_place", [True, False])
def test_a_rebuild_in_place_that_was_broken_off_is_done_again_either_way(
    own: RunningLastword, client: Any, in_place: bool
) -> None:
    own.stop_worker()
    names = Names(namespace(own)).of(partition_for(ADA, PARTITIONS))
    client.hset(names.checkpoint, "next", plans.BEING_EMPTIED)
    client.delete(names.profile(ADA))

    if in_place:
        run_rebuild(own.worker_settings, own.log, lambda *_: None)
    else:
        replace(own)

    eventually(lambda: own.get("/readyz").status_code == 200, "reads to be answered again")
    assert own.value(ADA, "theme")["state"]["value"] == "dark"
    assert make_auditor(own.worker_settings, own.log).audit().violations == []


def test_where_putting_it_in_force_fails_the_old_one_goes_on(
    own: RunningLastword, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> Any:
        yield [Call(("NO-SUCH-COMMAND",), list)]

    with monkeypatch.context() as patched:
        patched.setattr("lastword_projector.store.pointer.flip", fails)
        with pytest.raises(StoreUnavailable, match="unknown command"):
            replace(own)

    assert in_force(own, client) == namespace(own)
    again = own.publisher.set(ADA, "global", "any", "again")
    assert own.value(ADA, "any", at_least=str(again), wait_ms=30_000)["state"]["value"] == "again"


def test_an_old_namespace_that_nobody_dropped_is_dropped_by_the_next_rebuild(
    own: RunningLastword, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(self: Replacement, names: Names) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Replacement, "_drop", dies)
        with pytest.raises(KeyboardInterrupt):
            replace(own)
    assert in_force(own, client) == f"{namespace(own)}-r1"
    assert list(client.scan_iter(f"lw:{namespace(own)}:{{p*"))

    replace(own)

    assert not list(client.scan_iter(f"lw:{namespace(own)}:{{p*"))


def test_two_rebuilds_at_once_are_refused(own: RunningLastword, client: Any) -> None:
    with pytest.raises(RebuildStopped, match="is being rebuilt already"):
        replace(own, on_progress=lambda *_: replace(own))

    assert in_force(own, client) == namespace(own)
    replace(own)


def test_a_key_is_moved_by_a_migration_and_stays_moved(own: RunningLastword, client: Any) -> None:
    late = own.publisher.set(ADA, "project:Comet", "any", "light", retires=[("global", "falls")])
    own.projected([late])
    move = Upcasters([MoveKey(key="any", to="moved"), MoveKey(key="falls", to="dropped")])

    check_migration(own.worker_settings, own.log, move)
    replace(own, move)

    eventually(lambda: own.value(ADA, "moved")["state"]["status"] == "set", "the moved value")
    assert own.value(ADA, "moved")["state"]["value"] == 0
    assert own.value(ADA, "any")["state"]["status"] == "absent"
    assert own.value(ADA, "moved", scope="project:Comet")["state"]["value"] == "light"
    assert own.value(ADA, "dropped")["state"]["status"] == "deleted"
    again = own.publisher.set(ADA, "global", "any", "said later")  # by a service that does not know of it
    own.projected([again])
    assert own.value(ADA, "moved", at_least=str(again), wait_ms=30_000)["state"]["value"] == "said later"
    draft = {"operation": "set", "owner": ADA, "scope": "global", "key": "any", "value": 7, "actor": {"service": "old"}}
    posted = own.post("/v1/events", draft, wait="applied")
    assert posted.status_code == 200, posted.text
    assert own.value(ADA, "moved", at_least=posted.json()["receipt"]["receipt"])["state"]["value"] == 7
    again = own.publisher.set(ADA, "global", "any", "said later")
    own.projected([again])
    newcomer = own.publisher.set("main/user:newcomer", "global", "any", 1)
    own.projected([newcomer])
    assert own.value("main/user:newcomer", "moved", at_least=str(newcomer), wait_ms=30_000)["state"]["value"] == 1
    assert make_auditor(own.worker_settings, own.log).audit().violations == []
    replace(own)
    eventually(lambda: own.value(ADA, "moved")["state"]["value"] == "said later", "it to be moved still")


@pytest.mark.parametrize("touched", [("guess", "moved"), ("any", "guess")])
def test_a_migration_halts_at_an_entry_that_is_unresolved_and_that_it_would_touch(
    own: RunningLastword, client: Any, touched: tuple[str, str]
) -> None:
    turn = own.publisher.say(ADA, "t1", "It may be this or that.")
    said = [own.candidates.set(ADA, "global", "guess", value, source_event_id=turn) for value in ("this", "that")]
    own.projected(said)
    eventually(lambda: not list(client.scan_iter("*:outbox")), "all changes to be told")
    before = everything(client, namespace(own))
    move = Upcasters([MoveKey(key=touched[0], to=touched[1])])

    with pytest.raises(MigrationHalted, match=r"unresolved: main/user:0 global guess \(sequence") as caught:
        check_migration(own.worker_settings, own.log, move)

    assert [entry.key for entry in caught.value.unresolved] == ["guess"]
    assert everything(client, namespace(own)) == before
    assert in_force(own, client) == namespace(own)
    check_migration(own.worker_settings, own.log, Upcasters([MoveKey(key="any", to="moved")]))


def test_a_migration_halts_where_the_history_lacks_an_event(own: RunningLastword, client: Any) -> None:
    history = Names(namespace(own)).of(partition_for(ADA, PARTITIONS)).history(ADA)
    lost = client.lpop(history)
    before = everything(client, namespace(own))

    with pytest.raises(MigrationHalted, match=f"history-missing: main/user:0 global any at sequence {int(lost[:16])}"):
        check_migration(own.worker_settings, own.log, Upcasters([MoveKey(key="any", to="moved")]))

    assert everything(client, namespace(own)) == before
    assert in_force(own, client) == namespace(own)


def test_a_policy_that_is_not_there_is_refused_before_anything_is_done(own: RunningLastword, client: Any) -> None:
    with pytest.raises(InvalidInput, match="policy"):
        replace(own, Upcasters([ChangePolicy(key="any", policy="loudest")]))

    assert in_force(own, client) == namespace(own)


@pytest.fixture
def cli(own: RunningLastword, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    """Runs `lastword` with these arguments: exit status, standard output, standard error."""
    for name, value in own.worker_settings.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("lastword.running.run_replacement", partial(run_replacement, grace_s=1.0))

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["lastword", *arguments])
        try:
            main()
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        return code, *capsys.readouterr()

    return run


def test_the_command_rebuilds_and_says_what_is_in_force(own: RunningLastword, client: Any, cli: Cli) -> None:
    code, out, err = cli("rebuild", "--yes")

    assert code == 0, err
    assert out.startswith(f"rebuilt {PARTITIONS} partitions from ")
    assert f"{2 * len(OWNERS)} entries and {2 * len(OWNERS)} events grounded" in out
    assert f"in force: namespace {in_force(own, client)}; {namespace(own)} was dropped" in out


def test_the_command_migrates_where_nothing_halts_it(own: RunningLastword, client: Any, cli: Cli) -> None:
    checked = cli("migrate", "--move", "any=moved", "--check")
    assert in_force(own, client) == namespace(own)

    migrated = cli("migrate", "--move", "any=moved", "--yes")

    assert checked[:2] == (0, "nothing halts it any, moved\n"), checked[2]
    assert migrated[0] == 0, migrated[2]
    assert migrated[1].startswith("migrated ")
    eventually(lambda: own.value(ADA, "moved")["state"]["value"] == 0, "the moved value")


def test_the_command_halts_with_a_list_and_changes_nothing(own: RunningLastword, client: Any, cli: Cli) -> None:
    partition = partition_for(ADA, PARTITIONS)
    client.hdel(Names(namespace(own)).of(partition).profile(ADA), field_of("global", "any"))
    before = everything(client, namespace(own))

    code, out, err = cli("migrate", "--move", "any=moved", "--yes")

    assert (code, out) == (1, "")
    assert "the migration is halted, nothing was changed" in err
    assert "entry-missing: main/user:0 global any" in err
    assert everything(client, namespace(own)) == before
    assert in_force(own, client) == namespace(own)


@pytest.mark.parametrize("arguments", [[], ["--move", "any"], ["--move", "any=\x00"], ["--policy", "=x"]])
def test_a_migration_that_says_nothing_usable_is_refused(cli: Cli, arguments: list[str]) -> None:
    code, _, err = cli("migrate", *arguments, "--yes")

    assert code == 1
    assert err.startswith("lastword: ")


def test_the_embedded_broker_is_as_good(embedded_broker: EmbeddedBroker, redis_url: str, client: Any) -> None:
    """Times are the publishers' there, and the audit knows."""
    with RunningLastword(embedded_broker.bootstrap_servers, redis_url, partitions=PARTITIONS) as running:
        running.projected([running.publisher.set(owner, "global", "any", 1) for owner in OWNERS])

        replaced = replace(running, Upcasters([MoveKey(key="any", to="moved")]))

        assert (replaced.report.entries, replaced.report.violations) == (len(OWNERS), [])
        eventually(lambda: running.value(ADA, "moved")["state"]["value"] == 1, "the moved value")
        assert make_auditor(running.worker_settings, running.log).audit().violations == []
