"""What became of an event, for people."""

from typing import Any

from rich.text import Text

from lastword.cli import render


def tell_item(item: dict[str, Any]) -> None:
    """Print the verdict on an event that was written, and its receipt."""
    receipt, verdict = item["receipt"], item.get("verdict")
    out = render.console()
    if verdict is None:
        text = Text.assemble(render.styled("accepted"), f" at sequence {receipt['sequence']}; no verdict yet")
    else:
        effect = f"{verdict['effect']}"
        if verdict.get("sequences"):
            effect += f" ({', '.join(map(str, verdict['sequences']))})"
        text = Text.assemble((effect, "green"), f" at sequence {verdict['sequence']}")
        for other in verdict.get("retires", ()):
            text.append(f"; {render.clean(other['scope'])} {render.clean(other['key'])}: {other['effect']}")
        if verdict["sequence"] != receipt["sequence"]:
            text.append(f"; this is a copy of it, at {receipt['sequence']}", style="dim")
    out.print(text)
    out.print(Text(f"receipt {receipt['receipt']}", style="dim"), soft_wrap=True)
