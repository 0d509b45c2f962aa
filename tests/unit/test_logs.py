"""How the parts log."""

import json
import logging
from collections.abc import Iterator
from datetime import datetime

import pytest

from lastword.logs import set_up_logging


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    yield
    root.handlers[:] = before
    root.setLevel(level)


def test_text_is_one_line_an_event(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging("INFO")
    logging.getLogger("lastword").info("partition %d", 3, extra={"partition": 3})
    assert capsys.readouterr().err.endswith(" INFO lastword partition 3\n")


def test_a_json_line_has_its_position_in_fields_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging("INFO", "json")
    logging.getLogger("lastword").warning("dead letter", extra={"partition": 3, "offset": 7})
    (line,) = capsys.readouterr().err.splitlines()
    found = json.loads(line)
    assert datetime.fromisoformat(found.pop("time")).tzinfo is not None
    message = {"level": "WARNING", "logger": "lastword", "message": "dead letter"}
    assert found == message | {"partition": 3, "offset": 7}


def test_a_json_line_has_no_other_fields_than_those_that_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging("INFO", "json")
    logging.getLogger("library").info("started", extra={"owner": "user:ada", "color_message": "started"})
    assert json.loads(capsys.readouterr().err).keys() == {"time", "level", "logger", "message"}


def test_what_is_below_the_level_is_not_said(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging("WARNING", "json")
    logging.getLogger("lastword").info("nothing of note")
    assert capsys.readouterr().err == ""
