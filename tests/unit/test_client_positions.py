"""A client never reads something older than what it wrote or read before: what it remembers, and sends along."""

import gc
import threading
import uuid
from typing import Any

import httpx
import pytest

from lastword import Client, InvalidInput, Memory, WrongLog
from lastword.client.seen import Seen, SeenOwners
from lastword_schemas.positions import PositionToken, Receipt, owner_digest
from tests.support.network import LOG, OTHER_LOG, URL, Network, Step, accepted, problem, record

ADA, GRACE = "main/user:ada", "main/user:grace"


def token(sequence: int, owner: str = ADA, log: str = LOG) -> PositionToken:
    return PositionToken(log, owner_digest(owner), sequence)


def receipt(sequence: int, log: str = LOG) -> Receipt:
    return Receipt(log, 0, 1, sequence, str(uuid.UUID(int=sequence)))


def memory(*steps: Step) -> tuple[Memory, Network]:
    network = Network(*steps)
    return Client(URL, transport=httpx.MockTransport(network)).user("ada"), network


def demands(network: Network) -> list[str | None]:
    return [request.url.params.get("at_least") for request in network.requests]


def test_the_first_read_demands_nothing_and_the_next_what_was_seen() -> None:
    ada, network = memory(record(sequence=7), record(sequence=9))

    ada.get("mail.tone")
    ada.get("mail.tone")
    assert demands(network) == [None, str(token(7))]
    assert ada.position == str(token(9))


def test_a_read_after_a_write_demands_the_receipt() -> None:
    ada, network = memory(accepted, record(sequence=5))

    written = ada.set("mail.tone", "brief")
    ada.get("mail.tone")

    assert demands(network)[1] == str(written) == ada.position


def test_an_older_answer_does_not_set_the_position_back() -> None:
    ada, _ = memory(record(sequence=9), record(sequence=7))

    ada.get("mail.tone")
    ada.get("mail.tone", known_at=7)

    assert ada.position == str(token(9))


@pytest.mark.parametrize("ident", ["user:ada", "org:acme", "acme/user:ada"])
def test_an_owner_in_the_place_of_an_id_is_refused_and_has_its_own_way_in(ident: str) -> None:
    with Client() as client:
        for handle in (client.user, client.org):
            with pytest.raises(InvalidInput, match="is an owner, not the id of one"):
                handle(ident)
        for taken in (client.owner(ident), client.user("users:ada"), client.user("id:user:ada")):
            assert isinstance(taken, Memory)


def test_all_handles_of_an_owner_share_what_was_seen_and_no_other_owner_does() -> None:
    network = Network(record(sequence=9), record(sequence=9), record(sequence=9))
    with Client(URL, transport=httpx.MockTransport(network)) as client:
        client.user("ada").get("mail.tone")
        client.user("ada", scope="project:Comet").within(3).scope("project:Orion").get("mail.tone")
        client.user("ada", tenant="acme").get("mail.tone")

    assert demands(network) == [None, str(token(9)), None]


def test_a_position_of_another_service_is_demanded_from_then_on() -> None:
    ada, network = memory(record(sequence=10))

    theirs = ada.after(str(receipt(12)))
    assert theirs.position == str(receipt(12))
    theirs.get("mail.tone")
    theirs.scope("project:Comet").get("mail.tone", at_least=token(11))
    theirs.after(token(11)).get("mail.tone", at_least=str(token(30)))

    assert demands(network) == [str(receipt(12)), str(receipt(12)), str(token(30))]


def test_a_position_from_elsewhere_binds_the_handle_that_got_it_and_no_other() -> None:
    ada, network = memory(record(sequence=10))
    made_up = token(2**53 - 1)

    ada.after(made_up).get("mail.tone")
    ada.get("mail.tone", at_least=made_up)
    ada.get("mail.tone")

    assert demands(network) == [str(made_up), str(made_up), str(token(10))]
    assert ada.position == str(token(10))


@pytest.mark.parametrize("position", [str(token(3, GRACE)), "p1.x", "", "12"])
def test_what_is_no_position_of_this_owner_is_refused_before_anything_is_sent(position: str) -> None:
    ada, network = memory(record())

    with pytest.raises(InvalidInput) as error:
        ada.after(position)
    with pytest.raises(InvalidInput, match="at_least"):
        ada.get("mail.tone", at_least=position)

    assert error.value.field == "position"
    assert network.requests == []


def test_a_position_of_a_log_that_is_gone_is_said_once_and_then_forgotten() -> None:
    ada, network = memory(record(sequence=9), problem("wrong-log"), record(sequence=2, log=OTHER_LOG))

    ada.get("mail.tone")
    with pytest.raises(WrongLog):
        ada.get("mail.tone")
    ada.get("mail.tone")

    assert demands(network) == [None, str(token(9)), None]
    assert ada.position == str(token(2, log=OTHER_LOG))


def test_what_a_new_log_answers_replaces_what_was_seen_of_the_old_one() -> None:
    seen = Seen(ADA)

    seen.note(token(9))
    seen.note(token(2, log=OTHER_LOG))

    assert seen.newest == token(2, log=OTHER_LOG)


def test_what_was_seen_is_the_newest_whatever_thread_saw_it() -> None:
    seen = Seen(ADA)
    start = threading.Barrier(4)

    def note(first: int) -> None:
        start.wait()
        for sequence in range(first, 4_000, 4):
            seen.note(token(sequence))

    threads = [threading.Thread(target=note, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert seen.newest == token(3_999)


def test_a_client_remembers_a_bounded_number_of_owners_those_used_last() -> None:
    owners = SeenOwners(limit=2)
    for name in ("a", "b", "a", "c"):
        owners.of(name).note(receipt(3))
    gc.collect()

    assert [owners.of(name).newest for name in ("a", "b")] == [receipt(3), None]


def test_an_owner_that_somebody_holds_is_never_forgotten() -> None:
    owners = SeenOwners(limit=1)
    held = owners.of("ada")
    held.note(receipt(3))
    for number in range(10):
        owners.of(str(number))

    assert owners.of("ada") is held


def test_the_position_of_a_listing_and_of_many_keys_is_remembered_too() -> None:
    common: dict[str, Any] = {"owner": ADA, "representation": "profile", "clock": "broker"}

    def reading(sequence: int, **members: Any) -> httpx.Response:
        return httpx.Response(
            200, json=common | {"known_at": sequence, "position_token": str(token(sequence))} | members
        )

    ada, _ = memory(
        reading(3, scopes=["global"], values=[]), reading(4, entries=[]), reading(5, versions=[]), reading(6, events=[])
    )

    seen = []
    for read in (lambda: ada.get_many(["mail.tone"]), ada.profile, lambda: ada.history("mail.tone"), ada.events):
        read()
        seen.append(ada.position)

    assert seen == [str(token(sequence)) for sequence in (3, 4, 5, 6)]
