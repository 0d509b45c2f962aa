"""The operations page says how to mend every refusal that the code knows."""

import importlib
import pkgutil
import re
from pathlib import Path

import lastword
import lastword_producers
import lastword_projector
import lastword_query_api
import lastword_schemas
from lastword_schemas.errors import LastwordError
from lastword_schemas.problems import STATUS_OF_CODE
from lastword_schemas.verdicts import Reason

PAGE = Path(__file__).parents[2] / "docs" / "operations.md"
PACKAGES = (lastword, lastword_producers, lastword_projector, lastword_query_api, lastword_schemas)


def codes_of_errors() -> set[str]:
    for package in PACKAGES:
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)
    classes, found = [LastwordError], set()
    while classes:
        known = classes.pop()
        classes += known.__subclasses__()
        if known is not LastwordError and known.__module__.startswith("lastword"):
            found.add(known.code)
    return found


def test_every_code_and_reason_has_one_row_and_no_row_is_of_another() -> None:
    table = PAGE.read_text("utf-8").partition("<!-- codes")[2]
    rows = re.findall(r"^\| `([a-z-]+)` \| .+ \| .+ \|$", table, re.MULTILINE)
    assert len(rows) == len(set(rows))
    assert set(rows) == codes_of_errors() | set(STATUS_OF_CODE) | {reason.value for reason in Reason}
