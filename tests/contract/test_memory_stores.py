"""The stores in memory keep the contracts."""

import pytest

from lastword_projector.store.memory import MemoryHistoryStore, MemoryProfileStore
from lastword_projector.store.ports import HistoryStore, ProfileStore
from tests.contract.history_store import HistoryStoreContract
from tests.contract.profile_store import ProfileStoreContract


class TestMemoryProfileStore(ProfileStoreContract):
    fold_version_at = "lastword_projector.store.memory.FOLD_VERSION"

    @pytest.fixture
    def profile(self) -> ProfileStore:
        return MemoryProfileStore()


class TestMemoryHistoryStore(HistoryStoreContract):
    @pytest.fixture
    def history(self) -> HistoryStore:
        return MemoryHistoryStore()

    def stubs(self, history: HistoryStore, partition: int) -> list[tuple[int, str]]:
        assert isinstance(history, MemoryHistoryStore)
        return [(letter.record.offset, letter.problem) for number, letter in history.dead if number == partition]
