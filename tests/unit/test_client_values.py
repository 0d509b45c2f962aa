"""What a read returns: each situation by its name, typed values, and nothing of the value in what is logged."""

import json
import traceback
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Literal

import pytest
from pydantic import AfterValidator, BaseModel, ConfigDict, TypeAdapter, ValidationError

from lastword import Absent, Deleted, DoesNotFit, Erased, Expired, NoValue, Status, Unresolved, Value
from lastword.client.values import value_of
from lastword_schemas.answers import InspectionRecord
from lastword_schemas.verdicts import Outcome, Verdict
from tests.support.network import record


class Tone(StrEnum):
    BRIEF = "brief"
    FORMAL = "formal"


class Address(BaseModel):
    model_config = ConfigDict(strict=True)

    street: str
    tone: Tone
    lines: tuple[str, ...] = ()


ELM_STREET = Address(street="Elm", tone=Tone.BRIEF, lines=("1",))


@dataclass
class Point:
    x: int
    y: int


def answer(value: Any = None, as_type: Any = None, **state: Any) -> Value[Any]:
    return value_of(InspectionRecord.model_validate_json(record(value, **state).content), as_type)


SITUATIONS: list[tuple[dict[str, Any], Status, type[NoValue]]] = [
    ({"status": "absent"}, Status.ABSENT, Absent),
    ({"status": "deleted"}, Status.DELETED, Deleted),
    ({"status": "expired"}, Status.EXPIRED, Expired),
    ({"status": "erased"}, Status.ERASED, Erased),
    ({"status": "set", "resolution_state": "unresolved"}, Status.UNRESOLVED, Unresolved),
]


@pytest.mark.parametrize(("state", "status", "error"), SITUATIONS)
def test_each_situation_without_a_value_has_its_status_its_property_and_its_error(
    state: dict[str, Any], status: Status, error: type[NoValue]
) -> None:
    found = answer("Berlin", **state)

    assert found.status is status
    told = [one for one in Status if one is not Status.OTHER and getattr(found, f"is_{one}")]
    assert told == [status]
    assert found.value_or("nowhere") == "nowhere"
    with pytest.raises(error, match=r"mail\.tone.*`value_or` takes a default") as raised:
        _ = found.value
    assert raised.value.answer is found
    assert raised.value.code == status


def test_a_value_is_told_from_a_default() -> None:
    found = answer("brief")

    assert (found.status, found.is_set, found.value, found.value_or("neutral")) == (Status.SET, True, "brief", "brief")
    match found:
        case Value(status=Status.SET, value=tone):
            assert tone == "brief"
        case _:
            pytest.fail("not matched")


@pytest.mark.parametrize("value", [None, False, 0, "", [], {}])
def test_an_empty_value_is_a_value(value: Any) -> None:
    found = answer(value)

    assert found.is_set
    assert found.value == value
    assert found.value_or("default") == value


@pytest.mark.parametrize(
    ("value", "as_type", "expected"),
    [
        ("brief", Tone, Tone.BRIEF),
        ("brief", TypeAdapter(Literal["brief"]), "brief"),
        ({"street": "Elm", "tone": "brief", "lines": ["1"]}, Address, ELM_STREET),
        ({"x": 1, "y": 2}, Point, Point(1, 2)),
        ([1, 2], list[int], [1, 2]),
        (10**30, int, 10**30),
    ],
)
def test_a_typed_read_gives_the_type(value: Any, as_type: Any, expected: Any) -> None:
    assert answer(value, as_type).value == expected


def test_an_answer_among_many_gets_its_type_afterwards() -> None:
    assert answer("brief").as_type(Tone).value is Tone.BRIEF
    assert answer(status="absent").as_type(Tone).status is Status.ABSENT
    with pytest.raises(DoesNotFit):
        answer("shouting").as_type(Tone)


def test_a_typed_read_says_which_part_did_not_fit() -> None:
    with pytest.raises(DoesNotFit) as misfit:
        answer({"street": 7, "tone": "shouting"}, Address)

    error = misfit.value
    assert error.key == "mail.tone"
    assert [path for path, _ in error.misfits] == ["street", "tone"]
    assert error.field == "street"
    assert "Address" in str(error)
    assert "street: Input should be a valid string" in str(error)
    assert "'brief' or 'formal'" in str(error)


def test_nothing_that_is_logged_shows_the_value() -> None:
    secret = "".join(["hunt", "er2"])  # else the traceback's own line would hold it

    def refuse(value: str) -> str:
        raise ValueError(f"{value} is not nice")

    with pytest.raises(DoesNotFit) as misfit:
        answer(secret, Annotated[str, AfterValidator(refuse)])

    assert secret not in "".join(traceback.format_exception(misfit.value))
    assert secret not in repr(misfit.value.__dict__)
    assert secret not in f"{answer(secret)!r} {answer(secret)}"


def test_what_has_no_value_fits_every_type() -> None:
    assert answer(None, Address, status="deleted").value_or(None) is None


def test_a_status_of_a_later_lastword_is_not_taken_for_one_of_these() -> None:
    found = answer("x", status="withheld")

    assert (found.status, found.is_set, found.value_or("default")) == (Status.OTHER, False, "default")
    assert found.record.state.status == "withheld"
    with pytest.raises(NoValue):
        _ = found.value
    assert answer("x", resolution_state="disputed").status is Status.UNRESOLVED


def test_names_of_a_later_lastword_stay_what_they_are() -> None:
    place = {"event_id": "x", "sequence": 1, "partition": 0, "offset": 1}
    verdict = Verdict.model_validate_json(json.dumps(place | {"outcome": "counts", "effect": "withdrew"}))

    assert verdict.outcome is Outcome.COUNTS
    assert verdict.effect == "withdrew"
    with pytest.raises(ValidationError):
        Verdict.model_validate_json(json.dumps(place | {"outcome": 7}))
