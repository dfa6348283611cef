"""Erasure: forgetting text, rows and everything derived from them, and keeping it forgotten.

Input is a text or an id. Output is a preview of every affected row, and after the deletion a signed receipt in counts.
Invariant: what was forgotten is in no table, index, file or backup of the home, or the receipt says where it still is.
Neither receipts nor tombstones contain forgotten text.

Open `service` for preview, `forget` and replay, `repository` for the rows that go along, `tombstones` for refusing
content that comes back, `old_backups` for rewriting backups, and `models` for the values.
"""
