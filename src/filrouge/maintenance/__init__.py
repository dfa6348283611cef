"""Maintenance: consolidation, retention, backup, restore, repair, and health reports.

Input is the database and files of one home. Output is the same database, consolidated or replaced, and the reports of
`status`, `health` and `usage`. Invariant: every operation can be interrupted at any point and leaves the old or the new
state complete.

Open `garden_service` for consolidation runs, `consolidation` for their rules and for decay, `retention` for what is
deleted, `backup_service` and `backup_files` for backups, `copies` for copying and comparing databases, `restore` for
restore and reset, `repair` for damaged databases, and `health` for reports.
"""
