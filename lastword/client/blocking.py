"""The blocking client. `make client` writes this file from `asynchronous.py`."""

import time
from collections.abc import Generator, Iterable, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack, overload

import httpx
from pydantic import TypeAdapter

from lastword.client import calls, situations
from lastword.client.attempts import Deadline
from lastword.client.batches import Batch, Result
from lastword.client.bound import Bound, Opened, Position, canonical_owner
from lastword.client.calls import AsOf, Call
from lastword.client.choosing import named_by
from lastword.client.contexts import ContextOptions, checking, context_options, making, stored
from lastword.client.drafts import (
    DecisionOptions,
    Event,
    EventOptions,
    SetOptions,
    StatementOptions,
    SuggestionOptions,
    TurnOptions,
)
from lastword.client.errors import NotProjectedYet, WrongLog
from lastword.client.finding import SearchOptions, search_options
from lastword.client.receipts import Receipt, read_receipt, receipt_of
from lastword.client.values import Value, value_of
from lastword_schemas import limits, positions
from lastword_schemas.answers import (
    BatchAnswer,
    EventAnswer,
    HistoryAnswer,
    InspectionRecord,
    ItemAnswer,
    OutcomeAnswer,
    ProfileAnswer,
    ValuesAnswer,
    Version,
)
from lastword_schemas.contexts import ContextAnswer, ContextCheck
from lastword_schemas.errors import LastwordError
from lastword_schemas.identity import GLOBAL, Owner
from lastword_schemas.search import SearchAnswer
from lastword_schemas.verdicts import Outcome

T = TypeVar("T")
PageT = TypeVar("PageT", ProfileAnswer, HistoryAnswer)


class Client(Opened):
    """lastword. Made once, shared by all threads, closed at the end.

    `url` defaults to LASTWORD_URL, `service` (the actor of what is written) to LASTWORD_SERVICE. `timeout` are the
    seconds that a whole call may take, with up to `retries` more attempts where it makes sense to try again. `token` is
    sent as `Authorization: Bearer`. `transport` replaces the network, as in httpx.

    Raises InvalidInput where `url` is none.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        token: str | None = None,
        service: str | None = None,
        timeout: float = 15.0,
        retries: int = 4,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        super().__init__(url, service, timeout, retries)
        self._http = httpx.Client(transport=transport, **self._http_options(token))

    def user(self, ident: str, *, scope: str = GLOBAL, tenant: str = "main") -> "Memory":
        """The memory of a person, by the id that your services know them by.

        Raises InvalidInput, also for `user:ada`: that is an owner, which `owner` takes.
        """
        return self.owner(canonical_owner("user", ident, tenant), scope=scope)

    def org(self, ident: str, *, scope: str = GLOBAL, tenant: str = "main") -> "Memory":
        """The memory of an organization. Raises InvalidInput."""
        return self.owner(canonical_owner("org", ident, tenant), scope=scope)

    def owner(self, owner: str, *, scope: str = GLOBAL) -> "Memory":
        """The memory of an owner by its text, such as `user:ada` or `acme/user:ada`. Raises InvalidInput."""
        return Memory(self, str(Owner.parse(owner)), scope)

    def publish_many(self, events: Iterable[Event], *, applied: bool = False) -> list[Result]:
        """Write many events of any owners, 1,000 a request, in their order; what became of each, in the same order.

        Events come from `draft` of a memory, or are JSON objects as `POST /v1/events` and `POST /v1/candidates` take
        them. With `applied` each request waits for the verdicts; an event that is not judged in time is `accepted`.
        What failed for the moment is sent again; if it does not get through, what follows it is not sent. `timeout`
        limits each request. Nothing about single events is raised.

        Raises InvalidInput where an event is not JSON; then nothing was sent.
        """
        batch = Batch(events, applied=applied, retries=self._retries)
        while (call := batch.next_call()) is not None:
            try:
                answer = self._send(call, self._deadline())
                pause_s = batch.take(situations.parsed(BatchAnswer.model_validate_json, answer, self.url))
            except LastwordError as error:
                batch.give_up(error)
            else:
                time.sleep(pause_s)
        self._note_results(batch)
        return batch.results

    def close(self) -> None:
        """Close all connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _send(self, call: Call, deadline: Deadline) -> httpx.Response:
        """The good answer to a call, after as many attempts as it takes. Raises what `Attempts` raises."""
        attempts = self._attempts(call, deadline)
        while True:
            try:
                response = self._http.send(attempts.request(self._http))
            except httpx.TransportError as error:
                pause_s = attempts.lost(error)
            else:
                pause = attempts.answered(response)
                if pause is None:
                    return response
                pause_s = pause
            time.sleep(pause_s)


class Memory(Bound):
    """What lastword keeps of one owner, seen from one scope. Made by `Client.user`; cheap, safe to share."""

    def __init__(self, client: Client, owner: str, scope: str) -> None:
        super().__init__(owner, scope, client._owners.of(owner), client._service, client._timeout)
        self._client = client

    @overload
    def get(
        self,
        key: str,
        *,
        as_type: None = None,
        as_of: AsOf | None = None,
        known_at: int | None = None,
        at_least: Position | None = None,
        fallback: bool = True,
    ) -> Value[Any]: ...
    @overload
    def get(
        self,
        key: str,
        *,
        as_type: type[T] | TypeAdapter[T],
        as_of: AsOf | None = None,
        known_at: int | None = None,
        at_least: Position | None = None,
        fallback: bool = True,
    ) -> Value[T]: ...
    def get(
        self,
        key: str,
        *,
        as_type: Any = None,
        as_of: AsOf | None = None,
        known_at: int | None = None,
        at_least: Position | None = None,
        fallback: bool = True,
    ) -> Value[Any]:
        """What applies for a key in this scope; where it has no entry the global scope answers (`fallback`).

        `as_type` validates the value with pydantic and raises DoesNotFit. `as_of` limits what had been said,
        `known_at` what the log held. `at_least` demands a position in addition to what this client has seen.

        Raises NotProjectedYet where the projection does not get that far in time; InvalidInput.
        """
        answer = self._ask(self._value_call(key, as_of, known_at, at_least, fallback))
        record: InspectionRecord = self._read(InspectionRecord, answer)
        self._note(record.selection.position_token)
        return value_of(record, as_type)

    def get_many(
        self,
        keys: Sequence[str],
        *,
        as_of: AsOf | None = None,
        known_at: int | None = None,
        at_least: Position | None = None,
        fallback: bool = True,
    ) -> dict[str, Value[Any]]:
        """What applies for several keys (at most 500) at one moment, in one call; arguments and errors as of `get`."""
        boundary = calls.boundary(as_of, known_at)
        call = calls.values(
            self.owner, self._scope, keys, fallback=fallback, boundary=boundary, demand=self._demand(at_least)
        )
        answer: ValuesAnswer = self._read(ValuesAnswer, self._ask(call))
        self._note(answer.position_token)
        return {record.identity.key: value_of(record) for record in answer.values}

    def profile(
        self,
        *,
        scope: str | None = None,
        everything: bool = False,
        unresolved: bool = False,
        as_of: AsOf | None = None,
        known_at: int | None = None,
        at_least: Position | None = None,
    ) -> list[Value[Any]]:
        """What applies of this owner at one moment, by scope and key: of all scopes, or of exactly the one named.

        `everything` tells of deleted and expired entries, too; `unresolved` only of those that somebody has to decide,
        each with its branches in `record`. Arguments and errors otherwise as of `get`.
        """
        query = {"scope": scope, "everything": everything or None, "unresolved": unresolved or None}
        pages = self._pages("/v1/profile", ProfileAnswer, query, as_of, known_at, at_least, None)
        return [value_of(record) for page in pages for record in page.entries]

    def search(
        self,
        query: str,
        *,
        limit: int = 3,
        page: str | None = None,
        fallback: bool = True,
        **options: Unpack[SearchOptions],
    ) -> SearchAnswer:
        """The records nearest to a question or a task, the nearest first, of those that apply in this scope.

        `answer.hits` are at most `limit`; the `page` that its `next_page` names goes on. Where this scope has no entry
        of a key the global one is looked at (`fallback`). Errors as of `get`.
        """
        wanted = {"limit": limit, "page": page, **search_options(options)}
        call = calls.search(
            self.owner, self._scope, query, wanted, fallback=fallback, demand=self._demand(options.get("at_least"))
        )
        answer: SearchAnswer = self._read(SearchAnswer, self._ask(call))
        self._note(answer.position_token)
        return answer

    def context(
        self,
        task: str = "",
        *,
        budget: int = 1_000,
        limit: int = 8,
        fallback: bool = True,
        **options: Unpack[ContextOptions],
    ) -> ContextAnswer:
        """The few cited records that a model needs for a task, of those that apply in this scope; `prompt` is the text.

        Without a task they are those of the greatest authority, the newest first. There are at most `limit`, besides
        those that are named, and `prompt` has at most `budget` tokens. It is kept as it is, and `id` names it.
        Errors as of `get`; Unavailable where it cannot be stored.
        """
        wanted = {"budget": budget, "limit": limit, **context_options(options, self._scope)}
        demand = self._demand(options.get("at_least"))
        call = making(self.owner, self._scope, task, wanted, fallback=fallback, demand=demand)
        answer: ContextAnswer = self._read(ContextAnswer, self._ask(call))
        self._note(answer.position_token)
        return answer

    def stored_context(self, ident: str) -> ContextAnswer:
        """The context with this id, as it was answered when it was made. Raises UnknownContext."""
        answer: ContextAnswer = self._read(ContextAnswer, self._ask(stored(ident)))
        return answer

    def check(self, context: ContextAnswer | str, *, at_least: Position | None = None) -> ContextCheck:
        """Whether a context, given itself or by its id, still says what applies (`stale`), and what to change in it.

        Made to be asked at every turn. Errors as of `get`; UnknownContext where it is no longer kept.
        """
        call = checking(self.owner, context, self._demand(at_least))
        answer: ContextCheck = self._read(ContextCheck, self._ask(call))
        self._note(answer.position_token)
        return answer

    def history(
        self,
        key: str,
        *,
        as_of: AsOf | None = None,
        known_at: int | None = None,
        at_least: Position | None = None,
    ) -> list[Version]:
        """The versions of a key in exactly this scope, the earliest first, each with what ended it.

        Arguments and errors as of `get`.
        """
        query = {"scope": self._scope, "key": key, "view": "versions"}
        pages = self._pages("/v1/history", HistoryAnswer, query, as_of, known_at, at_least, None)
        return [version for page in pages for version in page.versions or ()]

    def events(
        self,
        key: str | None = None,
        *,
        scope: str | None = None,
        limit: int | None = None,
        as_of: AsOf | None = None,
        known_at: int | None = None,
        at_least: Position | None = None,
    ) -> list[EventAnswer]:
        """The owner's events as the log accepted them, refused ones too, each with its verdict; at most `limit`.

        All of them, or those of a key or a scope. Arguments and errors otherwise as of `get`.
        """
        query = {"scope": scope, "key": key, "view": "events"}
        pages = self._pages("/v1/history", HistoryAnswer, query, as_of, known_at, at_least, limit)
        return [event for page in pages for event in page.events or ()]

    def set(self, key: str, value: Any, *, applied: bool = False, **options: Unpack[SetOptions]) -> Receipt:
        """Write a value: any JSON, None included; pydantic models, dataclasses and enums as well.

        Returns once the log has it; with `applied` once it counts, and the receipt has the verdict. The attempts of one
        call are one event.

        Raises Refused where it does not count (without `applied` only what the door sees), UnknownOutcome where it may
        be in the log or not, Backpressure, Unreachable, Unavailable or PublishFailed where it is not.
        """
        return self._write(self.draft.set(key, value, **options), applied)

    def delete(self, key: str, *, applied: bool = False, **options: Unpack[StatementOptions]) -> Receipt:
        """Take a value back: from now on the key answers `deleted`. Returns and raises as `set`."""
        return self._write(self.draft.delete(key, **options), applied)

    def say(self, *, thread: str, text: str, applied: bool = False, **options: Unpack[TurnOptions]) -> Receipt:
        """Write down a turn of a thread. A suggestion cites the receipt. Returns and raises as `set`."""
        return self._write(self.draft.say(thread=thread, text=text, **options), applied)

    def withdraw(
        self, *events: positions.Receipt | str, applied: bool = False, **options: Unpack[DecisionOptions]
    ) -> Receipt:
        """Decide that earlier events (their receipts or ids) were wrong: they, and what was read from them, no longer
        count. The history keeps them, labelled. Returns and raises as `set`; withdrawing the receipt restores them."""
        return self._write(self.draft.withdraw(*events, **options), applied)

    def resolve(
        self,
        key: str,
        value: Any,
        *,
        applied: bool = False,
        **options: Unpack[DecisionOptions],
    ) -> Receipt:
        """Choose one of the values of a key that stand side by side in this scope: the others ended.

        Reads what stands, and names it. Raises InvalidInput where `value` is none of it, or the only one; else returns
        and raises as `set`. Withdrawing the receipt takes the choice back.
        """
        found = self.get(key, fallback=False)
        chosen, *ended = named_by(found.record, value)
        more: DecisionOptions = {"saw": found.known_at}
        more.update(options)
        return self._write(self.draft.resolve(key, chosen, ended, **more), applied)

    def suggest(
        self,
        key: str,
        value: Any,
        *,
        source: positions.Receipt | str,
        quote: str | None = None,
        at: int | None = None,
        applied: bool = False,
        **options: Unpack[SuggestionOptions],
    ) -> Receipt:
        """Write a candidate: an extractor's reading that the event `source` (its receipt or id) sets `value`.

        It counts from its source on, however late it comes. `quote` are words of the source's text that begin at `at`,
        in characters; with them the suggestion claims `stated`, else `inferred`. Returns and raises as `set`.
        """
        draft = self.draft.suggest(key, value, source=source, quote=quote, at=at, **options)
        return self._write(draft, applied)

    def suggest_delete(
        self,
        key: str,
        *,
        source: positions.Receipt | str,
        quote: str | None = None,
        at: int | None = None,
        applied: bool = False,
        **options: Unpack[EventOptions],
    ) -> Receipt:
        """Write a candidate: an extractor's reading that by the event `source` the value no longer applies.

        Arguments, return and errors as of `suggest`.
        """
        draft = self.draft.suggest_delete(key, source=source, quote=quote, at=at, **options)
        return self._write(draft, applied)

    def outcome(self, event: positions.Receipt | str) -> OutcomeAnswer:
        """What the log's reader made of an event of this owner: whether it counts, and if not, why.

        With a receipt it waits for the projection; with an event id alone it looks as far as this client has seen.
        Raises UnknownEvent where there is no such event, NotProjectedYet.
        """
        return self._outcome(event, self._deadline())

    def _outcome(self, event: positions.Receipt | str, deadline: Deadline) -> OutcomeAnswer:
        text = str(event)
        receipt = read_receipt(text) if text.startswith("r1.") else None
        event_id = text if receipt is None else receipt.event_id
        call = calls.outcome(self.owner, event_id, self._demand(receipt))
        answer: OutcomeAnswer = self._read(OutcomeAnswer, self._ask(call, deadline))
        self._note(answer.position_token)
        return answer

    def _pages(
        self,
        path: str,
        model: type[PageT],
        query: dict[str, Any],
        as_of: AsOf | None,
        known_at: int | None,
        at_least: Position | None,
        limit: int | None,
    ) -> Generator[PageT, None]:
        """The pages of a listing, all of one moment."""
        deadline, demand = self._deadline(), self._demand(at_least)
        query = {"owner": self.owner, **query, **calls.boundary(as_of, known_at)}
        left, page = limit, None
        while left is None or left > 0:
            size = limits.MAX_PAGE if left is None else min(left, limits.MAX_PAGE)
            call = calls.listing(path, query | {"limit": size, "page": page}, demand)
            answer: PageT = self._read(model, self._ask(call, deadline))
            self._note(answer.position_token)
            yield answer
            left, page = None if left is None else left - size, answer.next_page
            if page is None:
                return

    def _write(self, event: Event, applied: bool) -> Receipt:
        deadline = self._deadline()
        answer = self._client._send(calls.publish(event, applied=applied), deadline)
        item: ItemAnswer = self._read(ItemAnswer, answer)
        receipt = receipt_of(item)
        self._seen.note(receipt)
        if not applied or item.verdict is not None:
            return receipt
        return self._verdict(receipt, deadline)

    def _verdict(self, receipt: Receipt, deadline: Deadline) -> Receipt:
        """The receipt with the verdict that the write did not bring in time."""
        try:
            verdict = self._outcome(receipt, deadline)
        except NotProjectedYet as error:
            error.receipt = receipt
            raise
        settled = read_receipt(str(receipt), verdict)
        if verdict.outcome is Outcome.REFUSED:
            raise situations.refused(verdict, settled)
        return settled

    def _ask(self, call: Call, deadline: Deadline | None = None) -> httpx.Response:
        """The answer to a read. A position of a log that is gone is forgotten, so that the next read gets through."""
        try:
            return self._client._send(call, deadline or self._deadline())
        except WrongLog:
            if call.demand is not None:
                self._seen.forget(call.demand)
            raise

    def _read(self, model: Any, answer: httpx.Response) -> Any:
        return situations.parsed(model.model_validate_json, answer, self._client.url)

    def _note(self, token: str) -> None:
        self._seen.note(positions.parse_demand(token, field="position_token"))
