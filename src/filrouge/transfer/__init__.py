"""Transfer: exports the store, reads Filrouge's own exports back, and imports data of other programs.

In: rows of the store, an export, or a file of another program. Out: JSON, CSV or JSON Lines, or stored rows with
counts. Invariants: importing the same data twice changes nothing; forgotten content stays forgotten; a file that the
user did not confirm produces observations only, never rules.
Open `service` for the operations, `exports` for the formats and row models, `repository` for the queries,
`importers` for other programs' formats.
"""
