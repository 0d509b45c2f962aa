"""For the tests of those who use lastword: a lastword in memory, with what can go wrong under control.

Install it as `lastword[testing]`. The pytest fixtures are in `lastword.pytest_plugin`.
"""

from lastword.testing.candidates import HeldCandidates
from lastword.testing.clock import Clock
from lastword.testing.keys import Keys
from lastword.testing.log import LoggedEvent
from lastword.testing.memory import InMemoryLastword, Part

__all__ = ["Clock", "HeldCandidates", "InMemoryLastword", "Keys", "LoggedEvent", "Part"]
