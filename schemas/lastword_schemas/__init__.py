"""The words that every part of lastword shares: identities, envelopes, positions, verdicts, answers.

Nothing here does I/O. The base install (pydantic alone) can import all of it.
"""
