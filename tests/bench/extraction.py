"""How well the rules tell what lasts from what does not, on the tables of messages in tests/data/extraction."""

import time

from tests.bench.bench import Bench, Options
from tests.bench.show import figure, note
from tests.support.extraction import FOLDER, INDEPENDENT, PRACTICE, WRITTEN, cases, extractor, message, score

PRECISION, RECALL = 0.95, 0.8
NEVER = ("hypothetical", "quoted", "negated", "other-person")
TABLES = {
    WRITTEN: "written with the rules",
    PRACTICE: "which the rules were mended by",
    INDEPENDENT: "by somebody who had not seen the rules (docs/extraction.md has its first score)",
}
_ROUNDS = 10


def run(options: Options) -> bool:
    """Print precision, recall and what was wrongly let in, by table and kind; whether all reach the bars."""
    held = [_scored(table, about) for table, about in TABLES.items() if (FOLDER / table).exists()]
    if len(held) < len(TABLES):
        note("the table of somebody who had not seen the rules is not there")
    rules, texts = extractor(), [message(case.text) for case in cases()]
    began = time.perf_counter()
    for _ in range(_ROUNDS):
        for one in texts:
            rules.read(one)
    figure(f"{(time.perf_counter() - began) / _ROUNDS / len(texts) * 1e6:,.0f} microseconds a message")
    return len(held) == len(TABLES) and all(held)


def _scored(table: str, about: str) -> bool:
    got = score(table)
    wrong = ", ".join(f"{kind} {count}" for kind, count in sorted(got.false.items())) or "none"
    figure(
        f"{table}, {about}: {got.messages} messages, precision {got.precision:.3f} (at least {PRECISION}), "
        f"recall {got.recall:.3f} (at least {RECALL}); wrongly let in: {wrong}"
    )
    return got.precision >= PRECISION and got.recall >= RECALL and not any(got.false[kind] for kind in NEVER)


BENCH = Bench("what the extractor by rules proposes of tables of messages", (), (), run)
