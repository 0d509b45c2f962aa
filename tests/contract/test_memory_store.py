"""The store in memory keeps the contract."""

from dataclasses import replace

import pytest

from lastword_projector.store.memory import MemoryStore
from lastword_projector.store.ports import Store
from tests.contract.store import StoreContract


class TestMemoryStore(StoreContract):
    fold_version_at = "lastword_projector.store.memory.FOLD_VERSION"

    @pytest.fixture
    def kept(self) -> Store:
        return MemoryStore()

    def set_back(self, store: Store, partition: int) -> None:
        assert isinstance(store, MemoryStore)
        store._checkpoints[partition] = replace(store._checkpoints[partition], next_sequence=0)

    def stubs(self, store: Store, partition: int) -> list[tuple[int, str]]:
        assert isinstance(store, MemoryStore)
        return [(letter.record.offset, letter.problem) for number, letter in store.dead if number == partition]
