"""Search: finds and ranks memories and turns for a question or a prompt.

In: a question or a hybrid query, with filters. Out: a `models.Ranking` of hits with scores and a relevance probability.
Open `service` for the searches of memories and turns, `retrievers` for candidates, filters and the hybrid query,
`ranking` for scoring, `repository` for rows and words, `vector_index` for vectors, and `spaces` for embedding and
reindexing.

Invariant: vectors of different embedding spaces are never compared. The vectors and the full-text index in the
database are the source; vector indexes and word indexes are derived from the database and rebuilt when needed.
"""
