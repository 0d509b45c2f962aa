"""Commands that look after the log: keys, topics. They ask Kafka and Redis."""

import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from lastword.cli import render
from lastword.cli.conforming import check_producer
from lastword.launcher import PARTITIONS, starter_text
from lastword.settings import ConnectionSettings
from lastword_producers.broker import Broker
from lastword_producers.kafka_log import (
    CHANGES_AT_FIRST,
    CONTEXT_SETTINGS,
    DEAD_LETTER_SETTINGS,
    HISTORY_SETTINGS,
    LogIdentity,
    apply_registry,
    contexts_at_first,
    create_log,
    open_log,
)
from lastword_projector.store.ports import Checkpoint
from lastword_schemas import jsontext
from lastword_schemas.errors import LastwordError
from lastword_schemas.registry import Registry, parse_registry_file

_TIMEOUT_S = 10.0
_PROJECTED_S = 5.0

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


class NoRegistry(LastwordError):
    """No key registry is projected yet."""

    code = "no-registry"
    retryable = True


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    keys = typer.Typer(help="The key registry: apply | show.", no_args_is_help=True)
    keys.command("apply")(apply_keys)
    keys.command("show")(show_keys)
    topics = typer.Typer(help="The log's topics: create | show | check-producer.", no_args_is_help=True)
    topics.command("create")(create_topics)
    topics.command("show")(show_topics)
    topics.command("check-producer")(check_producer)
    app.add_typer(keys, name="keys")
    app.add_typer(topics, name="topics")


def apply_keys(
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, readable=True, help="Such as keys.toml.")],
    json: Json = False,
) -> None:
    """Put a registry file in force, in place of the one before it. docs/keys.example.toml shows every field."""
    registry = parse_registry_file(file.read_text("utf-8"), name=str(file))
    settings = ConnectionSettings()
    log = open_log(settings.kafka_settings, _TIMEOUT_S)
    before = _in_force(settings, log)
    if before is not None:
        registry.check_following(before)
    positions = apply_registry(settings.kafka_settings, registry)
    last = {position.partition: position.sequence for position in positions}
    projected = _await_projected(settings, log, last)
    if json:
        render.print_json(
            jsontext.dump(
                {
                    "registry": registry.digest,
                    "keys": len(registry.keys),
                    "log_id": log.log_id,
                    "sequences": {str(partition): sequence for partition, sequence in last.items()},
                    "projected": projected,
                }
            )
        )
        return
    out = render.console()
    out.print(
        Text.assemble(
            ("applied ", "green"), f"{render.counted(len(registry.keys), 'key')} to {log.partitions} partitions"
        ),
        Text(f"(registry {registry.digest})", style="dim"),
    )
    if before is not None and (gone := sorted(before.keys.keys() - registry.keys.keys())):
        names = ", ".join(render.clean(key) for key in gone)
        become = "are refused" if registry.undeclared is None else "may have any value"
        out.print(Text(f"no longer declared, so that new events of them {become}: {names}", style="yellow"))
    if not projected:
        out.print(Text("no worker has read it yet; events are checked against it from then on", style="yellow"))


def show_keys(
    starter: Annotated[
        bool, typer.Option("--starter", help="Print the starter file instead, to begin your own with.")
    ] = False,
    json: Json = False,
) -> None:
    """Show the keys that are declared."""
    if starter:
        typer.echo(starter_text(), nl=False)
        return
    settings = ConnectionSettings()
    log = open_log(settings.kafka_settings, _TIMEOUT_S)
    registry = _in_force(settings, log)
    if registry is None:
        raise NoRegistry(
            "no worker has projected this log into this namespace, so no registry is in force: start one with "
            "`lastword worker`"
        )
    if json:
        render.print_json(registry.to_canonical())
        return
    table = render.table("key", "policy", "value", "at least", "falls through", "description")
    for key, declared in sorted(registry.keys.items()):
        table.add_row(
            render.clean(key),
            declared.policy,
            "any JSON" if declared.schema_ is None else _schema_text(declared.schema_),
            declared.min_authority.value,
            "yes" if declared.falls_through else "",
            render.clean(declared.description),
        )
    out = render.console()
    out.print(table)
    others = "are refused" if registry.undeclared is None else "take any value, and branch"
    out.print(Text(f"{render.counted(len(registry.keys), 'key')}, registry {registry.digest}", style="dim"))
    out.print(Text(f"keys that are not declared {others}", style="dim"))


def create_topics(
    partitions: Annotated[int, typer.Option(min=1, help="Fixed for the log: it places every owner.")] = PARTITIONS,
    replication: Annotated[int, typer.Option(min=1, help="Copies of each record; 3 on a cluster.")] = 1,
    generation: Annotated[int, typer.Option(min=0, help="0 for the first log, the next one for one after it.")] = 0,
    keys: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, readable=True, help="Declare this registry in a log without one."),
    ] = None,
    json: Json = False,
) -> None:
    """Make the topics and their genesis records, whatever of them is missing. May be run again."""
    registry = None if keys is None else parse_registry_file(keys.read_text("utf-8"), name=str(keys))
    settings = ConnectionSettings()
    log = create_log(settings.kafka_settings, partitions, replication, generation)
    if registry is not None:
        apply_registry(settings.kafka_settings, registry, only_new=True)
    _tell_log(settings, log, json=json)


def show_topics(json: Json = False) -> None:
    """Show which log this is: its id, its genesis, its partitions, the settings of its topics."""
    settings = ConnectionSettings()
    _tell_log(settings, open_log(settings.kafka_settings, _TIMEOUT_S), json=json)


def _in_force(settings: ConnectionSettings, log: LogIdentity) -> Registry | None:
    """The registry that is in force where a worker has come furthest; None where none has come."""
    found = [checkpoint for checkpoint in _checkpoints(settings, log) if checkpoint is not None]
    return max(found, key=lambda checkpoint: checkpoint.next_sequence).registry if found else None


def _await_projected(settings: ConnectionSettings, log: LogIdentity, last: dict[int, int]) -> bool:
    """Whether workers come past these sequences, by partition, in a few seconds."""
    deadline = time.monotonic() + _PROJECTED_S
    while True:
        checkpoints = _checkpoints(settings, log)
        if all(
            checkpoint is not None and checkpoint.last_sequence >= last[partition]
            for partition, checkpoint in enumerate(checkpoints)
        ):
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)


def _checkpoints(settings: ConnectionSettings, log: LogIdentity) -> list[Checkpoint | None]:
    from lastword.running import open_store  # with the whole API behind it: slow

    store = open_store(settings)
    return [
        checkpoint if checkpoint is not None and checkpoint.genesis.log_id == log.log_id else None
        for checkpoint in map(store.checkpoint, range(log.partitions))
    ]


def _tell_log(settings: ConnectionSettings, log: LogIdentity, *, json: bool) -> None:
    kafka = settings.kafka_settings
    broker = Broker(kafka, _TIMEOUT_S)
    live = {
        kafka.topic: (broker.topic_settings(kafka.topic), HISTORY_SETTINGS),
        kafka.dead_letter_topic: (broker.topic_settings(kafka.dead_letter_topic), DEAD_LETTER_SETTINGS),
    }
    if (name := kafka.changes_topic) and broker.topic(name) is not None:
        live[name] = (broker.topic_settings(name), CHANGES_AT_FIRST)
    if (name := kafka.contexts_topic) and broker.topic(name) is not None:
        live[name] = (broker.topic_settings(name), CONTEXT_SETTINGS | contexts_at_first(kafka.contexts_days))
    shown: dict[str, Any] = {
        "log_id": log.log_id,
        "generation": log.generation,
        "partitions": log.partitions,
        "cluster_id": log.cluster_id,
        "topic_id": log.topic_id,
        "topics": {
            topic: {name: found.get(name) for name in (*wanted, "min.insync.replicas")}
            for topic, (found, wanted) in live.items()
        },
    }
    if json:
        render.print_json(jsontext.dump(shown))
        return
    out = render.console()
    table = render.table("log", log.log_id)
    table.show_header = True
    for name in ("generation", "partitions", "cluster_id", "topic_id"):
        table.add_row(name.replace("_", " "), render.clean(str(shown[name])))
    table.add_row("genesis", f"offset 0 of each of the {log.partitions} partitions: present, and all agree")
    out.print(table)
    for topic, found in shown["topics"].items():
        out.print()
        settings_table = render.table("topic", topic)
        for name, value in found.items():
            settings_table.add_row(name, "not told by the broker" if value is None else render.clean(value))
        out.print(settings_table)


def _schema_text(schema: Any) -> str:
    """A value schema in a few words."""
    if isinstance(schema, dict) and isinstance(choices := schema.get("enum"), list):
        return " | ".join(render.value_text(choice) for choice in choices)
    if isinstance(schema, dict) and isinstance(kind := schema.get("type"), str):
        return render.clean(kind)
    return "schema"
