"""Reminders of how the user wants work to be done (RULE-2); what each says is with whoever recognises its occasion."""

from __future__ import annotations

from typing import Literal, get_args

Reminder = Literal["plan_mode_required", "no_quick_solutions", "present_all_choices"]
REMINDERS: tuple[Reminder, ...] = get_args(Reminder)
