"""`lastword topics check-producer`: whether somebody's records are right. It needs no Redis and no worker."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.text import Text

from lastword.cli import render
from lastword.conformance import Produced, ProducerCheck, Report, check
from lastword.launcher import PARTITIONS
from lastword.settings import ConnectionSettings
from lastword.topic_reading import TopicReader
from lastword_producers.broker import Broker, KafkaSettings
from lastword_producers.errors import LogMismatch, LogNotReady
from lastword_producers.kafka_log import open_log
from lastword_schemas import jsontext
from lastword_schemas.errors import InvalidInput
from lastword_schemas.model import parse_instant
from lastword_schemas.registry import Registry, parse_registry_file

_TIMEOUT_S: Final = 10.0
_LAST: Final = 10_000


def check_producer(
    topic: Annotated[
        str | None, typer.Option(help="Another topic than LASTWORD_TOPIC, such as one to try a producer on.")
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            readable=True,
            help="JSON lines with partition, key and value; no topic.",
        ),
    ] = None,
    partitions: Annotated[int, typer.Option(min=1, help="Of a file: partitions of the topic.")] = PARTITIONS,
    last: Annotated[int, typer.Option(min=1, help="Read so many records of each partition.")] = _LAST,
    from_offset: Annotated[
        int | None, typer.Option(min=0, help="Read each partition from there instead; 0: everything.")
    ] = None,
    since: Annotated[str | None, typer.Option(help="Read what is not older than this instant instead.")] = None,
    service: Annotated[str | None, typer.Option(help="Tell only what this service wrote.")] = None,
    keys: Annotated[
        Path | None,
        typer.Option(
            exists=True, dir_okay=False, readable=True, help="The registry, where none stands in what is read."
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Check whether a producer that does not use lastword's client writes right. Exit code 1: something is wrong."""
    registry = None if keys is None else parse_registry_file(keys.read_text("utf-8"), name=str(keys))
    if file is not None:
        report = check(_lines(file), partitions=partitions, registry=registry, service=service)
    else:
        settings = ConnectionSettings().kafka_settings
        settings = settings if topic is None else replace(settings, topic=topic)
        checked = _open(settings, any_topic=topic is not None, registry=registry, service=service)
        with TopicReader(settings, checked.partitions) as reader:
            for partition, record in reader.records(_starts(reader, last, from_offset, since)):
                checked.take(partition, record)
        report = checked.report()
    if json:
        render.print_json(jsontext.dump(report.as_json()))
    else:
        _tell(report, "line" if file else "partition, offset")
    if not report.ok:
        raise typer.Exit(1)


def _open(settings: KafkaSettings, *, any_topic: bool, registry: Registry | None, service: str | None) -> ProducerCheck:
    """The check of a topic, which is a log unless any topic will do."""
    try:
        log = open_log(settings, _TIMEOUT_S)
    except (LogNotReady, LogMismatch):
        topic = Broker(settings, _TIMEOUT_S).topic(settings.topic) if any_topic else None
        if topic is None:
            raise
        return ProducerCheck(topic.partitions, registry=registry, service=service)
    return ProducerCheck(log.partitions, genesis=log.genesis, registry=registry, service=service)


def _starts(reader: TopicReader, last: int, from_offset: int | None, since: str | None) -> dict[int, int]:
    if since is not None:
        return reader.since(parse_instant(since, field="since"))
    return reader.last(last) if from_offset is None else reader.from_offset(from_offset)


def _lines(file: Path) -> Iterator[Produced]:
    for number, text in enumerate(file.read_bytes().splitlines(), start=1):
        try:
            line = jsontext.parse(text)
        except InvalidInput as error:
            raise InvalidInput(f"line {number}: {error.message}") from error
        if not isinstance(line, dict) or type(partition := line.get("partition")) is not int:
            raise InvalidInput(f"line {number}: not an object with partition, key and value", field="partition")
        yield Produced(partition, _bytes(line.get("key")), _bytes(line.get("value")))


def _bytes(part: Any) -> bytes | None:
    """A key or a value of a line: its text, or the JSON itself."""
    if part is None:
        return None
    return part.encode("utf-8", "surrogatepass") if isinstance(part, str) else jsontext.dump(part).encode()


def _tell(report: Report, place: str) -> None:
    out = render.console()
    if report.findings:
        table = render.table("", "finding", "records", f"first ({place})", "what", "what to do")
        for finding in report.findings:
            table.add_row(
                Text("wrong", style="red") if finding.wrong else Text("hint", style="yellow"),
                finding.kind,
                str(finding.count),
                str(finding.offset) if place == "line" else f"{finding.partition}, {finding.offset}",
                render.clean(finding.detail),
                finding.advice,
            )
        out.print(table)
    for unchecked in report.unchecked:
        out.print(Text(f"not checked: {unchecked}", style="yellow"))
    told = f"{report.events:,} events in {report.records:,} records"
    out.print(Text.assemble(("right: ", "green") if report.ok else ("wrong: ", "red"), told))
