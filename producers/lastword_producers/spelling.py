"""Which declared key is meant by one that is not declared."""

from functools import lru_cache

from lastword_projector.engine.keys import Keys


def meant(key: str, keys: Keys) -> str | None:
    """A declared key that is this one but for the case, or for one character: missing, too many, another.

    Two words are that close if leaving out at most one character of each can make them equal. So a look-up takes a few
    steps for each character of the key, however many are declared.
    """
    spellings = _spellings(keys)
    return next((spellings[text] for text in _with_one_left_out(key) if text in spellings), None)


@lru_cache(maxsize=2)
def _spellings(keys: Keys) -> dict[str, str]:
    """Declared keys by themselves and by themselves with one character left out."""
    declared = sorted(keys.registry.keys, reverse=True)  # of several that fit, the first by name
    found = {text: key for key in declared for text in _with_one_left_out(key)}
    return found | {key.casefold(): key for key in declared}


def _with_one_left_out(key: str) -> list[str]:
    text = key.casefold()
    return [text, *(text[:place] + text[place + 1 :] for place in range(len(text)))]
