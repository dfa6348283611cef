"""Progress bars, where a person reads. Their text is shown as it is: no markup and no links."""

from __future__ import annotations

from rich.progress import Progress, ProgressColumn, TextColumn

from filrouge.cli import output


def bars(*columns: ProgressColumn | str, transient: bool = True, disable: bool = False) -> Progress:
    """Bars of these columns on the console; a text is a template such as `{task.description}`."""
    made = (TextColumn(one, markup=False) if isinstance(one, str) else one for one in columns)
    return Progress(*made, console=output.console(), transient=transient, disable=disable)
