"""The key registry of a test: the team's own file, a few declarations, or what a local lastword begins with."""

import os
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from lastword_schemas import jsontext
from lastword_schemas.registry import Registry, parse_registry_file

Keys = str | os.PathLike[str] | Mapping[str, Mapping[str, Any]] | Registry | None
"""Path of a registry file; or declarations by key, policy `latest` where they name none; None: the starter keys."""


def registry_from(keys: Keys) -> Registry:
    """The registry. Raises InvalidInput naming the offending key, OSError where the file cannot be read."""
    if isinstance(keys, Registry):
        return keys
    if isinstance(keys, Mapping):
        return with_keys(Registry(), keys)
    path = files("lastword") / "keys.starter.toml" if keys is None else Path(keys)
    return parse_registry_file(path.read_text("utf-8"), name=path.name)


def with_keys(registry: Registry, keys: Mapping[str, Mapping[str, Any]]) -> Registry:
    """The registry with more keys, or other declarations of the same. Raises InvalidInput."""
    known = jsontext.parse(registry.to_canonical())
    declared = {key: {"policy": "latest", **declaration} for key, declaration in keys.items()}
    return Registry.read(known | {"keys": known.get("keys", {}) | declared})
