"""Commands that decide: resolve, withdraw."""

from typing import Annotated, Any

import typer

from lastword.cli import render
from lastword.cli.client import Api, connect
from lastword.cli.options import WAIT_MS, Json, Key, Owner, Scope
from lastword.cli.telling import tell_item
from lastword.cli.values import json_value
from lastword.client.choosing import named_by
from lastword_schemas import jsontext
from lastword_schemas.answers import InspectionRecord
from lastword_schemas.authority import Authority, Role
from lastword_schemas.identity import GLOBAL

Why = Annotated[str | None, typer.Option(help="Why: it is kept with the decision.", show_default=False)]
Service = Annotated[str, typer.Option(help="Who decides.")]
Weight = Annotated[Authority, typer.Option(help="At least that of what is withdrawn or ended.")]
As = Annotated[Role, typer.Option(help="In what capacity.")]


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(resolve)
    app.command()(withdraw)


def resolve(
    owner: Owner,
    key: Key,
    value: Annotated[str, typer.Argument(help="The one that stands, as `lastword why` shows it.", show_default=False)],
    scope: Scope = GLOBAL,
    why: Why = None,
    service: Service = "command-line",
    authority: Weight = Authority.CONFIRMED,
    role: As = Role.PERSON,
    json: Json = False,
) -> None:
    """Of the values of a key that stand side by side choose one: the others ended. It can be withdrawn."""
    with connect() as api:
        found = InspectionRecord.model_validate_json(
            api.get("/v1/value", owner=owner, scope=scope, key=key, fallback=False)
        )
        decision = {
            "operation": "resolve",
            "scope": scope,
            "key": key,
            "names": named_by(found, json_value(value)),
            "saw": found.selection.known_at,
        }
        _decide(api, owner, decision, why, service, authority, role, json=json)


def withdraw(
    owner: Owner,
    events: Annotated[
        list[str],
        typer.Argument(help="Ids of earlier events: turns, values, deletions, decisions.", show_default=False),
    ],
    scope: Scope = GLOBAL,
    why: Why = None,
    service: Service = "command-line",
    authority: Weight = Authority.CONFIRMED,
    role: As = Role.PERSON,
    json: Json = False,
) -> None:
    """Say that earlier events were wrong: they, and what was read from them, no longer count. It can be withdrawn."""
    with connect() as api:
        decision = {"operation": "withdraw", "scope": scope, "names": events}
        _decide(api, owner, decision, why, service, authority, role, json=json)


def _decide(
    api: Api,
    owner: str,
    decision: dict[str, Any],
    why: str | None,
    service: str,
    authority: Authority,
    role: Role,
    *,
    json: bool,
) -> None:
    draft = {"owner": owner, "actor": {"service": service, "role": role.value}, "authority": authority.value} | decision
    if why is not None:
        draft["text"] = why
    text = api.post("/v1/events", draft, wait="applied", wait_ms=WAIT_MS)
    if json:
        render.print_json(text)
    else:
        tell_item(jsontext.parse(text))
