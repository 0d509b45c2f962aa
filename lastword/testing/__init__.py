"""For the tests of those who use lastword: a lastword in memory, with what can go wrong under control.

Install it as `lastword[testing]`. The pytest fixtures are in `lastword.pytest_plugin`.
"""

try:
    from lastword.testing.candidates import HeldCandidates
    from lastword.testing.clock import Clock
    from lastword.testing.keys import Keys
    from lastword.testing.log import LoggedEvent
    from lastword.testing.memory import InMemoryLastword, Part
except ModuleNotFoundError as error:
    message = f"lastword.testing needs {error.name}: pip install 'lastword[testing]'"
    raise ModuleNotFoundError(message, name=error.name) from error

__all__ = ["Clock", "HeldCandidates", "InMemoryLastword", "Keys", "LoggedEvent", "Part"]
