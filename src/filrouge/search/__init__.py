"""Search: finds and ranks memories and turns for a question or a prompt.

In: a question (`memory_search.Question`) or a hybrid query, with filters. Out: a `models.Ranking` of hits with scores
and a relevance probability. Open `memory_search` and `turn_search` for the two searches, `retrievers` for candidates
and the hybrid query, `fusion`, `turn_ranking` and `relevance` for scoring, `spaces` for embedding and reindexing.

Invariant: vectors of different embedding spaces are never compared. The vectors and the full-text index in the
database are the source; vector indexes and word indexes are derived from the database and rebuilt when needed.
"""
