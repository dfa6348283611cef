-- Every SQL query of Filrouge. Python refers to a query by its name.

-- name: projects.known
-- All names of every project that has one of these names.
SELECT alias, project_id FROM project_aliases
WHERE project_id IN (SELECT project_id FROM project_aliases WHERE alias IN (SELECT value FROM json_each(:names)))
-- name: projects.add
INSERT INTO projects (id, name, created_at) VALUES (:id, :name, :created_at) ON CONFLICT (id) DO NOTHING
-- name: projects.alias
-- An alias may move to another project.
INSERT INTO project_aliases (alias, project_id) VALUES (:alias, :project_id)
ON CONFLICT (alias) DO UPDATE SET project_id = excluded.project_id
-- name: projects.all
SELECT id, name, created_at FROM projects ORDER BY created_at
-- name: projects.aliases
SELECT alias FROM project_aliases WHERE project_id = :project_id ORDER BY alias
-- name: projects.folder
-- A folder that the user agreed to stays agreed.
INSERT INTO project_folders (name, alias, state, at) VALUES (:name, :alias, :state, :at)
ON CONFLICT (name, alias) DO UPDATE SET state = excluded.state, at = excluded.at
WHERE project_folders.state = 'waiting' AND excluded.state = 'agreed'
-- name: projects.agreed_folders
SELECT alias FROM project_folders WHERE name = :name AND state = 'agreed' ORDER BY alias
-- name: projects.waiting_folders
SELECT name, alias FROM project_folders WHERE state = 'waiting' ORDER BY at, name, alias
-- name: projects.names
SELECT alias, project_id FROM project_aliases ORDER BY alias
-- name: projects.named
SELECT id, name, created_at FROM projects ORDER BY name COLLATE NOCASE, id
-- name: projects.told
-- Every project with its number of turns, live memories and threads.
SELECT projects.id, name, created_at, ifnull(said.n, 0) AS turns, ifnull(known.n, 0) AS memories,
       ifnull(worked.n, 0) AS threads, said.at AS last_activity
FROM projects
LEFT JOIN (SELECT project_id, count(*) AS n, max(at) AS at FROM turns GROUP BY project_id) AS said
  ON said.project_id = projects.id
LEFT JOIN (SELECT project_id, count(*) AS n FROM memories
           WHERE state = 'live' AND kind NOT IN ('concept', 'episode') GROUP BY project_id) AS known
  ON known.project_id = projects.id
LEFT JOIN (SELECT project_id, count(*) AS n FROM threads WHERE merged_into IS NULL GROUP BY project_id) AS worked
  ON worked.project_id = projects.id
ORDER BY ifnull(said.at, created_at) DESC, projects.id
-- name: projects.events_count
SELECT count(*) AS n FROM events WHERE project_id = :project_id
-- name: projects.threads_count
SELECT count(*) AS n FROM threads WHERE project_id = :project_id
-- name: projects.turns
SELECT id FROM turns WHERE project_id = :project_id ORDER BY seq
-- name: projects.memories
SELECT * FROM memories WHERE project_id = :project_id ORDER BY seq
-- name: projects.doubled
-- Live memories of two projects of which only one could stay live after a merge: those with equal keys, and concepts
-- with equal subjects.
SELECT one.id AS one, other.id AS other FROM memories AS one
JOIN memories AS other ON other.tenant = one.tenant AND other.user_id = one.user_id AND other.scope = one.scope
  AND other.state = 'live'
  AND (other.key = one.key OR (other.kind = 'concept' AND one.kind = 'concept' AND other.subject = one.subject))
WHERE one.state = 'live' AND one.project_id = :source AND other.project_id = :into ORDER BY one.seq
-- name: projects.place
UPDATE memories SET project_id = :project_id, row_key = :row_key, row_hash = :row_hash WHERE id = :id
-- name: projects.take_names
UPDATE project_aliases SET project_id = :into WHERE project_id = :source
-- name: projects.take_events
UPDATE events SET project_id = :into WHERE project_id = :source
-- name: projects.take_turns
UPDATE turns SET project_id = :into WHERE project_id = :source
-- name: projects.take_threads
UPDATE threads SET project_id = :into WHERE project_id = :source
-- name: projects.take_syntheses
UPDATE syntheses SET project_id = :into WHERE project_id = :source
-- name: projects.take_recalls
UPDATE memory_retrievals SET project_id = :into WHERE project_id = :source
-- name: projects.take_jobs
-- Jobs waiting for the source project now belong to the target.
UPDATE jobs SET payload = json_set(payload, '$.project', :into) WHERE payload ->> '$.project' = :source
-- name: projects.take_days
INSERT INTO active_days (tenant, project_id, day) SELECT tenant, :into, day FROM active_days
WHERE project_id = :source ON CONFLICT DO NOTHING
-- name: projects.drop_days
DELETE FROM active_days WHERE project_id = :project_id
-- name: projects.drop
DELETE FROM projects WHERE id = :project_id

-- name: events.add
INSERT INTO events (id, key, host, session_id, kind, project_id, at, received_at, payload, row_key, row_hash)
VALUES (:id, :key, :host, :session_id, :kind, :project_id, :at, :received_at, :payload, :row_key, :row_hash)
ON CONFLICT DO NOTHING
-- name: events.get
SELECT payload, project_id FROM events WHERE id = :id
-- name: events.settle
UPDATE events SET state = :state, reason = :reason WHERE id = :id AND state <> 'forgotten'
-- name: events.erase
-- The row stays, so that a repeated delivery is recognised. A key derived from the content is replaced.
UPDATE events SET payload = '{}', row_key = x'', state = 'forgotten', reason = '',
                  key = iif(instr(key, kind || ':' || id || ':') = 1, id, key)
WHERE id IN (SELECT value FROM json_each(:ids))
-- name: events.page
-- Numbers of events before a number and since a time, newest first; of one host if it is not NULL.
SELECT seq FROM events WHERE seq < :before AND (:host IS NULL OR host = :host) AND at >= :since ORDER BY seq DESC LIMIT :limit
-- name: events.page_of_state
-- The same for one state; NULL parameters are ignored. `learned`: whether a memory cites one of the event's turns;
-- `passed`: whether extraction passed one of them over. Those that can have been are first found by an index.
SELECT seq FROM events
WHERE state = :state AND seq < :before AND (:host IS NULL OR host = :host) AND at >= :since
  AND (:passed IS NOT TRUE OR
       id IN (SELECT event_id FROM turns WHERE (role = 'tool' OR skipped <> '') AND at >= :since))
  AND (:passed IS NULL OR :passed = EXISTS (SELECT 1 FROM turns WHERE event_id = events.id AND skipped <> ''))
  AND (:learned IS NULL OR :learned = EXISTS (
    SELECT 1 FROM turns JOIN evidence ON turn_id = turns.id JOIN memories ON memories.id = memory_id
    WHERE event_id = events.id AND memories.kind NOT IN ('concept', 'episode')))
ORDER BY seq DESC LIMIT :limit
-- name: events.shown
-- Events by number, newest first, with the beginning of their first turn and why extraction passed one over.
SELECT events.seq, events.id, events.at, received_at, events.host AS channel, events.session_id, events.kind,
       events.project_id AS project, events.state, events.reason, turns.id AS turn_id,
       substr(turns.text, 1, :characters) AS excerpt,
       (SELECT max(skipped) FROM turns WHERE event_id = events.id) AS passed_over
FROM events LEFT JOIN turns ON turns.seq = (SELECT min(said.seq) FROM turns AS said WHERE said.event_id = events.id)
WHERE events.seq IN (SELECT value FROM json_each(:seqs)) ORDER BY events.seq DESC
-- name: events.learned
-- The memories that cite a turn of these events, oldest first.
SELECT DISTINCT event_id, memories.id, memories.kind, memories.state, substr(memories.text, 1, :characters) AS text
FROM json_each(:ids) CROSS JOIN turns ON event_id = json_each.value CROSS JOIN evidence ON turn_id = turns.id
CROSS JOIN memories ON memories.id = memory_id
WHERE memories.kind NOT IN ('concept', 'episode') ORDER BY memories.seq
-- name: events.sealed
SELECT seq, id, payload, row_key, row_hash FROM events
WHERE seq > :after AND state <> 'forgotten' ORDER BY seq LIMIT :limit
-- name: events.ledger
SELECT state, count(*) AS n FROM events GROUP BY state
-- name: events.received
SELECT ifnull(max(seq), 0) AS n FROM events
-- name: events.abandoned
-- Unprocessed events without a job that names them; only such a job can settle an event.
SELECT count(*) AS n FROM events WHERE state = 'queued' AND id NOT IN
  (SELECT json_extract(payload, '$.event') FROM jobs WHERE json_extract(payload, '$.event') IS NOT NULL)
-- name: events.compacted
-- When the session's context was last compacted.
SELECT max(at) AS at FROM events
WHERE tenant = 'local' AND host = :host AND session_id = :session_id AND kind IN ('pre_compact', 'summary')
-- name: events.last
-- When the newest event was received.
SELECT received_at AS at FROM events ORDER BY seq DESC LIMIT 1

-- name: turns.add
INSERT INTO turns (id, key, transcript_key, event_id, host, session_id, user_id, project_id, agent, channel, role,
                   source, text, text_hash, analyser, trust, at, skipped, branch, row_key, row_hash)
VALUES (:id, :key, :transcript_key, :event_id, :host, :session_id, :user_id, :project_id, :agent, :channel, :role,
        :source, :text, :text_hash, :analyser, :trust, :at, :skipped, :branch, :row_key, :row_hash)
ON CONFLICT DO NOTHING
-- name: turns.claim_from_transcript
-- The hook reports a turn already read from the transcript: the row takes the hook's key.
UPDATE turns SET key = :key
WHERE seq = (SELECT min(seq) FROM turns
             WHERE tenant = 'local' AND host = :host AND session_id = :session_id AND role = :role
               AND text_hash = :text_hash AND key = transcript_key)
  AND NOT EXISTS (SELECT 1 FROM turns WHERE tenant = 'local' AND host = :host AND session_id = :session_id AND key = :key)
-- name: turns.claim_from_hook
-- The transcript contains a turn already reported by a hook: the row stores the record's id.
UPDATE turns SET transcript_key = :key
WHERE seq = (SELECT min(seq) FROM turns
             WHERE tenant = 'local' AND host = :host AND session_id = :session_id AND role = :role
               AND text_hash = :text_hash AND transcript_key IS NULL)
-- name: turns.by_transcript_key
SELECT id FROM turns WHERE tenant = 'local' AND host = :host AND transcript_key = :key
-- name: turns.vouch
-- Raises the trust of imported turns. Turns captured by a hook (with an event) are already trusted.
UPDATE turns SET trust = :trust
WHERE tenant = 'local' AND host = :host AND trust < :trust AND event_id IS NULL
  AND (transcript_key = :key OR (session_id = :session_id AND key = :key))
RETURNING id
-- name: turns.same_prompt
-- The same prompt in the same project through another host within a few seconds.
SELECT id FROM turns
WHERE tenant = 'local' AND project_id IS :project_id AND text_hash = :text_hash AND role = 'user'
  AND at BETWEEN :since AND :until AND host <> :host AND user_id = :user_id
-- name: turns.last_heard
-- When the latest message of each host was said: steps from session to session in an index, and asks each for its last.
WITH RECURSIVE hosts (name) AS (
  SELECT min(host) FROM turns WHERE tenant = 'local'
  UNION ALL
  SELECT (SELECT min(host) FROM turns WHERE tenant = 'local' AND host > name) FROM hosts WHERE name IS NOT NULL
),
sessions (name, session) AS (
  SELECT name, (SELECT min(session_id) FROM turns WHERE tenant = 'local' AND host = name)
  FROM hosts WHERE name IS NOT NULL
  UNION ALL
  SELECT name, (SELECT min(session_id) FROM turns WHERE tenant = 'local' AND host = name AND session_id > session)
  FROM sessions WHERE session IS NOT NULL
)
SELECT name AS host, max((
  SELECT max(at) FROM turns WHERE tenant = 'local' AND host = name AND session_id = session AND role <> 'tool'
)) AS at
FROM sessions WHERE session IS NOT NULL GROUP BY name
-- name: turns.get
SELECT turns.* FROM json_each(:ids) CROSS JOIN turns ON turns.id = value ORDER BY json_each.key
-- name: turns.skip
UPDATE turns SET skipped = :reason WHERE id = :id
-- name: turns.erase
DELETE FROM turns WHERE id IN (SELECT value FROM json_each(:ids))
-- name: turns.expired
-- Old turns that no memory cites, after a cursor. The first condition matches the partial index.
SELECT id, at, role, event_id, text, analyser FROM turns
WHERE (role = 'tool' OR skipped <> '') AND (at, id) > (:at, :id)
  AND ((role = 'tool' AND at < :tools) OR (skipped <> '' AND at < :noise))
  AND NOT EXISTS (SELECT 1 FROM evidence WHERE turn_id = turns.id)
ORDER BY at, id LIMIT :limit
-- name: turns.unindex_as
INSERT INTO messages_fts (messages_fts, rowid, tokens) SELECT 'delete', seq, :tokens FROM turns WHERE id = :id
-- name: events.hollow
-- The row stays, so that a repeated delivery is recognised.
UPDATE events SET payload = '{}', row_key = x'', state = 'forgotten', reason = 'retention'
WHERE id IN (SELECT value FROM json_each(:ids)) AND state IN ('done', 'skipped')
-- name: recalls.expire
DELETE FROM memory_retrievals
WHERE id IN (SELECT id FROM memory_retrievals WHERE created_at < :before ORDER BY id LIMIT :limit)
-- name: unread.expire
DELETE FROM unread_answers WHERE id IN (SELECT id FROM unread_answers WHERE at < :before ORDER BY id LIMIT :limit)
-- name: pages.free
SELECT free.freelist_count AS free, whole.page_count AS whole
FROM pragma_freelist_count AS free, pragma_page_count AS whole
-- name: pages.give_back
PRAGMA incremental_vacuum(256)
-- name: journal.last_of
SELECT seq, at FROM journal WHERE action = :action ORDER BY seq DESC LIMIT 1
-- name: turns.before
-- The last prompt or reply of a session before a time. `role <> 'tool'` selects the session index.
SELECT * FROM turns WHERE tenant = 'local' AND host = :host AND session_id = :session_id AND role <> 'tool'
  AND source IN ('prompt', 'reply') AND at < :at
ORDER BY at DESC, seq DESC LIMIT 1
-- name: turns.last_user_texts
SELECT text FROM turns WHERE tenant = 'local' AND host = :host AND session_id = :session_id AND role = 'user'
ORDER BY seq DESC LIMIT :limit
-- name: turns.last_user_texts_of_project
SELECT text FROM turns WHERE tenant = 'local' AND project_id IS :project_id AND role = 'user'
ORDER BY seq DESC LIMIT :limit
-- name: turns.prompts
-- The user's prompts in a period, newest first, with their threads.
SELECT id, host, session_id, project_id, channel, text, turns.at, thread_id
FROM turns LEFT JOIN thread_turns ON turn_id = turns.id
WHERE tenant = 'local' AND role = 'user' AND skipped IN ('', 'too short') AND user_id = :user_id AND (:everywhere OR project_id IS :project_id)
  AND (:agent IS NULL OR iif(agent = '', channel, agent) = :agent) AND turns.at >= :since AND turns.at < :until
ORDER BY turns.at DESC, seq DESC LIMIT :limit
-- name: turns.newest_prompts
SELECT text FROM turns WHERE tenant = 'local' AND role = 'user' ORDER BY seq DESC LIMIT :limit
-- name: turns.recent
SELECT id, channel, session_id, user_id, role, text, at FROM turns
WHERE tenant = 'local' AND channel = :channel AND (:session_id IS NULL OR session_id = :session_id)
  AND (:user_id IS NULL OR user_id = :user_id)
ORDER BY seq DESC LIMIT :limit
-- name: turns.best
-- Numbers and scores of the best matches. Whole rows are read later, only for the results.
SELECT turns.id, -bm25(messages_fts) AS bm25 FROM messages_fts
JOIN turns ON turns.seq = messages_fts.rowid
WHERE messages_fts MATCH :match AND (:everywhere OR project_id IS :project_id)
ORDER BY bm25(messages_fts) LIMIT :limit
-- name: turns.beside
-- Turns with the numbers of the turns before and after them in the same session and project, in chronological order.
SELECT turns.seq, turns.role,
  (SELECT json_group_array(seq ORDER BY at, seq) FROM (SELECT one.at, one.seq FROM turns AS one
    WHERE one.tenant = 'local' AND one.host = turns.host AND one.session_id = turns.session_id AND one.role <> 'tool'
      AND one.project_id IS turns.project_id AND (one.at, one.seq) < (turns.at, turns.seq)
    ORDER BY one.at DESC, one.seq DESC LIMIT :reach)) AS earlier,
  (SELECT json_group_array(seq ORDER BY at, seq) FROM (SELECT one.at, one.seq FROM turns AS one
    WHERE one.tenant = 'local' AND one.host = turns.host AND one.session_id = turns.session_id AND one.role <> 'tool'
      AND one.project_id IS turns.project_id AND (one.at, one.seq) > (turns.at, turns.seq)
    ORDER BY one.at, one.seq LIMIT :reach)) AS later
FROM turns WHERE turns.id IN (SELECT value FROM json_each(:ids))
-- name: turns.showable
-- Of these turns, real prompts and replies, and whether they were said in the session since a time (so that they are
-- still in the agent's context).
SELECT id, host = :host AND session_id = :session_id AND at >= :since AS in_context
FROM turns WHERE id IN (SELECT value FROM json_each(:ids)) AND source IN ('prompt', 'reply')
  AND skipped IN ('', 'too short') AND user_id = :user_id
-- name: turns.told
-- The columns used for ranking and filtering, in the order of the given numbers.
SELECT seq, turns.id, host, session_id, user_id, project_id, agent, channel, role, text, trust, at
FROM json_each(:seqs) CROSS JOIN turns ON seq = value ORDER BY json_each.key
-- name: turns.share
-- The turns that pass a filter; NULL parameters are ignored. An agent without an id is identified by its channel.
SELECT seq, id, 0 AS ended FROM turns
WHERE tenant = 'local' AND (:everywhere OR project_id IS :project_id)
  AND (:user IS NULL OR user_id = :user) AND (:agent IS NULL OR iif(agent = '', channel, agent) = :agent)
  AND (:channel IS NULL OR channel = :channel) AND (:role IS NULL OR role = :role) AND trust >= :trust
  AND (:since IS NULL OR at >= :since) AND (:until IS NULL OR at < :until) AND (:as_of IS NULL OR at <= :as_of)
  AND (:branch IS NULL OR branch = :branch)
  AND (:thread IS NULL OR id IN (SELECT turn_id FROM thread_turns WHERE thread_id = :thread))
-- name: turns.share_matching
SELECT rowid AS seq FROM messages_fts
WHERE messages_fts MATCH :match AND +rowid IN (SELECT value FROM json_each(:seqs))
-- name: turns.searched
-- The text under which turns are indexed.
SELECT id, text FROM turns WHERE id IN (SELECT value FROM json_each(:ids))
-- name: turns.share_counts
-- How often a token occurs in each of these rows.
SELECT doc, term, count(*) AS n FROM messages_places
WHERE term IN (SELECT value FROM json_each(:forms)) AND doc IN (SELECT value FROM json_each(:seqs)) GROUP BY doc, term
-- name: turns.share_lengths
SELECT id AS seq, sz FROM messages_fts_docsize WHERE id IN (SELECT value FROM json_each(:seqs))
-- name: turns.index
INSERT INTO messages_fts (rowid, tokens) SELECT seq, :tokens FROM turns WHERE id = :id
-- name: turns.unindex
-- A row's tokens are read back from the index.
INSERT INTO messages_fts (messages_fts, rowid, tokens)
SELECT 'delete', doc, group_concat(term, ' ') FROM messages_places
WHERE doc IN (SELECT seq FROM turns WHERE id IN (SELECT value FROM json_each(:ids))) GROUP BY doc
-- name: turns.merge
-- Merges all segments of the full-text index into one.
INSERT INTO messages_fts (messages_fts) VALUES ('optimize')
-- name: turns.numbered
-- The rows after a number that a word index reads, in order. (`+tenant` prevents the use of an index on it, so rows are
-- read by number.)
SELECT seq, text, user_id, project_id, iif(agent = '', channel, agent) AS agent, channel, role, trust, at AS begins
FROM turns WHERE +tenant = 'local' AND seq > :after ORDER BY seq LIMIT :limit
-- name: turns.matching_behind
SELECT rowid AS seq FROM messages_fts WHERE messages_fts MATCH :match AND rowid > :after
-- name: turns.last
SELECT ifnull(max(seq), 0) AS n FROM turns
-- name: turns.ids
SELECT seq, id FROM turns WHERE seq IN (SELECT value FROM json_each(:seqs))
-- name: turns.searched_by_number
SELECT seq, text FROM turns WHERE seq IN (SELECT value FROM json_each(:seqs))
-- name: turns.labelled
-- The same columns without the text, for rows by id.
SELECT seq, id, user_id, project_id, iif(agent = '', channel, agent) AS agent, channel, role, trust, at AS begins
FROM turns WHERE +tenant = 'local' AND id IN (SELECT value FROM json_each(:ids))
-- name: turns.labelled_behind
SELECT seq, id, user_id, project_id, iif(agent = '', channel, agent) AS agent, channel, role, trust, at AS begins
FROM turns WHERE +tenant = 'local' AND seq > :after
UNION
SELECT seq, id, user_id, project_id, iif(agent = '', channel, agent) AS agent, channel, role, trust, at AS begins
FROM turns WHERE +tenant = 'local' AND seq IN (SELECT value FROM json_each(:seqs))
-- name: turns.stale
SELECT id, text FROM turns WHERE analyser < :version OR analyser > :version ORDER BY seq DESC LIMIT :limit
-- name: turns.analysers
-- How many turns each analyser version has indexed.
SELECT analyser, count(*) AS n FROM turns GROUP BY analyser

-- name: turns.unanalysed
UPDATE turns SET analyser = 0
-- name: turns.analysed
UPDATE turns SET analyser = :version WHERE id = :id
-- name: turns.frequencies
-- In how many rows of the full-text index a token occurs.
SELECT term, doc FROM messages_words WHERE term IN (SELECT value FROM json_each(:forms))
-- name: turns.totals
-- The full-text index's own count of rows and tokens.
SELECT block FROM messages_fts_data WHERE id = 1
-- name: turns.sealed
SELECT seq, id, role, text, at, row_key, row_hash FROM turns WHERE seq > :after ORDER BY seq LIMIT :limit
-- name: turns.of_session
-- The newest turns of a session after a number, newest first; tool output is truncated.
SELECT id, key, event_id, host, session_id, user_id, project_id, agent, channel, role, source, trust, at, skipped, seq, branch,
       iif(role = 'tool', substr(text, 1, :of_tools), text) AS text
FROM turns WHERE tenant = 'local' AND session_id = :session_id AND host = :host AND seq > :after
ORDER BY seq DESC LIMIT :limit
-- name: turns.ids_of_session
SELECT id FROM turns WHERE tenant = 'local' AND session_id = :session_id
-- name: turns.host_of_session
SELECT host FROM turns WHERE tenant = 'local' AND session_id = :session_id ORDER BY seq DESC LIMIT 1
-- name: turns.present
SELECT count(*) AS n FROM turns WHERE id IN (SELECT value FROM json_each(:ids))
-- name: turns.idle_sessions
-- Sessions among the newest turns that are idle and have new turns since their last analysis.
SELECT host, session_id FROM (SELECT host, session_id, seq, at FROM turns WHERE tenant = 'local' AND role <> 'tool'
                              ORDER BY seq DESC LIMIT :newest) AS recent
WHERE session_id <> '' GROUP BY host, session_id
HAVING max(at) < :before AND max(seq) > ifnull((SELECT until_seq FROM session_analyses AS own
  WHERE own.tenant = 'local' AND own.host = recent.host AND own.session_id = recent.session_id), 0)
LIMIT :limit
-- name: turns.unread_sessions
-- Sessions with new turns since their last analysis, ordered by their last turn.
SELECT host, session_id FROM turns AS recent
WHERE tenant = 'local' AND role <> 'tool' AND session_id <> '' GROUP BY host, session_id
HAVING max(seq) > ifnull((SELECT until_seq FROM session_analyses AS own
  WHERE own.tenant = 'local' AND own.host = recent.host AND own.session_id = recent.session_id), 0)
ORDER BY max(seq)
-- name: turns.proving_nothing
-- Of these turns, those that no memory cites in any state, and that no job is about to analyse.
SELECT id FROM turns WHERE id IN (SELECT value FROM json_each(:ids))
  AND NOT EXISTS (SELECT 1 FROM evidence WHERE turn_id = turns.id)
  AND NOT EXISTS (SELECT 1 FROM jobs WHERE dedupe_key = 'analyse:' || turns.id)
-- name: turns.count
SELECT count(*) AS n FROM turns

-- name: syntheses.put
INSERT INTO syntheses (id, user_id, project_id, agent, channel, host, session_id, thread_id, occasion, at, until_seq,
                       content, made_by)
VALUES (:id, :user_id, :project_id, :agent, :channel, :host, :session_id, :thread_id, :occasion, :at, :until_seq,
        :content, :made_by)
-- name: syntheses.clear
DELETE FROM syntheses WHERE tenant = 'local' AND host = :host AND session_id = :session_id
-- name: syntheses.of_session
SELECT * FROM syntheses WHERE tenant = 'local' AND host = :host AND session_id = :session_id ORDER BY at DESC, id DESC
-- name: syntheses.of_thread
-- The syntheses of a thread, one for each session that worked on it, the latest first.
SELECT * FROM syntheses WHERE tenant = 'local' AND thread_id = :thread_id AND content <> '{}' ORDER BY at DESC, id DESC LIMIT :limit
-- name: syntheses.of_place
-- The latest syntheses of a project, except those of one session and empty ones.
SELECT * FROM syntheses
WHERE tenant = 'local' AND user_id = :user_id AND project_id IS :project_id
  AND (:agent IS NULL OR iif(agent = '', channel, agent) = :agent)
  AND content <> '{}' AND NOT (host = :but_host AND session_id = :but_session)
ORDER BY at DESC, id DESC LIMIT :limit
-- name: syntheses.tie
-- Moves syntheses from one thread to another, unless their session already has one for it.
UPDATE OR IGNORE syntheses SET thread_id = :to WHERE thread_id = :from
-- name: syntheses.untie
DELETE FROM syntheses WHERE thread_id = :from
-- name: syntheses.forget
-- A synthesis is made from all turns of its session, so it is deleted with any of them.
DELETE FROM syntheses WHERE tenant = 'local' AND (host, session_id) IN (
  SELECT host, session_id FROM turns WHERE id IN (SELECT value FROM json_each(:turns)))
-- name: syntheses.sessions
SELECT DISTINCT host, session_id FROM turns WHERE id IN (SELECT value FROM json_each(:turns)) AND session_id <> ''
-- name: syntheses.threads
-- The threads of these turns.
SELECT turn_id, thread_id FROM thread_turns WHERE turn_id IN (SELECT value FROM json_each(:ids))
-- name: syntheses.memories
-- The memories that cite these turns, in any state.
SELECT DISTINCT memories.* FROM evidence JOIN memories ON memories.id = evidence.memory_id
WHERE evidence.turn_id IN (SELECT value FROM json_each(:turns)) AND kind NOT IN ('concept', 'episode')
-- name: syntheses.fresh_sessions
-- The sessions of the newest prompts of a project, latest first, each with the number of its last prompt.
SELECT host, session_id, max(seq) AS seq FROM (
  SELECT host, session_id, seq FROM turns
  WHERE tenant = 'local' AND role = 'user' AND project_id IS :project_id AND user_id = :user_id AND session_id <> ''
    AND skipped = '' AND (:agent IS NULL OR iif(agent = '', channel, agent) = :agent)
  ORDER BY seq DESC LIMIT :newest)
WHERE NOT (host = :but_host AND session_id = :but_session)
GROUP BY host, session_id ORDER BY max(seq) DESC LIMIT :limit
-- name: syntheses.calls
-- The inputs and outputs of the tool calls in these events.
SELECT id, payload FROM events WHERE id IN (SELECT value FROM json_each(:ids)) AND kind = 'tools' AND state <> 'forgotten'
-- name: syntheses.unread
-- Events of a session whose turns are not stored yet, oldest first.
SELECT events.payload, ifnull(events.project_id, '') AS project_id FROM events
JOIN jobs ON jobs.dedupe_key = 'read_turns:' || events.id
WHERE events.tenant = 'local' AND events.host = :host AND events.session_id = :session_id AND events.state = 'queued'
ORDER BY events.at, events.id LIMIT :limit
-- name: syntheses.quiet_sessions
-- Sessions among the newest turns that are idle and have new turns since their last synthesis.
SELECT host, session_id FROM (SELECT host, session_id, seq, at FROM turns WHERE tenant = 'local' AND role <> 'tool'
                              ORDER BY seq DESC LIMIT :newest) AS recent
WHERE session_id <> '' GROUP BY host, session_id
HAVING max(at) < :before AND max(seq) > ifnull((SELECT max(until_seq) FROM syntheses AS own
  WHERE own.tenant = 'local' AND own.host = recent.host AND own.session_id = recent.session_id), 0)
LIMIT :limit

-- name: transcripts.get
SELECT byte_offset, skipped_long FROM transcripts WHERE path = :path
-- name: transcripts.of_host
SELECT path, byte_offset FROM transcripts WHERE host = :host
-- name: transcripts.all
SELECT path, host, session_id, byte_offset, skipped_long, read_at FROM transcripts ORDER BY path
-- name: transcripts.put
INSERT INTO transcripts (path, host, session_id, byte_offset, skipped_long, read_at)
VALUES (:path, :host, :session_id, :byte_offset, :skipped_long, :read_at)
ON CONFLICT (path) DO UPDATE SET byte_offset = excluded.byte_offset,
  skipped_long = skipped_long + excluded.skipped_long, read_at = excluded.read_at

-- name: memories.add
INSERT INTO memories (id, user_id, scope, project_id, agent, channel, session_id, kind, text, analyser, subject,
                      key, value, confidence, sentiment, timeframe, trust, state, created_at, valid_from, supersedes,
                      previous_text, pinned, disabled, first_mention, last_mention, made_by, prompt_version, branch,
                      language, row_key, row_hash)
VALUES (:id, :user_id, :scope, :project_id, :agent, :channel, :session_id, :kind, :text, :analyser, :subject,
        :key, :value, :confidence, :sentiment, :timeframe, :trust, :state, :at, :at, :supersedes,
        :previous_text, :pinned, :disabled, :at, :at, :made_by, :prompt_version, :branch,
        :language, :row_key, :row_hash)
-- name: memories.get
SELECT * FROM memories WHERE id = :id
-- name: memories.some
SELECT * FROM memories WHERE id IN (SELECT value FROM json_each(:ids))
-- name: memories.within
SELECT * FROM memories
WHERE tenant = 'local' AND kind NOT IN ('concept', 'episode')
  AND (:all_states OR state = 'live')
  AND (:everywhere OR (scope = 'project' AND project_id IS :project_id) OR (scope = 'user' AND user_id = :user_id))
ORDER BY seq DESC
-- name: memories.ended
-- Memories of a project and its user that are no longer valid, most recently ended first.
SELECT text, valid_to FROM memories
WHERE tenant = 'local' AND state IN ('superseded', 'binned') AND kind NOT IN ('concept', 'episode')
  AND valid_to > valid_from
  AND ((scope = 'project' AND project_id IS :project_id AND user_id = :user_id) OR (scope = 'user' AND user_id = :user_id))
ORDER BY valid_to DESC LIMIT :limit
-- name: memories.rules
-- The valid rules of a project and user, up to a limit per scope: pinned first, then newest.
SELECT * FROM memories WHERE seq IN (
  SELECT seq FROM (
    SELECT seq, row_number() OVER (PARTITION BY scope ORDER BY pinned DESC, seq DESC) AS place
    FROM memories INDEXED BY memories_by_kind
    WHERE tenant = 'local' AND state = 'live' AND kind = 'rule' AND NOT disabled AND trust >= 2 AND confidence >= :least
      AND (:agent IS NULL OR iif(agent = '', channel, agent) = :agent)
      AND ((scope = 'project' AND project_id IS :project_id AND user_id = :user_id) OR (scope = 'user' AND user_id = :user_id))
  ) WHERE place <= :limit
)
ORDER BY pinned DESC, seq DESC
-- name: memories.rules_standing
-- The ids of all valid rules of every project and user, up to a limit per scope.
SELECT id FROM (
  SELECT id, row_number() OVER (PARTITION BY scope, user_id, ifnull(project_id, '') ORDER BY pinned DESC, seq DESC) AS place
  FROM memories
  WHERE tenant = 'local' AND state = 'live' AND kind = 'rule' AND NOT disabled AND trust >= 2 AND confidence >= :least
) WHERE place <= :limit
-- name: memories.core_facts
-- Facts with a key, the user's before the project's. They are few and have their own index.
SELECT * FROM memories INDEXED BY memories_one_core_fact
WHERE tenant = 'local' AND state = 'live' AND key IS NOT NULL AND confidence >= :least
  AND kind NOT IN ('rule', 'episode', 'concept')
  AND (:agent IS NULL OR iif(agent = '', channel, agent) = :agent)
  AND ((scope = 'project' AND project_id IS :project_id AND user_id = :user_id) OR (scope = 'user' AND user_id = :user_id))
ORDER BY scope = 'project', seq DESC LIMIT :limit
-- name: memories.worth_knowing
-- Preferences and constraints first, then the newest. The inner query sorts row numbers only; whole rows are read for
-- the few results.
SELECT * FROM memories WHERE seq IN (
  SELECT seq FROM memories
  WHERE tenant = 'local' AND state = 'live' AND confidence >= :least AND key IS NULL
    AND kind IN ('preference', 'constraint', 'decision', 'fact', 'intent')
    AND (:agent IS NULL OR iif(agent = '', channel, agent) = :agent)
    AND ((scope = 'project' AND project_id IS :project_id AND user_id = :user_id) OR (scope = 'user' AND user_id = :user_id))
  ORDER BY kind NOT IN ('preference', 'constraint'), seq DESC
  LIMIT :limit
)
ORDER BY kind NOT IN ('preference', 'constraint'), seq DESC
-- name: memories.planned
-- `+scope` prevents the use of its index, so that the index of kinds is used.
SELECT * FROM memories
WHERE tenant = 'local' AND state = 'live' AND kind = 'intent' AND confidence >= :least AND timeframe <> ''
  AND (:agent IS NULL OR iif(agent = '', channel, agent) = :agent)
  AND ((+scope = 'project' AND +project_id IS :project_id AND +user_id = :user_id) OR (+scope = 'user' AND user_id = :user_id))
ORDER BY seq DESC LIMIT :limit
-- name: memories.bounding
-- Valid decisions of a thread, and constraints of the thread and the project, the thread's first.
SELECT memories.* FROM (
  SELECT seq, row_number() OVER (PARTITION BY kind ORDER BY max(own) DESC, seq DESC) AS place FROM (
    SELECT seq, kind, 1 AS own FROM thread_turns JOIN evidence USING (turn_id) JOIN memories ON memories.id = memory_id
    WHERE thread_id = :thread_id AND kind IN ('constraint', 'decision')
    UNION ALL
    SELECT seq, kind, 0 FROM (
      SELECT seq, kind FROM memories
      WHERE tenant = 'local' AND state = 'live' AND kind = 'constraint' AND project_id IS :project_id
      ORDER BY seq DESC LIMIT :newest)
  ) CROSS JOIN memories USING (seq, kind)
  WHERE tenant = 'local' AND state = 'live' AND confidence >= :least AND key IS NULL
    AND (:agent IS NULL OR iif(agent = '', channel, agent) = :agent)
    AND ((+scope = 'project' AND +project_id IS :project_id AND +user_id = :user_id) OR (+scope = 'user' AND user_id = :user_id))
  GROUP BY seq
) AS chosen JOIN memories USING (seq)
WHERE place <= :limit ORDER BY kind, place
-- name: memories.searched
-- The text under which memories are indexed.
SELECT id, text || ' ' || subject AS text FROM memories WHERE id IN (SELECT value FROM json_each(:ids))
-- name: memories.index
INSERT INTO memories_fts (rowid, tokens) SELECT seq, :tokens FROM memories WHERE id = :id
-- name: memories.unindex
-- A row's tokens are read back from the index.
INSERT INTO memories_fts (memories_fts, rowid, tokens)
SELECT 'delete', doc, group_concat(term, ' ') FROM memories_places
WHERE doc IN (SELECT seq FROM memories WHERE id IN (SELECT value FROM json_each(:ids))) GROUP BY doc
-- name: memories.merge
-- Merges all segments of the full-text index into one.
INSERT INTO memories_fts (memories_fts) VALUES ('optimize')
-- name: memories.numbered
-- The rows after a number that a word index reads, in order.
SELECT seq, text || ' ' || subject AS text, user_id, scope, project_id, iif(agent = '', channel, agent) AS agent,
       channel, kind, trust, state, valid_from AS begins, valid_to AS ends
FROM memories WHERE +tenant = 'local' AND kind NOT IN ('concept', 'episode') AND seq > :after ORDER BY seq LIMIT :limit
-- name: memories.numbered_again
-- The same columns for rows by number.
SELECT seq, text || ' ' || subject AS text, user_id, scope, project_id, iif(agent = '', channel, agent) AS agent,
       channel, kind, trust, state, valid_from AS begins, valid_to AS ends
FROM memories WHERE +tenant = 'local' AND kind NOT IN ('concept', 'episode') AND seq IN (SELECT value FROM json_each(:seqs)) ORDER BY seq
-- name: memories.matching_behind
SELECT rowid AS seq FROM memories_fts WHERE memories_fts MATCH :match AND rowid > :after
-- name: memories.last
-- The highest number among the rows that a word index reads.
SELECT ifnull((SELECT seq FROM memories WHERE kind NOT IN ('concept', 'episode') ORDER BY seq DESC LIMIT 1), 0) AS n
-- name: memories.ids
SELECT seq, id FROM memories WHERE seq IN (SELECT value FROM json_each(:seqs))
-- name: memories.numbers
SELECT seq FROM memories WHERE id IN (SELECT value FROM json_each(:ids))
-- name: memories.searched_by_number
SELECT seq, text || ' ' || subject AS text FROM memories WHERE seq IN (SELECT value FROM json_each(:seqs))
-- name: memories.labelled
-- The same columns without the text, for rows by id.
SELECT seq, id, user_id, scope, project_id, iif(agent = '', channel, agent) AS agent, channel, kind, trust, state,
       valid_from AS begins, valid_to AS ends
FROM memories WHERE +tenant = 'local' AND kind NOT IN ('concept', 'episode') AND id IN (SELECT value FROM json_each(:ids))
-- name: memories.labelled_behind
SELECT seq, id, user_id, scope, project_id, iif(agent = '', channel, agent) AS agent, channel, kind, trust, state,
       valid_from AS begins, valid_to AS ends
FROM memories WHERE +tenant = 'local' AND kind NOT IN ('concept', 'episode') AND seq > :after
UNION
SELECT seq, id, user_id, scope, project_id, iif(agent = '', channel, agent) AS agent, channel, kind, trust, state,
       valid_from AS begins, valid_to AS ends
FROM memories WHERE +tenant = 'local' AND kind NOT IN ('concept', 'episode') AND seq IN (SELECT value FROM json_each(:seqs))
-- name: memories.stale
SELECT id, text || ' ' || subject AS text FROM memories
WHERE (analyser < :version OR analyser > :version) AND kind NOT IN ('concept', 'episode')
ORDER BY seq DESC LIMIT :limit
-- name: memories.unanalysed
UPDATE memories SET analyser = 0
-- name: memories.analysed
UPDATE memories SET analyser = :version WHERE id = :id
-- name: memories.totals
-- The full-text index's own count of rows and tokens.
SELECT block FROM memories_fts_data WHERE id = 1
-- name: memories.frequencies
-- In how many rows of the full-text index a token occurs.
SELECT term, doc FROM memories_words WHERE term IN (SELECT value FROM json_each(:forms))
-- name: memories.best
-- Numbers and scores of the best matches among live memories. Summaries and concepts are left out.
SELECT memories.id, -bm25(memories_fts) AS bm25 FROM memories_fts
JOIN memories ON memories.seq = memories_fts.rowid
WHERE memories_fts MATCH :match AND state = 'live' AND kind NOT IN ('concept', 'episode')
  AND (:everywhere OR (scope = 'project' AND project_id IS :project_id) OR (scope = 'user' AND user_id = :user_id))
ORDER BY bm25(memories_fts) LIMIT :limit
-- name: memories.share
-- The memories that pass a filter; NULL parameters are ignored. Without `as_of`: live memories. The index
-- of days finds those of a period.
SELECT seq, id, state <> 'live' AS ended FROM memories
WHERE +tenant = 'local'
  AND iif(:as_of IS NULL, state = 'live',
          state <> 'quarantined' AND valid_from <= :as_of AND (valid_to IS NULL OR valid_to > :as_of))
  AND (:everywhere OR (scope = 'project' AND project_id IS :project_id) OR (scope = 'user' AND user_id = :user_id))
  AND (:user IS NULL OR user_id = :user) AND (:agent IS NULL OR iif(agent = '', channel, agent) = :agent)
  AND (:channel IS NULL OR channel = :channel) AND trust >= :trust
  AND iif(:kinds IS NULL, kind NOT IN ('concept', 'episode'), kind IN (SELECT value FROM json_each(:kinds)))
  AND valid_from >= ifnull(:since, '') AND valid_from < ifnull(:until, '~')
  AND (:branch IS NULL OR branch = :branch) AND (:language IS NULL OR language = :language)
  AND (:thread IS NULL OR id IN (SELECT memory_id FROM thread_turns JOIN evidence USING (turn_id)
                                 WHERE thread_id = :thread))
-- name: memories.page
-- The same, newest first, a page at a time. `rules`: only rules, or none; `all_states`: whatever became of them. The
-- table is read backwards from the page's begin; of a period or a thread, only between the first and the last row in it.
WITH of_thread AS (SELECT memories.seq FROM thread_turns JOIN evidence USING (turn_id) JOIN memories ON id = memory_id
                   WHERE thread_id = :thread)
SELECT * FROM memories
WHERE +tenant = 'local' AND seq < :before
  AND (ifnull(:since, :until) IS NULL OR seq BETWEEN
       (SELECT min(seq) FROM memories WHERE valid_from >= ifnull(:since, '') AND valid_from < ifnull(:until, '~')) AND
       (SELECT max(seq) FROM memories WHERE valid_from >= ifnull(:since, '') AND valid_from < ifnull(:until, '~')))
  AND (:rules IS NULL OR :rules = (kind = 'rule'))
  AND (:all_states OR iif(:as_of IS NULL, state = 'live',
          state <> 'quarantined' AND valid_from <= :as_of AND (valid_to IS NULL OR valid_to > :as_of)))
  AND (:everywhere OR (scope = 'project' AND project_id IS :project_id) OR (scope = 'user' AND user_id = :user_id))
  AND (:user IS NULL OR user_id = :user) AND (:agent IS NULL OR iif(agent = '', channel, agent) = :agent)
  AND (:channel IS NULL OR channel = :channel) AND trust >= :trust
  AND iif(:kinds IS NULL, kind NOT IN ('concept', 'episode'), kind IN (SELECT value FROM json_each(:kinds)))
  AND +valid_from >= ifnull(:since, '') AND +valid_from < ifnull(:until, '~')
  AND (:branch IS NULL OR branch = :branch) AND (:language IS NULL OR language = :language)
  AND (:thread IS NULL OR seq IN of_thread AND
       seq BETWEEN (SELECT min(seq) FROM of_thread) AND (SELECT max(seq) FROM of_thread))
ORDER BY seq DESC LIMIT :limit
-- name: memories.with_words
-- The newest live memories of a project and of its user that have all words of an FTS5 expression.
SELECT memories.id, text FROM memories_fts JOIN memories ON memories.seq = memories_fts.rowid
WHERE memories_fts MATCH :match AND state = 'live' AND kind NOT IN ('concept', 'episode') AND user_id = :user_id
  AND (scope = 'user' OR project_id IS :project_id)
ORDER BY memories_fts.rowid DESC LIMIT :limit
-- name: memories.share_matching
SELECT rowid AS seq FROM memories_fts
WHERE memories_fts MATCH :match AND +rowid IN (SELECT value FROM json_each(:seqs))
-- name: memories.share_counts
-- How often a token occurs in each of these rows.
SELECT doc, term, count(*) AS n FROM memories_places
WHERE term IN (SELECT value FROM json_each(:forms)) AND doc IN (SELECT value FROM json_each(:seqs)) GROUP BY doc, term
-- name: memories.share_lengths
SELECT id AS seq, sz FROM memories_fts_docsize WHERE id IN (SELECT value FROM json_each(:seqs))
-- name: memories.core_fact
SELECT id FROM memories
WHERE tenant = 'local' AND state = 'live' AND user_id = :user_id AND scope = :scope AND project_id IS :project_id
  AND key = :key
-- name: memories.with_key
-- The facts with this key, of all users and projects.
SELECT * FROM memories INDEXED BY memories_one_core_fact
WHERE tenant = 'local' AND state = 'live' AND key IS NOT NULL AND key = :key AND kind <> 'rule' ORDER BY seq
-- name: memories.live
-- The columns that decisions change; `previous_text` is copied from the memory it replaced.
UPDATE memories SET state = :state, valid_from = :valid_from, valid_to = :valid_to, supersedes = :supersedes,
                    superseded_by = :superseded_by, pinned = :pinned, disabled = :disabled,
                    previous_text = (SELECT text FROM memories AS old WHERE old.id = :supersedes)
WHERE id = :id
-- name: memories.kin
-- These memories and all that are linked with them by `supersedes` and `superseded_by`, directly or not.
WITH RECURSIVE kin (id) AS (
  SELECT value FROM json_each(:ids)
  UNION SELECT one.id FROM kin JOIN memories AS one ON one.supersedes = kin.id
  UNION SELECT one.id FROM kin JOIN memories AS one ON one.superseded_by = kin.id
  UNION SELECT one.supersedes FROM kin JOIN memories AS one ON one.id = kin.id WHERE one.supersedes IS NOT NULL
  UNION SELECT one.superseded_by FROM kin JOIN memories AS one ON one.id = kin.id WHERE one.superseded_by IS NOT NULL
)
SELECT memories.*, outcome FROM kin CROSS JOIN memories ON memories.id = kin.id LEFT JOIN reviews ON memory_id = memories.id
-- name: memories.of_session
-- What a session taught or ended: the memories that cite its turns, its summaries, and the memories that it ended.
SELECT memory_id AS id FROM turns JOIN evidence ON turn_id = turns.id
WHERE tenant = 'local' AND session_id = :session_id
UNION
SELECT id FROM memories
WHERE tenant = 'local' AND state IN ('live', 'superseded', 'binned') AND kind = 'episode' AND session_id = :session_id
UNION
SELECT subject_id FROM journal WHERE action = 'delete' AND json_extract(payload, '$.turn') IN
  (SELECT id FROM turns WHERE tenant = 'local' AND session_id = :session_id)
-- name: memories.used
UPDATE memories SET uses = uses + 1, last_used = max(ifnull(last_used, ''), :at)
WHERE id IN (SELECT value FROM json_each(:ids))
-- name: memories.mention
UPDATE memories SET mention_count = mention_count + :by, last_mention = max(last_mention, :at) WHERE id = :id
-- name: memories.merge_mentions
-- Adds the mentions of a merged memory, or takes them back. A date that has changed since stays.
UPDATE memories SET mention_count = mention_count + :by,
  first_mention = iif(:back, iif(first_mention = :first_1, :first_0, first_mention), min(first_mention, :first_1)),
  last_mention = iif(:back, iif(last_mention = :last_1, :last_0, last_mention), max(last_mention, :last_1))
WHERE id = :id
-- name: memories.unlink
-- Removes the references from the memories that replaced these.
UPDATE memories SET supersedes = NULL, previous_text = NULL WHERE supersedes IN (SELECT value FROM json_each(:ids))
-- name: memories.unfollow
UPDATE memories SET superseded_by = NULL WHERE superseded_by IN (SELECT value FROM json_each(:ids))
-- name: memories.erase
DELETE FROM memories WHERE id IN (SELECT value FROM json_each(:ids))
-- name: memories.count
SELECT state, kind = 'rule' AS is_rule, count(*) AS n FROM memories
WHERE tenant = 'local' AND kind NOT IN ('concept', 'episode') GROUP BY state, kind
-- name: memories.by_kind
SELECT kind, count(*) AS n FROM memories WHERE tenant = 'local' AND state = 'live' GROUP BY kind ORDER BY n DESC, kind
-- name: memories.sealed
SELECT * FROM memories
-- name: memories.size
-- How many memories are in the full-text index, of any scope and state. Counting all rows reads only an index, and the
-- others are found by their kind.
SELECT (SELECT count(*) FROM memories) - (
  SELECT count(*) FROM memories WHERE tenant = 'local' AND kind IN ('concept', 'episode')
  AND state IN ('live', 'superseded', 'binned', 'quarantined')) AS n

-- name: memories.sums
-- Of these ids, those of summaries and concepts.
SELECT id FROM memories WHERE id IN (SELECT value FROM json_each(:ids)) AND kind IN ('concept', 'episode')
-- name: memories.concept
-- The memory of a concept: live, merged into another, or in the bin.
SELECT id, state, superseded_by FROM memories
WHERE tenant = 'local' AND user_id = :user_id AND project_id IS :project_id AND kind = 'concept' AND subject = :subject
  AND (state IN ('live', 'binned') OR (state = 'superseded' AND superseded_by IS NOT NULL))
ORDER BY state = 'live' DESC, seq DESC LIMIT 1
-- name: memories.compared
-- Memories after a number that may duplicate or contradict others, oldest first.
SELECT seq, id FROM memories
WHERE tenant = 'local' AND state = 'live' AND kind NOT IN ('concept', 'episode', 'rule') AND seq > :after
ORDER BY seq LIMIT :limit
-- name: memories.not_compared
SELECT count(*) AS n FROM memories
WHERE tenant = 'local' AND state = 'live' AND kind NOT IN ('concept', 'episode', 'rule') AND seq > :after
-- name: memories.live_concepts
SELECT * FROM memories WHERE tenant = 'local' AND state = 'live' AND kind = 'concept' ORDER BY seq
-- name: memories.concepts
-- Concepts with the sessions that mention them, the summary of the last such session, and their threads; those
-- mentioned most come first.
SELECT id, text, user_id, project_id, mention_count, first_mention, last_mention,
  (SELECT json_group_array(session_id ORDER BY last_at) FROM concept_mentions WHERE memory_id = memories.id) AS sessions,
  (SELECT episodes.text FROM concept_mentions AS own
   JOIN session_analyses AS came ON came.tenant = 'local' AND came.host = own.host AND came.session_id = own.session_id
   JOIN memories AS episodes ON episodes.id = came.episode_id
   WHERE own.memory_id = memories.id ORDER BY own.last_at DESC LIMIT 1) AS summary,
  (SELECT json_group_array(thread_id) FROM (
     SELECT thread_id FROM concept_mentions AS own
     JOIN turns ON turns.tenant = 'local' AND turns.host = own.host AND turns.session_id = own.session_id AND role <> 'tool'
     JOIN thread_turns ON turn_id = turns.id
     WHERE own.memory_id = memories.id GROUP BY thread_id ORDER BY max(thread_turns.at) DESC)) AS thread_ids
FROM memories
WHERE tenant = 'local' AND state = 'live' AND kind = 'concept' AND (:everywhere OR project_id IS :project_id)
ORDER BY mention_count DESC, last_mention DESC, seq DESC LIMIT :limit
-- name: memories.sums_of
-- The summaries of sessions, in any state.
SELECT memories.id FROM memories JOIN json_each(:sessions) AS one
ON channel = one.value ->> 0 AND session_id = one.value ->> 1
WHERE kind = 'episode'
-- name: memories.recount
-- Recomputes a concept's counters from its remaining mentions.
UPDATE memories SET
  mention_count = (SELECT count(*) FROM concept_mentions WHERE memory_id = memories.id),
  first_mention = (SELECT min(first_at) FROM concept_mentions WHERE memory_id = memories.id),
  last_mention = (SELECT max(last_at) FROM concept_mentions WHERE memory_id = memories.id)
WHERE id IN (SELECT value FROM json_each(:ids))
  AND EXISTS (SELECT 1 FROM concept_mentions WHERE memory_id = memories.id)

-- name: carrying.turns
SELECT * FROM turns WHERE tenant = 'local' AND seq > :behind ORDER BY seq LIMIT :limit
-- name: carrying.memories
SELECT seq, id FROM memories
WHERE tenant = 'local' AND seq > :behind AND kind NOT IN ('concept', 'episode') AND state <> 'quarantined'
ORDER BY seq LIMIT :limit
-- name: carrying.threads
SELECT seq, id, user_id, project_id, agent, channel, title, summary, topics, state, parent_id, weight, opened_at,
       last_active
FROM threads WHERE tenant = 'local' AND merged_into IS NULL AND seq > :behind ORDER BY seq LIMIT :limit
-- name: carrying.counts
-- The current number of rows in each table of a whole export.
SELECT (SELECT count(*) FROM projects) AS projects,
       (SELECT count(*) FROM threads WHERE tenant = 'local') AS threads,
       (SELECT count(*) FROM turns WHERE tenant = 'local') AS messages,
       (SELECT count(*) FROM memories WHERE tenant = 'local' AND state <> 'quarantined') AS memories,
       (SELECT count(*) FROM bridges WHERE tenant = 'local') AS bridges,
       (SELECT count(*) FROM session_analyses WHERE tenant = 'local') AS sessions,
       (SELECT count(*) FROM syntheses WHERE tenant = 'local') AS syntheses,
       (SELECT count(*) FROM readings WHERE tenant = 'local') AS readings,
       (SELECT count(*) FROM active_days WHERE tenant = 'local') AS days
-- name: carrying.lineage
-- The references of each thread, so that none is imported before the threads it refers to.
SELECT id, parent_id, merged_into FROM threads WHERE tenant = 'local' ORDER BY seq
-- name: carrying.whole_threads
SELECT threads.* FROM json_each(:ids) CROSS JOIN threads ON threads.id = value ORDER BY json_each.key
-- name: carrying.placed
SELECT turn_id, thread_id, at, topics FROM thread_turns WHERE turn_id IN (SELECT value FROM json_each(:ids))
-- name: carrying.whole_memories
-- All memories except those waiting for review, with their counters.
SELECT seq, id, first_mention, last_mention, mention_count, uses, last_used FROM memories
WHERE tenant = 'local' AND seq > :behind AND state <> 'quarantined' ORDER BY seq LIMIT :limit
-- name: carrying.mentions
SELECT memory_id, host, session_id, first_at, last_at FROM concept_mentions
WHERE memory_id IN (SELECT value FROM json_each(:ids)) ORDER BY memory_id, first_at, host, session_id
-- name: carrying.concept
SELECT 1 FROM memories WHERE tenant = 'local' AND kind = 'concept' AND state = 'live' AND user_id = :user_id
  AND project_id IS :project_id AND subject = :subject
-- name: carrying.links
-- Memories that refer to one with a higher number.
SELECT seq, id, supersedes, superseded_by FROM memories AS own
WHERE tenant = 'local' AND seq > :behind AND state <> 'quarantined'
  AND (superseded_by IS NOT NULL OR supersedes IN (SELECT id FROM memories WHERE seq > own.seq AND id = own.supersedes))
ORDER BY seq LIMIT :limit
-- name: carrying.counted
UPDATE memories SET first_mention = :first_mention, last_mention = :last_mention, mention_count = :mention_count,
                    uses = :uses, last_used = :last_used
WHERE id = :id
-- name: carrying.bridges
SELECT id AS behind, id, source_id, target_id, kind, reason, confidence, depth, made_by, created_at, reinforced_at,
       removed_at
FROM bridges WHERE tenant = 'local' AND id > :behind ORDER BY id LIMIT :limit
-- name: carrying.add_bridge
INSERT INTO bridges (id, source_id, target_id, kind, reason, confidence, depth, made_by, created_at, reinforced_at,
                     removed_at)
VALUES (:id, :source_id, :target_id, :kind, :reason, :confidence, :depth, :made_by, :created_at, :reinforced_at,
        :removed_at)
ON CONFLICT DO NOTHING
-- name: carrying.sessions
-- Session analyses. `until` is the message up to which the session was read.
SELECT json_array(host, session_id) AS behind, host, session_id, analysis, episode_id, analysed_at,
  (SELECT id FROM turns WHERE turns.tenant = 'local' AND turns.host = own.host AND turns.session_id = own.session_id
     AND seq <= until_seq ORDER BY seq DESC LIMIT 1) AS until
FROM session_analyses AS own
WHERE tenant = 'local' AND (host, session_id) > (ifnull(:behind ->> 0, ''), ifnull(:behind ->> 1, ''))
ORDER BY host, session_id LIMIT :limit
-- name: carrying.add_session
INSERT INTO session_analyses (host, session_id, until_seq, analysis, episode_id, analysed_at)
VALUES (:host, :session_id, ifnull((SELECT seq FROM turns WHERE id = :until), 0), :analysis,
        (SELECT id FROM memories WHERE id = :episode_id), :analysed_at)
ON CONFLICT DO NOTHING
-- name: carrying.syntheses
SELECT id AS behind, id, user_id, project_id, agent, channel, host, session_id, thread_id, occasion, at, content, made_by,
  (SELECT id FROM turns WHERE turns.tenant = 'local' AND turns.host = own.host AND turns.session_id = own.session_id
     AND seq <= until_seq ORDER BY seq DESC LIMIT 1) AS until
FROM syntheses AS own WHERE tenant = 'local' AND id > :behind ORDER BY id LIMIT :limit
-- name: carrying.add_synthesis
INSERT INTO syntheses (id, user_id, project_id, agent, channel, host, session_id, thread_id, occasion, at, until_seq,
                       content, made_by)
VALUES (:id, :user_id, :project_id, :agent, :channel, :host, :session_id, :thread_id, :occasion, :at,
        ifnull((SELECT seq FROM turns WHERE id = :until), 0), :content, :made_by)
ON CONFLICT DO NOTHING
-- name: carrying.readings
SELECT json_array(host, session_id) AS behind, host, session_id, at,
  (SELECT id FROM turns WHERE turns.tenant = 'local' AND turns.host = own.host AND turns.session_id = own.session_id
     AND turns.seq <= own.seq ORDER BY seq DESC LIMIT 1) AS until
FROM readings AS own
WHERE tenant = 'local' AND (host, session_id) > (ifnull(:behind ->> 0, ''), ifnull(:behind ->> 1, ''))
ORDER BY host, session_id LIMIT :limit
-- name: carrying.add_reading
INSERT INTO readings (host, session_id, seq, at)
VALUES (:host, :session_id, ifnull((SELECT seq FROM turns WHERE id = :until), 0), :at) ON CONFLICT DO NOTHING
-- name: carrying.days
SELECT json_array(project_id, day) AS behind, project_id, day FROM active_days
WHERE tenant = 'local' AND (project_id, day) > (ifnull(:behind ->> 0, ''), ifnull(:behind ->> 1, ''))
ORDER BY project_id, day LIMIT :limit

-- name: analyses.of
SELECT until_seq, analysis, episode_id, analysed_at FROM session_analyses
WHERE tenant = 'local' AND host = :host AND session_id = :session_id
-- name: analyses.keep
INSERT INTO session_analyses (host, session_id, until_seq, analysis, episode_id, analysed_at)
VALUES (:host, :session_id, :until_seq, :analysis, :episode_id, :at)
ON CONFLICT DO UPDATE SET until_seq = max(until_seq, excluded.until_seq), analysis = excluded.analysis,
  episode_id = excluded.episode_id, analysed_at = excluded.analysed_at
-- name: analyses.about
-- The analysed sessions that these memories summarise or these turns belong to.
SELECT host, session_id FROM session_analyses WHERE (host, session_id) IN (
  SELECT host, session_id FROM turns WHERE id IN (SELECT value FROM json_each(:turns))
  UNION SELECT host, session_id FROM concept_mentions WHERE memory_id IN (SELECT value FROM json_each(:memories))
  UNION SELECT channel, session_id FROM memories
        WHERE kind = 'episode' AND id IN (SELECT value FROM json_each(:memories)))
-- name: analyses.erase
DELETE FROM session_analyses
WHERE (host, session_id) IN (SELECT value ->> 0, value ->> 1 FROM json_each(:sessions))
-- name: analyses.cached
SELECT analysis FROM analysis_cache
WHERE tenant = 'local' AND host = :host AND session_id = :session_id AND history_hash = :history_hash
  AND created_at > :since
-- name: analyses.cache
INSERT OR REPLACE INTO analysis_cache (host, session_id, history_hash, analysis, created_at)
VALUES (:host, :session_id, :history_hash, :analysis, :at)
-- name: analyses.expire
DELETE FROM analysis_cache WHERE created_at <= :since
-- name: analyses.evict
-- Keeps only the newest.
DELETE FROM analysis_cache WHERE seq NOT IN (SELECT seq FROM analysis_cache ORDER BY seq DESC LIMIT :keep)
-- name: analyses.cached_count
SELECT count(*) AS n FROM analysis_cache
-- name: analyses.uncache
DELETE FROM analysis_cache
WHERE (host, session_id) IN (SELECT value ->> 0, value ->> 1 FROM json_each(:sessions))
-- name: analyses.mention
INSERT INTO concept_mentions (memory_id, host, session_id, first_at, last_at)
VALUES (:memory_id, :host, :session_id, :at, :at)
ON CONFLICT DO UPDATE SET last_at = max(last_at, excluded.last_at)
-- name: analyses.mention_between
INSERT INTO concept_mentions (memory_id, host, session_id, first_at, last_at)
VALUES (:memory_id, :host, :session_id, :first_at, :last_at) ON CONFLICT DO NOTHING
-- name: analyses.copy_mentions
-- Copies the mentions of one concept to another; returns those that are new there.
INSERT INTO concept_mentions (memory_id, host, session_id, first_at, last_at)
SELECT :kept, host, session_id, first_at, last_at FROM concept_mentions WHERE memory_id = :gone
ON CONFLICT DO NOTHING RETURNING host, session_id, first_at, last_at
-- name: analyses.unmention_once
DELETE FROM concept_mentions WHERE memory_id = :memory_id AND host = :host AND session_id = :session_id
-- name: analyses.mentioned
SELECT 1 FROM concept_mentions WHERE memory_id = :memory_id AND host = :host AND session_id = :session_id
-- name: analyses.spoken_of
-- The concepts of these sessions, and how many other sessions mention each.
SELECT memory_id, sum((host, session_id) NOT IN (SELECT value ->> 0, value ->> 1 FROM json_each(:sessions))) AS others
FROM concept_mentions WHERE memory_id IN (SELECT memory_id FROM concept_mentions
  WHERE (host, session_id) IN (SELECT value ->> 0, value ->> 1 FROM json_each(:sessions)))
GROUP BY memory_id
-- name: analyses.unmention
DELETE FROM concept_mentions
WHERE (host, session_id) IN (SELECT value ->> 0, value ->> 1 FROM json_each(:sessions))
  OR memory_id IN (SELECT value FROM json_each(:memories))

-- name: informed.some
SELECT content_hash, score, summary, made_by FROM informed_outputs
WHERE content_hash IN (SELECT value FROM json_each(:hashes))
-- name: informed.add
-- Only while the turn in which it was read exists.
INSERT INTO informed_outputs (content_hash, score, summary, made_by, created_at)
SELECT :content_hash, :score, :summary, :made_by, :at WHERE EXISTS (SELECT 1 FROM turns WHERE id = :turn_id)
ON CONFLICT DO NOTHING
-- name: informed.evict
DELETE FROM informed_outputs WHERE content_hash NOT IN
  (SELECT content_hash FROM informed_outputs ORDER BY created_at DESC LIMIT :keep)
-- name: informed.erase
DELETE FROM informed_outputs WHERE content_hash IN (SELECT value FROM json_each(:hashes))

-- name: evidence.add
INSERT INTO evidence (memory_id, turn_id, start, stop) VALUES (:memory_id, :turn_id, :start, :stop)
ON CONFLICT DO NOTHING
-- name: evidence.copy
-- Copies the evidence of one memory to another; returns what is new there.
INSERT INTO evidence (memory_id, turn_id, start, stop)
SELECT :kept, turn_id, start, stop FROM evidence WHERE memory_id = :gone
ON CONFLICT DO NOTHING RETURNING turn_id, start, stop
-- name: evidence.of
SELECT memory_id, turn_id, start, stop FROM evidence
WHERE memory_id IN (SELECT value FROM json_each(:ids)) ORDER BY memory_id, turn_id, start
-- name: evidence.of_agents
-- Those of some memories whose words all come from an agent.
SELECT memory_id FROM json_each(:ids) CROSS JOIN evidence ON memory_id = value JOIN turns ON turns.id = turn_id
GROUP BY memory_id HAVING min(role = 'assistant')
-- name: evidence.citing
-- All evidence of every memory that cites one of these turns.
SELECT memory_id, turn_id FROM evidence
WHERE memory_id IN (SELECT memory_id FROM evidence WHERE turn_id IN (SELECT value FROM json_each(:turns)))
-- name: evidence.proving
-- The memories that these turns prove, in any state except waiting for review.
SELECT evidence.turn_id, memory_id, state FROM evidence JOIN memories ON id = memory_id
WHERE turn_id IN (SELECT value FROM json_each(:turns)) AND state <> 'quarantined'
-- name: evidence.withdraw
DELETE FROM evidence WHERE memory_id = :memory_id AND turn_id = :turn_id AND start = :start AND stop = :stop
-- name: evidence.erase
DELETE FROM evidence WHERE memory_id IN (SELECT value FROM json_each(:memories))
  OR turn_id IN (SELECT value FROM json_each(:turns))

-- name: reviews.add
INSERT INTO reviews (memory_id, kind, against, reason, outcome, at)
VALUES (:memory_id, :kind, :against, :reason, 'open', :at)
-- name: reviews.settle
UPDATE reviews SET outcome = :outcome, settled_at = iif(:outcome = 'open', NULL, :at)
WHERE memory_id = :memory_id AND outcome <> :outcome
-- name: reviews.close
UPDATE reviews SET outcome = 'undone', settled_at = :at WHERE memory_id = :memory_id AND outcome = 'open'
-- name: reviews.get
SELECT * FROM reviews WHERE memory_id = :memory_id
-- name: reviews.all
SELECT * FROM reviews WHERE :all OR outcome = 'open' ORDER BY at DESC, memory_id DESC LIMIT :limit
-- name: reviews.waiting
-- Statements waiting for review against one memory, or (`against` NULL) for lack of evidence.
SELECT memories.id, text FROM reviews JOIN memories ON id = memory_id
WHERE outcome = 'open' AND against IS :against AND user_id = :user_id AND scope = :scope AND project_id IS :project_id
-- name: reviews.by_kind
SELECT kind, count(*) AS n FROM reviews WHERE outcome = 'open' GROUP BY kind
-- name: reviews.erase
DELETE FROM reviews WHERE memory_id IN (SELECT value FROM json_each(:ids))
-- name: reviews.unlink
-- The reason may quote the memory, so it is cleared too.
UPDATE reviews SET against = NULL, reason = '' WHERE against IN (SELECT value FROM json_each(:ids))

-- name: need_vectors.put
-- Stores nothing if the memory or the turn was erased meanwhile.
INSERT INTO need_vectors (memory_id, turn_id, revision, vector)
SELECT id, :turn_id, :revision, :vector FROM memories
WHERE id = :memory_id AND (:turn_id IS NULL OR EXISTS (SELECT 1 FROM turns WHERE id = :turn_id))
ON CONFLICT (memory_id) DO UPDATE
SET turn_id = excluded.turn_id, revision = excluded.revision, vector = excluded.vector
-- name: need_vectors.some
SELECT memory_id AS id, vector FROM json_each(:ids) CROSS JOIN need_vectors ON memory_id = value AND revision = :revision
-- name: need_vectors.missing
SELECT id, seq FROM memories WHERE state = 'live' AND kind NOT IN ('concept', 'episode') AND seq > :after
  AND NOT EXISTS (SELECT 1 FROM need_vectors WHERE memory_id = memories.id AND revision = :revision)
ORDER BY seq LIMIT :limit
-- name: need_vectors.settings
-- Memories with the text before their first evidence: up to :most characters of its turn, and the end of the message
-- that this turn answers.
SELECT memories.id, memories.text, turns.id AS turn_id, earlier.id AS earlier_id,
  ifnull(substr(turns.text, max(first.start - :most, 0) + 1, min(first.start, :most)), '') AS before,
  ifnull(substr(earlier.text, -:most), '') AS earlier
FROM json_each(:ids) CROSS JOIN memories ON memories.id = json_each.value
LEFT JOIN evidence AS first ON (first.memory_id, first.turn_id, first.start) = (
  SELECT memory_id, turn_id, start FROM evidence JOIN turns AS own ON own.id = turn_id
  WHERE memory_id = memories.id ORDER BY own.seq, start LIMIT 1)
LEFT JOIN turns ON turns.id = first.turn_id
LEFT JOIN turns AS earlier ON earlier.id = (
  SELECT id FROM turns AS other WHERE other.tenant = turns.tenant AND other.host = turns.host
  AND other.session_id = turns.session_id AND other.role <> 'tool' AND other.role <> turns.role
  AND (other.at, other.seq) < (turns.at, turns.seq) ORDER BY other.at DESC, other.seq DESC LIMIT 1)
-- name: need_vectors.erase
-- Vectors of erased memories, and of memories whose vector was computed with the text of erased turns.
DELETE FROM need_vectors
WHERE memory_id IN (SELECT value FROM json_each(:memories)) OR turn_id IN (SELECT value FROM json_each(:turns))

-- name: doubts.add
INSERT INTO doubts (older, newer) VALUES (:older, :newer) ON CONFLICT DO NOTHING
-- name: doubts.newer
-- Pinned memories, and those mentioned again after the doubt arose, are not doubted. The newest comes last.
SELECT older.id AS older, newer.id AS newer FROM doubts JOIN memories AS older ON older.id = doubts.older
JOIN memories AS newer ON newer.id = doubts.newer
WHERE older.id IN (SELECT value FROM json_each(:ids)) AND newer.state = 'live'
  AND NOT older.pinned AND ifnull(older.last_mention, '') <= newer.valid_from
ORDER BY newer.valid_from, newer.id
-- name: doubts.erase
DELETE FROM doubts WHERE older IN (SELECT value FROM json_each(:ids)) OR newer IN (SELECT value FROM json_each(:ids))

-- name: journal.last
SELECT hash FROM journal ORDER BY seq DESC LIMIT 1
-- name: journal.newest
SELECT ifnull(max(seq), 0) AS n FROM journal
-- name: journal.behind
-- The memories that entries after a number mention.
SELECT DISTINCT memory_id FROM journal_touches WHERE seq > :after AND seq <= :until
-- name: journal.touch
INSERT INTO journal_touches (seq, memory_id) VALUES (:seq, :memory_id)
-- name: journal.append
INSERT INTO journal (at, actor, action, subject_id, payload, payload_key, payload_hash, hash)
VALUES (:at, :actor, :action, :subject_id, :payload, :payload_key, :payload_hash, :hash)
RETURNING seq
-- name: journal.of
-- Every entry after a number that mentions one of these memories, with all the memories it mentions.
SELECT seq, at, actor, action, subject_id, payload,
       (SELECT json_group_array(memory_id) FROM journal_touches AS all_of WHERE all_of.seq = journal.seq) AS touches
FROM journal WHERE seq > :after AND seq IN
  (SELECT seq FROM journal_touches WHERE memory_id IN (SELECT value FROM json_each(:ids)))
ORDER BY seq
-- name: journal.entry
SELECT seq, at, actor, action, subject_id, payload,
       (SELECT json_group_array(memory_id) FROM journal_touches AS all_of WHERE all_of.seq = journal.seq) AS touches
FROM journal WHERE seq = :seq
-- name: journal.together
-- The entries of one undo, by the first of them.
SELECT seq, at, actor, action, subject_id, payload,
       (SELECT json_group_array(memory_id) FROM journal_touches AS all_of WHERE all_of.seq = journal.seq) AS touches
FROM journal WHERE seq >= :first AND action = 'undo' AND json_extract(payload, '$.together') = :first
ORDER BY seq
-- name: journal.progress
-- Values that change with every change worth a backup.
SELECT (SELECT ifnull(max(seq), 0) FROM events) AS events, (SELECT ifnull(max(seq), 0) FROM turns) AS turns,
       (SELECT ifnull(max(seq), 0) FROM journal) AS journal,
       (SELECT ifnull(max(updated_at), '') FROM memory_settings) AS settings
-- name: journal.relink
UPDATE journal SET hash = :hash, payload = iif(:redact, NULL, payload), payload_key = iif(:redact, NULL, payload_key)
WHERE seq = :seq
-- name: journal.begun
-- When the first event was received.
SELECT min(received_at) AS at FROM events
-- name: journal.everything
SELECT * FROM journal ORDER BY seq
-- name: journal.quoting
-- Entries that mention these memories, were made from these turns, or quote these texts (replaced or disputed ones).
SELECT seq FROM journal
WHERE payload IS NOT NULL AND (seq IN
    (SELECT seq FROM journal_touches WHERE memory_id IN (SELECT value FROM json_each(:memories)))
  OR (json_valid(payload) AND (
    json_extract(payload, '$.turn') IN (SELECT value FROM json_each(:turns))
    OR json_extract(payload, '$.previous_text') IN (SELECT value FROM json_each(:texts))
    OR (json_extract(payload, '$.turn') IS NULL AND EXISTS
      (SELECT 1 FROM json_each(:texts) WHERE instr(value, json_extract(payload, '$.text')) > 0)))))
-- name: journal.redact
UPDATE journal SET payload = NULL, payload_key = NULL WHERE seq IN (SELECT value FROM json_each(:seqs))

-- name: jobs.enqueue
-- A job that waits or runs stays as it is; a dead one is queued again with its counters reset.
INSERT INTO jobs (id, kind, place, dedupe_key, payload, created_at, run_at)
VALUES (:id, :kind, :place, :dedupe_key, :payload, :created_at, :run_at)
ON CONFLICT (dedupe_key) DO UPDATE
SET state = 'queued', attempts = 0, deaths = 0, error = '', payload = excluded.payload, run_at = excluded.run_at
WHERE jobs.state = 'dead'
-- name: jobs.expire
-- Requeues jobs whose lease has expired.
UPDATE jobs SET state = 'queued', lease_until = NULL, worker = NULL WHERE state = 'running' AND lease_until <= :now
-- name: jobs.due
-- The next due jobs of some priority classes, in order.
SELECT seq, kind, attempts + deaths > 0 AS tried FROM jobs
WHERE state = 'queued' AND run_at <= :now AND place IN (SELECT value FROM json_each(:places))
ORDER BY place, run_at, seq LIMIT :limit
-- name: jobs.lease
UPDATE jobs SET state = 'running', leased_at = :now, lease_until = :lease_until, worker = :worker,
                attempts = attempts + 1
WHERE seq IN (SELECT value FROM json_each(:seqs))
RETURNING seq, id, kind, payload, attempts
-- name: jobs.finish
DELETE FROM jobs WHERE id = :id AND worker = :worker AND state = 'running'
-- name: jobs.again
-- The rest of a long job is queued after jobs that became due meanwhile.
UPDATE jobs SET state = 'queued', payload = :payload, run_at = :run_at, attempts = 0, deaths = 0, error = '',
                lease_until = NULL, worker = NULL
WHERE id = :id AND worker = :worker AND state = 'running'
-- name: jobs.hurry
UPDATE jobs SET state = 'queued', run_at = :run_at, attempts = 0, error = ''
WHERE dedupe_key = :dedupe_key AND state <> 'running' AND deaths = 0
-- name: jobs.sooner
-- A job that was postponed or has failed keeps its time.
UPDATE jobs SET run_at = min(run_at, :run_at)
WHERE dedupe_key = :dedupe_key AND state = 'queued' AND error = '' AND deaths = 0
-- name: jobs.known_as
SELECT state, attempts, error, run_at FROM jobs WHERE dedupe_key = :dedupe_key
-- name: jobs.fail
UPDATE jobs SET state = :state, error = :error, run_at = :run_at, lease_until = NULL, worker = NULL
WHERE id = :id AND worker = :worker AND state = 'running'
-- name: jobs.postpone
-- The job could not run, so the attempt is not counted.
UPDATE jobs SET state = 'queued', error = :error, run_at = max(run_at, :run_at), attempts = max(attempts - 1, 0),
                lease_until = NULL, worker = NULL
WHERE id = :id AND worker = :worker AND state = 'running'
-- name: jobs.release
UPDATE jobs SET state = 'queued', lease_until = NULL, worker = NULL, attempts = attempts - 1
WHERE worker = :worker AND state = 'running' AND (:ids IS NULL OR id IN (SELECT value FROM json_each(:ids)))
-- name: jobs.orphans
-- Jobs leased by workers of other processes.
SELECT id, payload, deaths, leased_at FROM jobs WHERE state = 'running' AND substr(worker, 1, length(:crew)) <> :crew
-- name: jobs.reclaim
-- A process death is not counted as an attempt.
UPDATE jobs SET state = :state, error = ifnull(:error, error), run_at = max(run_at, :run_at), deaths = :deaths,
                attempts = attempts - 1, lease_until = NULL, worker = NULL
WHERE id = :id
-- name: jobs.count
SELECT state, count(*) AS n FROM jobs GROUP BY state
-- name: jobs.waiting
SELECT error AS reason, count(*) AS n FROM jobs
WHERE state = 'queued' AND place IN (SELECT value FROM json_each(:places)) GROUP BY error ORDER BY n DESC
-- name: jobs.next_due
SELECT min(run_at) AS run_at FROM jobs
WHERE state = 'queued' AND place IN (SELECT value FROM json_each(:places)) HAVING min(run_at) IS NOT NULL
-- name: jobs.dead
SELECT id, kind, payload, attempts, error, run_at FROM jobs WHERE state = 'dead' ORDER BY run_at DESC
-- name: jobs.listed
-- Jobs after a number, in the order they were queued.
SELECT seq, id, kind, state, payload, attempts, deaths, error, created_at, run_at FROM jobs
WHERE seq > :behind AND (:state IS NULL OR state = :state) AND (:kind IS NULL OR kind = :kind) ORDER BY seq LIMIT :limit
-- name: jobs.kinds
SELECT kind, state, count(*) AS n FROM jobs GROUP BY kind, state ORDER BY kind, state
-- name: jobs.dead_letter
SELECT payload FROM jobs WHERE id = :id AND state = 'dead'
-- name: jobs.retry
UPDATE jobs SET state = 'queued', run_at = :run_at, attempts = 0, deaths = 0, error = ''
WHERE id = :id AND state = 'dead'
-- name: jobs.erase
DELETE FROM jobs WHERE dedupe_key IN (SELECT value FROM json_each(:dedupe_keys))
-- name: jobs.about
SELECT id FROM jobs WHERE dedupe_key IN (SELECT value FROM json_each(:dedupe_keys))
-- name: jobs.drop
DELETE FROM jobs WHERE id IN (SELECT value FROM json_each(:ids))
-- name: jobs.hasten
-- Waiting transcript reads of these sessions become due now.
UPDATE jobs SET run_at = min(run_at, :now) WHERE kind = 'reconcile' AND state = 'queued' AND seq IN (
  SELECT jobs.seq FROM jobs JOIN json_each(:sessions) AS one ON json_extract(jobs.payload, '$.host') = one.value ->> 0
    AND json_extract(jobs.payload, '$.session') = one.value ->> 1)
-- name: jobs.reading
-- Whether a transcript of one of these sessions is about to be read.
SELECT 1 FROM jobs JOIN json_each(:sessions) AS one
ON json_extract(jobs.payload, '$.host') = one.value ->> 0 AND json_extract(jobs.payload, '$.session') = one.value ->> 1
WHERE kind = 'reconcile' AND state <> 'dead' LIMIT 1

-- name: settings.all
SELECT json_group_object(key, json(value)) AS stored FROM memory_settings
-- name: settings.seed
INSERT INTO memory_settings (key, value, updated_at) VALUES (:key, :value, :updated_at) ON CONFLICT (key) DO NOTHING
-- name: settings.put
INSERT INTO memory_settings (key, value, updated_at) VALUES (:key, :value, :updated_at)
ON CONFLICT (key) DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at

-- name: recalls.add
INSERT INTO memory_retrievals (id, channel, session_id, project_id, user_message_preview, memories_injected,
                               obsidian_notes_injected, total_tokens_added, items, notices, nonce, latency_ms, created_at,
                               outcome, omitted)
VALUES (:id, :channel, :session_id, :project_id, :preview, :memories_injected, :notes_injected, :tokens, :items, :notices, :nonce,
        :latency_ms, :created_at, :outcome, :omitted)
-- name: recalls.last
SELECT id, channel, user_message_preview, memories_injected, obsidian_notes_injected, total_tokens_added, items,
       notices, latency_ms, created_at, outcome, omitted
FROM memory_retrievals WHERE id < :before AND (:outcome = '' OR outcome = :outcome) ORDER BY id DESC LIMIT :limit
-- name: recalls.texts
-- The beginning of the memories, turns and threads with these ids, as they are now.
SELECT id, substr(text, 1, :characters) AS text, channel FROM memories WHERE id IN (SELECT value FROM json_each(:ids))
UNION ALL
SELECT id, substr(text, 1, :characters), channel FROM turns WHERE id IN (SELECT value FROM json_each(:ids))
UNION ALL
SELECT id, substr(title, 1, :characters), '' FROM threads WHERE id IN (SELECT value FROM json_each(:ids))
-- name: recalls.by_day
SELECT substr(created_at, 1, 10) AS day, project_id AS project, count(*) AS recalls,
       sum(outcome = 'delivered') AS delivered, sum(outcome = 'late') AS late, sum(outcome = 'empty') AS empty,
       sum(outcome = 'delivered' AND memories_injected > 0) AS answered,
       sum(iif(outcome = 'delivered', memories_injected, 0)) AS memories,
       sum(iif(outcome = 'delivered', total_tokens_added, 0)) AS tokens
FROM memory_retrievals WHERE created_at >= :since GROUP BY 1, 2 ORDER BY 1 DESC, tokens DESC, 2
-- name: recalls.useful
-- The number of different memories that were injected and are still live, by project.
SELECT recalls.project_id AS project, count(DISTINCT memories.id) AS memories
FROM memory_retrievals AS recalls JOIN json_each(recalls.items) AS item
JOIN memories ON memories.id = item.value ->> 'id' AND memories.state = 'live'
WHERE recalls.created_at >= :since AND recalls.outcome = 'delivered' AND memories_injected > 0
AND item.value ->> 'injected' GROUP BY 1
-- name: recalls.get
SELECT id, channel, session_id, project_id, user_message_preview, memories_injected, obsidian_notes_injected,
       total_tokens_added, items, notices, latency_ms, created_at, outcome, omitted
FROM memory_retrievals WHERE id = :id
-- name: recalls.deliver
UPDATE memory_retrievals SET outcome = 'delivered' WHERE id = :id AND outcome = 'late'
-- name: recalls.began
SELECT id FROM memory_retrievals
WHERE channel = :channel AND session_id = :session_id AND outcome = 'delivered' AND user_message_preview = :preview
      AND created_at > :since
UNION ALL
SELECT id FROM events
WHERE tenant = 'local' AND host = :channel AND session_id = :session_id AND kind = 'session_start'
      AND payload ->> '$.data.briefed' AND at > :since
LIMIT 1
-- name: recalls.long
-- Earlier releases wrote spaces into the JSON.
SELECT id, items, omitted FROM memory_retrievals WHERE items LIKE '[{"id": "%' ORDER BY id LIMIT :limit
-- name: recalls.shorten
UPDATE memory_retrievals SET items = :items, omitted = :omitted WHERE id = :id
-- name: recalls.quoting
-- The log contains the beginning of the prompt.
SELECT id FROM memory_retrievals
WHERE user_message_preview <> '' AND EXISTS (SELECT 1 FROM json_each(:texts)
  WHERE instr(value, user_message_preview) > 0 OR instr(user_message_preview, value) > 0)
-- name: recalls.erase
UPDATE memory_retrievals SET user_message_preview = '' WHERE id IN (SELECT value FROM json_each(:ids))
-- name: recalls.empty
-- Clears the items and notices too.
UPDATE memory_retrievals SET user_message_preview = '', items = '[]', notices = '[]', omitted = '{}'
WHERE id IN (SELECT value FROM json_each(:ids))

-- name: spaces.declare
INSERT INTO spaces (id, model, revision, dimension, pooling, prefix, embedder)
VALUES (:id, :model, :revision, :dimension, :pooling, :prefix, :embedder)
ON CONFLICT (id) DO UPDATE SET embedder = excluded.embedder
-- name: spaces.all
SELECT * FROM spaces ORDER BY id
-- name: spaces.retire
UPDATE spaces SET state = 'retired' WHERE state = :state AND id <> :id
-- name: spaces.move
UPDATE spaces SET state = :state WHERE id = :id
-- name: spaces.calibrate
UPDATE spaces SET calibration = :calibration WHERE id = :id

-- name: vectors.drop
-- A range of an owner's windows.
DELETE FROM vectors
WHERE owner_kind = :owner_kind AND owner_id = :owner_id AND space_id = :space_id AND part BETWEEN :first AND :last
-- name: vectors.put
INSERT INTO vectors (owner_kind, owner_id, space_id, part, vector)
VALUES (:owner_kind, :owner_id, :space_id, :part, :vector)
-- name: vectors.of
SELECT part, vector FROM vectors
WHERE owner_kind = :owner_kind AND owner_id = :owner_id AND space_id = :space_id ORDER BY part
-- name: vectors.some
-- Owner by owner, in the given order.
SELECT owner_id AS id, vector FROM json_each(:ids) CROSS JOIN vectors
ON owner_kind = :owner_kind AND owner_id = value AND space_id = :space_id ORDER BY json_each.key, part
-- name: vectors.first_windows
SELECT owner_id AS id, vector FROM json_each(:ids) CROSS JOIN vectors
ON owner_kind = :owner_kind AND owner_id = value AND space_id = :space_id AND part = 0
-- name: vectors.windows
-- Every window, with the index of its owner in the given order.
SELECT json_each.key AS place, vector FROM json_each(:ids) CROSS JOIN vectors
ON owner_kind = :owner_kind AND owner_id = value AND space_id = :space_id ORDER BY json_each.key, part
-- name: vectors.first_part
SELECT min(part) AS part FROM vectors
WHERE owner_kind = :owner_kind AND owner_id = :owner_id AND space_id = :space_id
-- name: vectors.drop_unfinished
-- Windows are written from the last to the first, so an owner without part 0 was interrupted.
DELETE FROM vectors WHERE part > 0 AND NOT EXISTS
  (SELECT 1 FROM vectors AS first WHERE first.owner_kind = vectors.owner_kind AND first.owner_id = vectors.owner_id
   AND first.space_id = vectors.space_id AND first.part = 0)
-- name: vectors.live_memories
-- The group is the project, or the user for memories of user scope. Rows are read in key order after an owner, so that
-- a page reads only its own rows.
SELECT owner_id AS id, seq AS number, iif(scope = 'user', 'user:' || user_id, ifnull(project_id, '')) AS grouping, vector
FROM vectors CROSS JOIN memories ON memories.id = owner_id
WHERE owner_kind = 'memory' AND owner_id > :after AND space_id = :space_id AND state = 'live'
ORDER BY owner_id, part LIMIT :limit
-- name: vectors.turns
SELECT owner_id AS id, seq AS number, ifnull(project_id, '') AS grouping, vector
FROM vectors CROSS JOIN turns ON turns.id = owner_id
WHERE owner_kind = 'turn' AND owner_id > :after AND space_id = :space_id ORDER BY owner_id, part LIMIT :limit
-- name: vectors.ended_memories
SELECT DISTINCT owner_id AS id FROM vectors JOIN memories ON memories.id = owner_id
WHERE owner_kind = 'memory' AND space_id = :space_id AND state <> 'live'
-- name: vectors.short_turns
SELECT vector, host || ' ' || session_id AS session FROM turns
JOIN vectors ON owner_kind = 'turn' AND owner_id = turns.id AND space_id = :space_id AND part = 0
WHERE role = 'user' AND length(text) <= :longest ORDER BY turns.seq DESC LIMIT :limit
-- name: vectors.prompts
-- The first windows of a user's newest prompts.
SELECT vector FROM turns JOIN vectors ON owner_kind = 'turn' AND owner_id = turns.id AND space_id = :space_id AND part = 0
WHERE role = 'user' AND skipped = '' AND agent = '' AND user_id = :user_id ORDER BY turns.seq DESC LIMIT :limit
-- name: vectors.count
-- Owners with a vector in the current space.
SELECT count(*) AS n FROM vectors JOIN spaces ON spaces.id = space_id WHERE part = 0 AND spaces.state = 'current'
-- name: vectors.size
SELECT count(*) AS n FROM vectors WHERE space_id = :space_id AND part = 0
-- name: vectors.any
SELECT 1 FROM vectors WHERE space_id = :space_id LIMIT 1
-- name: vectors.owner
SELECT seq AS number FROM turns WHERE :owner_kind = 'turn' AND id = :owner_id
UNION ALL SELECT seq FROM memories WHERE :owner_kind = 'memory' AND id = :owner_id
-- name: vectors.erase
-- In every space.
DELETE FROM vectors WHERE owner_kind = :owner_kind AND owner_id IN (SELECT value FROM json_each(:ids))
-- name: vectors.missing_memories
-- Memories during whose embedding a process died are left to their own job.
SELECT id, seq, text, iif(scope = 'user', 'user:' || user_id, ifnull(project_id, '')) AS grouping FROM memories
WHERE state = 'live' AND kind NOT IN ('concept', 'episode') AND seq > :after AND NOT EXISTS
  (SELECT 1 FROM vectors WHERE owner_kind = 'memory' AND owner_id = memories.id AND space_id = :space_id AND part = 0)
  AND NOT EXISTS (SELECT 1 FROM jobs WHERE dedupe_key = 'index_memory:' || memories.id AND deaths > 0)
ORDER BY seq LIMIT :limit
-- name: vectors.missing_turns
SELECT id, seq, text, ifnull(project_id, '') AS grouping FROM turns
WHERE role <> 'tool' AND seq > :after AND NOT EXISTS
  (SELECT 1 FROM vectors WHERE owner_kind = 'turn' AND owner_id = turns.id AND space_id = :space_id AND part = 0)
  AND NOT EXISTS (SELECT 1 FROM jobs WHERE dedupe_key = 'index_turn:' || turns.id AND deaths > 0)
ORDER BY seq LIMIT :limit
-- name: vectors.coverage
-- Memories and turns that should have vectors, and those that do. Tool output has none; memories that are no longer live
-- keep theirs.
SELECT memories.n + turns.n AS total, vectors.n - ended.n - other.n AS done FROM
  (SELECT count(*) AS n FROM memories
   WHERE tenant = 'local' AND state = 'live' AND kind NOT IN ('concept', 'episode')) AS memories,
  (SELECT count(*) AS n FROM turns WHERE role <> 'tool') AS turns,
  (SELECT count(*) AS n FROM vectors WHERE space_id = :space_id AND part = 0) AS vectors,
  (SELECT count(*) AS n FROM memories CROSS JOIN vectors ON owner_id = memories.id
   WHERE owner_kind = 'memory' AND space_id = :space_id AND part = 0
   AND tenant = 'local' AND state IN ('superseded', 'binned', 'quarantined')) AS ended,
  (SELECT count(*) AS n FROM memories CROSS JOIN vectors ON owner_id = memories.id
   WHERE owner_kind = 'memory' AND space_id = :space_id AND part = 0
   AND tenant = 'local' AND state = 'live' AND kind IN ('concept', 'episode')) AS other
-- name: vectors.newest
-- The highest row numbers now; later rows have higher ones.
SELECT (SELECT ifnull(max(seq), 0) FROM memories) AS memory, (SELECT ifnull(max(seq), 0) FROM turns) AS turn
-- name: vectors.after
-- The key that a sweep over the table reaches after its next `limit` rows.
SELECT owner_kind, owner_id FROM vectors WHERE (owner_kind, owner_id) > (:owner_kind, :owner_id)
ORDER BY owner_kind, owner_id LIMIT 1 OFFSET :limit
-- name: vectors.clear_retired
DELETE FROM vectors WHERE (owner_kind, owner_id) > (:owner_kind, :owner_id)
  AND (owner_kind, owner_id) <= (:last_kind, :last_id)
  AND space_id IN (SELECT id FROM spaces WHERE state = 'retired')

-- name: activity.prompts
-- Days are given as [name, begin, end]; each is counted from its part of an index.
SELECT days.value ->> 0 AS day, (
  SELECT count(*) FROM events WHERE kind = 'prompt' AND at >= days.value ->> 1 AND at < days.value ->> 2) AS prompts
FROM json_each(:days) AS days
-- name: activity.memories
-- The memories of each day, whatever became of them.
SELECT days.value ->> 0 AS day, (
  SELECT count(*) FROM memories WHERE valid_from >= days.value ->> 1 AND valid_from < days.value ->> 2
  AND kind NOT IN ('concept', 'episode') AND state <> 'quarantined') AS memories
FROM json_each(:days) AS days
-- name: activity.recalls
SELECT days.value ->> 0 AS day, count(*) AS recalls, sum(outcome = 'delivered') AS delivered,
       sum(outcome = 'late') AS late, sum(outcome = 'empty') AS empty,
       sum(iif(outcome = 'delivered', total_tokens_added, 0)) AS tokens
FROM json_each(:days) AS days
CROSS JOIN memory_retrievals ON created_at >= days.value ->> 1 AND created_at < days.value ->> 2
GROUP BY days.key
-- name: usage.add
INSERT INTO llm_usage (at, day, operation, provider, model, calls, input_tokens, output_tokens, estimated, dollars)
VALUES (:at, :day, :operation, :provider, :model, :calls, :input_tokens, :output_tokens, :estimated, :dollars)
-- name: usage.all
SELECT at, day, operation, provider, model, calls, input_tokens, output_tokens, estimated, dollars FROM llm_usage
ORDER BY seq
-- name: usage.of_day
SELECT ifnull(sum(input_tokens + output_tokens), 0) AS tokens, ifnull(sum(dollars), 0.0) AS dollars,
       ifnull(sum(calls), 0) AS calls, count(*) - count(dollars) AS unpriced
FROM llm_usage WHERE day = :day AND operation <> 'recall'
-- name: usage.by_model
SELECT day, operation, provider, model, sum(calls) AS calls, sum(input_tokens) AS input_tokens,
       sum(output_tokens) AS output_tokens, max(estimated) AS estimated, sum(dollars) AS dollars
FROM llm_usage WHERE day >= :since AND operation <> 'recall'
GROUP BY day, operation, provider, model ORDER BY day DESC, operation, provider, model

-- name: usage.recalled
-- Injected tokens are paid for by the agent's own model. One row per day and channel.
UPDATE llm_usage SET calls = calls + 1, input_tokens = input_tokens + :tokens
WHERE day = :day AND operation = 'recall' AND model = :channel
-- name: usage.by_channel
SELECT day, model AS channel, calls AS recalls, input_tokens AS tokens
FROM llm_usage WHERE day >= :since AND operation = 'recall' ORDER BY day DESC, model
-- name: readings.get
SELECT seq FROM readings WHERE tenant = 'local' AND host = :host AND session_id = :session_id
-- name: readings.put
INSERT INTO readings (host, session_id, seq, at) VALUES (:host, :session_id, :seq, :at)
ON CONFLICT (tenant, host, session_id) DO UPDATE SET seq = max(seq, excluded.seq), at = excluded.at
-- name: readings.turns
-- The turns of a conversation that no model has read yet.
SELECT * FROM turns WHERE tenant = 'local' AND host = :host AND session_id = :session_id AND seq > :seq
ORDER BY seq LIMIT :limit
-- name: readings.behind
-- Conversations that no model has read to the end.
SELECT count(*) AS n FROM (SELECT host, session_id, max(seq) AS last FROM turns WHERE role <> 'tool' AND session_id <> ''
                           GROUP BY host, session_id) AS told
WHERE last > ifnull((SELECT seq FROM readings WHERE readings.tenant = 'local' AND readings.host = told.host
                     AND readings.session_id = told.session_id), 0)
-- name: readings.files
-- The last files that an agent read in a conversation.
SELECT * FROM turns WHERE tenant = 'local' AND host = :host AND session_id = :session_id AND role = 'tool'
                          AND source = 'file_read' ORDER BY seq DESC LIMIT :limit
-- name: readings.injected
-- Memories that were injected for a conversation's last prompts.
SELECT DISTINCT memories.text
FROM (SELECT items FROM memory_retrievals WHERE channel = :host AND session_id = :session_id AND outcome = 'delivered'
      ORDER BY created_at DESC LIMIT :limit) AS recalls
JOIN json_each(recalls.items) AS one ON one.value ->> 'injected'
JOIN memories ON memories.id = one.value ->> 'id'

-- name: unread.add
INSERT INTO unread_answers (id, at, host, session_id, operation, prompt_version, reason, turns, answer)
VALUES (:id, :at, :host, :session_id, :operation, :prompt_version, :reason, :turns, :answer)
-- name: unread.all
SELECT * FROM unread_answers ORDER BY at DESC LIMIT :limit
-- name: unread.count
SELECT count(*) AS n FROM unread_answers
-- name: unread.erase
-- An answer quotes the turns it is about.
DELETE FROM unread_answers
WHERE EXISTS (SELECT 1 FROM json_each(unread_answers.turns) AS one JOIN json_each(:turns) AS gone ON one.value = gone.value)

-- name: threads.add
INSERT INTO threads (id, user_id, project_id, agent, channel, title, title_by, summary, topics, state, origin, parent_id,
                     merged_into, weight, opened_at, last_active, suspended_at, drifts)
VALUES (:id, :user_id, :project_id, :agent, :channel, :title, :title_by, :summary, :topics, :state, :origin, :parent_id,
        :merged_into, :weight, :opened_at, :last_active, :suspended_at, :drifts)
-- name: threads.update
UPDATE threads SET title = :title, title_by = :title_by, summary = :summary, topics = :topics, state = :state,
                   parent_id = :parent_id, merged_into = :merged_into, weight = :weight, last_active = :last_active,
                   suspended_at = :suspended_at, drifts = :drifts
WHERE id = :id
-- name: threads.some
-- Threads in the given order, with their number of turns and, if asked for, the number of sessions of their prompts.
SELECT threads.*,
  (SELECT count(*) FROM thread_turns WHERE thread_id = threads.id) AS turns,
  iif(:sessions, (
    SELECT count(DISTINCT turns.host || ' ' || turns.session_id) FROM thread_turns JOIN turns ON turns.id = turn_id
    WHERE thread_id = threads.id AND role = 'user' AND skipped = '' AND turns.agent = ''), 0) AS sessions
FROM json_each(:ids) CROSS JOIN threads ON threads.id = value ORDER BY json_each.key
-- name: ids.memory
-- Rows whose ids begin with a prefix, each with a text that identifies it.
SELECT id, substr(text, 1, 60) AS what FROM memories WHERE id >= :prefix AND id < :prefix || '~' ORDER BY id LIMIT :limit
-- name: ids.turn
SELECT id, role || ' ' || at AS what FROM turns WHERE id >= :prefix AND id < :prefix || '~' ORDER BY id LIMIT :limit
-- name: ids.thread
SELECT id, title AS what FROM threads WHERE id >= :prefix AND id < :prefix || '~' ORDER BY id LIMIT :limit
-- name: ids.bridge
SELECT id, kind AS what FROM bridges WHERE id >= :prefix AND id < :prefix || '~' ORDER BY id LIMIT :limit
-- name: ids.garden
SELECT id, started_at AS what FROM gardens WHERE id >= :prefix AND id < :prefix || '~' ORDER BY id LIMIT :limit
-- name: ids.receipt
SELECT id, at AS what FROM receipts WHERE id >= :prefix AND id < :prefix || '~' ORDER BY id LIMIT :limit
-- name: ids.recall
SELECT id, created_at AS what FROM memory_retrievals
WHERE id >= :prefix AND id < :prefix || '~' ORDER BY id LIMIT :limit
-- name: ids.token
SELECT id, name AS what FROM tokens WHERE id >= :prefix AND id < :prefix || '~' ORDER BY id LIMIT :limit
-- name: ids.job
SELECT id, kind AS what FROM jobs WHERE id >= :prefix AND id < :prefix || '~' ORDER BY id LIMIT :limit
-- name: threads.beginning
SELECT id FROM threads WHERE id >= :prefix AND id < :prefix || '~' ORDER BY id LIMIT :limit
-- name: threads.unsettled
SELECT * FROM threads
WHERE tenant = 'local' AND user_id = :user_id AND project_id IS :project_id AND merged_into IS NULL
  AND state IN ('active', 'suspended') AND (state = 'active' OR coalesce(suspended_at, last_active) <= :suspended_until)
  AND (:only_agent IS NULL OR iif(agent = '', channel, agent) = :only_agent)
ORDER BY last_active DESC, seq DESC
-- name: threads.live
SELECT * FROM threads WHERE tenant = 'local' AND state <> 'archived'
-- name: threads.archived_count
SELECT count(*) AS n FROM threads WHERE tenant = 'local' AND state = 'archived' AND merged_into IS NULL
-- name: threads.listed
SELECT id FROM threads
WHERE tenant = 'local' AND (:user_id IS NULL OR user_id = :user_id) AND (:everywhere OR project_id IS :project_id)
  AND merged_into IS NULL AND (:states IS NULL OR state IN (SELECT value FROM json_each(:states)))
  AND (:only_agent IS NULL OR iif(agent = '', channel, agent) = :only_agent)
ORDER BY last_active DESC, seq DESC LIMIT :limit
-- name: threads.children
SELECT id FROM threads WHERE parent_id = :id ORDER BY seq
-- name: threads.titles
SELECT id, title FROM threads
WHERE tenant = 'local' AND user_id = :user_id AND project_id IS :project_id AND state <> 'archived'
  AND (:only_agent IS NULL OR iif(agent = '', channel, agent) = :only_agent)
-- name: threads.title_of
SELECT id, title FROM threads WHERE id IN (SELECT value FROM json_each(:ids))
-- name: threads.place
INSERT INTO thread_turns (turn_id, thread_id, at, topics)
SELECT id, :thread_id, :at, :topics FROM turns WHERE id = :turn_id ON CONFLICT DO NOTHING
-- name: threads.move
UPDATE thread_turns SET thread_id = :thread_id WHERE turn_id IN (SELECT value FROM json_each(:ids))
-- name: threads.of_turns
SELECT turn_id, thread_id FROM thread_turns WHERE turn_id IN (SELECT value FROM json_each(:ids))
-- name: threads.of_memories
SELECT DISTINCT memory_id, thread_id FROM evidence JOIN thread_turns USING (turn_id)
WHERE memory_id IN (SELECT value FROM json_each(:ids)) ORDER BY memory_id, at
-- name: threads.of_session
-- The thread of a session's last placed prompt before a turn. `role <> 'tool'` selects the session index.
SELECT thread_id FROM turns JOIN thread_turns ON turn_id = turns.id
WHERE tenant = 'local' AND host = :host AND session_id = :session_id AND role <> 'tool' AND role = 'user'
  AND skipped = '' AND agent = '' AND user_id = :user_id AND project_id IS :project_id
  AND turns.at <= :at AND turns.id <> :turn_id
ORDER BY turns.at DESC, seq DESC LIMIT 1
-- name: threads.in_session
-- The threads of a session's prompts, with the time of the last prompt; prompts with the text `but` are ignored.
SELECT thread_id, max(turns.at) AS at FROM turns JOIN thread_turns ON turn_id = turns.id
WHERE tenant = 'local' AND host = :host AND session_id = :session_id AND role <> 'tool' AND role = 'user'
  AND skipped = '' AND agent = '' AND text <> :but
GROUP BY thread_id ORDER BY max(turns.at) DESC
-- name: threads.prompt_before
-- A session's last prompt before a turn, with its thread, or NULL if it is not placed yet.
SELECT turns.id, thread_id FROM turns LEFT JOIN thread_turns ON turn_id = turns.id
WHERE tenant = 'local' AND host = :host AND session_id = :session_id AND role <> 'tool' AND role = 'user'
  AND skipped = '' AND agent = '' AND user_id = :user_id AND project_id IS :project_id
  AND turns.at <= :at AND turns.id <> :turn_id
ORDER BY turns.at DESC, seq DESC LIMIT 1
-- name: threads.from_prompt
-- The prompts of a session from one of them on, with their threads, in order.
SELECT turns.id AS turn_id, thread_id FROM turns LEFT JOIN thread_turns ON turn_id = turns.id
WHERE tenant = 'local' AND host = :host AND session_id = :session_id AND role <> 'tool' AND role = 'user'
  AND skipped = '' AND agent = '' AND user_id = :user_id AND project_id IS :project_id
  AND (turns.at, seq) >= (:at, (SELECT seq FROM turns WHERE id = :turn_id))
ORDER BY turns.at, seq
-- name: threads.waiting_before
-- An earlier prompt of the session that still waits to be placed.
SELECT 1 FROM turns JOIN jobs ON dedupe_key = 'thread:' || turns.id
WHERE tenant = 'local' AND host = :host AND session_id = :session_id AND role <> 'tool' AND role = 'user'
  AND skipped = '' AND turns.at < :at AND turns.id <> :turn_id AND jobs.state <> 'dead'
  AND NOT EXISTS (SELECT 1 FROM thread_turns WHERE turn_id = turns.id)
LIMIT 1
-- name: threads.follow
-- Turns after a prompt and before the session's next prompt go to the prompt's thread.
INSERT INTO thread_turns (turn_id, thread_id, at)
SELECT turns.id, prompt.thread_id, turns.at FROM turns
JOIN thread_turns AS prompt ON prompt.turn_id = :turn_id
WHERE tenant = 'local' AND session_id = :session_id AND seq > (SELECT seq FROM turns WHERE id = :turn_id)
  AND host = :host AND user_id = :user_id AND project_id IS :project_id
  AND NOT (role = 'user' AND skipped = '' AND agent = '') AND turns.at >= :at
  AND turns.at < ifnull((SELECT min(next.at) FROM turns AS next
    WHERE next.tenant = 'local' AND next.host = :host AND next.session_id = :session_id AND next.role <> 'tool'
      AND next.role = 'user' AND next.skipped = '' AND next.agent = '' AND next.user_id = :user_id
      AND next.project_id IS :project_id AND next.at > :at), '~')
ON CONFLICT DO NOTHING
-- name: threads.oldest
SELECT turn_id FROM thread_turns JOIN turns ON turns.id = turn_id
WHERE thread_id = :id AND (NOT :routed OR (role = 'user' AND skipped = '' AND agent = ''))
ORDER BY thread_turns.at, seq LIMIT :limit
-- name: threads.newest
SELECT turn_id FROM thread_turns JOIN turns ON turns.id = turn_id
WHERE thread_id = :id AND (NOT :routed OR (role = 'user' AND skipped = '' AND agent = ''))
ORDER BY thread_turns.at DESC, seq DESC LIMIT :limit
-- name: threads.prompt_count
SELECT COUNT(*) AS n FROM thread_turns JOIN turns ON turns.id = turn_id
WHERE thread_id = :id AND role = 'user' AND skipped = '' AND agent = ''
-- name: threads.latest
SELECT id FROM turns WHERE tenant = 'local' AND project_id IS :project_id AND role = 'user' AND user_id = :user_id
  AND skipped = '' AND agent = '' AND session_id <> '' AND (:only_agent IS NULL OR channel = :only_agent)
  AND (:upto IS NULL OR seq <= (SELECT upto.seq FROM turns AS upto WHERE upto.id = :upto))
ORDER BY seq DESC LIMIT :limit
-- name: threads.followers
-- The first turns after each prompt and before the session's next one, without tool output; ids are separated by
-- spaces.
SELECT prompt.id AS prompt, (SELECT group_concat(id, ' ') FROM (SELECT follower.id FROM turns AS follower
    WHERE follower.tenant = 'local' AND follower.host = prompt.host AND follower.session_id = prompt.session_id
      AND follower.role <> 'tool' AND follower.agent = '' AND (follower.at, follower.seq) > (prompt.at, prompt.seq)
      AND follower.at < ifnull((SELECT min(next.at) FROM turns AS next
        WHERE next.tenant = 'local' AND next.host = prompt.host AND next.session_id = prompt.session_id
          AND next.role <> 'tool' AND next.role = 'user' AND next.skipped = '' AND next.agent = ''
          AND next.at > prompt.at), '~')
    ORDER BY follower.at, follower.seq LIMIT :limit)) AS followers
FROM json_each(:ids) JOIN turns AS prompt ON prompt.id = value
-- name: threads.spoken_between
SELECT DISTINCT thread_id FROM json_each(:ids) CROSS JOIN thread_turns ON thread_id = value
WHERE (:since IS NULL OR at >= :since) AND (:until IS NULL OR at < :until)
-- name: threads.words
-- How often a token occurs in the prompts of each of these threads.
SELECT thread_id, term, count(*) AS n FROM messages_places
JOIN turns ON turns.seq = doc JOIN thread_turns ON turn_id = turns.id
WHERE term IN (SELECT value FROM json_each(:forms)) AND thread_id IN (SELECT value FROM json_each(:ids))
  AND role = 'user' AND skipped = '' AND agent = ''
GROUP BY thread_id, term
-- name: threads.last_active
SELECT user_id, project_id, max(last_active) AS at FROM threads
WHERE tenant = 'local' AND merged_into IS NULL GROUP BY user_id, project_id
-- name: threads.with_followers
-- Turns of threads, and for each prompt among them the turns up to the session's next prompt in the same thread.
SELECT turn_id FROM thread_turns WHERE turn_id IN (SELECT value FROM json_each(:ids))
UNION
SELECT own.turn_id FROM json_each(:ids) JOIN turns AS prompt ON prompt.id = value
JOIN thread_turns AS placed ON placed.turn_id = prompt.id
JOIN thread_turns AS own ON own.thread_id = placed.thread_id AND own.at >= placed.at
JOIN turns AS follower ON follower.id = own.turn_id
WHERE prompt.role = 'user' AND prompt.skipped = '' AND prompt.agent = ''
  AND follower.host = prompt.host AND follower.session_id = prompt.session_id
  AND NOT (follower.role = 'user' AND follower.skipped = '' AND follower.agent = '')
  AND own.at < ifnull((SELECT min(next.at) FROM turns AS next
    WHERE next.tenant = 'local' AND next.host = prompt.host AND next.session_id = prompt.session_id
      AND next.role <> 'tool' AND next.role = 'user' AND next.skipped = '' AND next.agent = ''
      AND next.user_id = prompt.user_id AND next.project_id IS prompt.project_id AND next.at > prompt.at), '~')
-- name: threads.unplaced
-- Prompts that belong in a thread, are in none, and have no job that would place them.
SELECT seq, id FROM turns
WHERE +tenant = 'local' AND seq > :after AND role = 'user' AND skipped = '' AND agent = '' AND session_id <> ''
  AND NOT EXISTS (SELECT 1 FROM thread_turns WHERE turn_id = turns.id)
  AND NOT EXISTS (SELECT 1 FROM jobs WHERE dedupe_key = 'thread:' || turns.id)
  AND turns.id NOT IN (SELECT value FROM jobs, json_each(jobs.payload, '$.turns') WHERE jobs.kind = 'backfill')
ORDER BY seq LIMIT :limit
-- name: threads.with_merged
-- Threads with all threads merged into them, directly or not.
WITH RECURSIVE kin (id) AS (
  SELECT value FROM json_each(:ids) UNION SELECT threads.id FROM threads JOIN kin ON merged_into = kin.id)
SELECT id FROM kin
-- name: threads.emptied
-- Of these threads, those that have no turns except the given ones, neither themselves nor in the threads they were
-- merged into.
SELECT one.value AS id FROM json_each(:ids) AS one WHERE NOT EXISTS (
  WITH RECURSIVE kin (id) AS (
    SELECT one.value UNION SELECT merged_into FROM threads JOIN kin USING (id) WHERE merged_into IS NOT NULL)
  SELECT 1 FROM thread_turns JOIN kin ON thread_id = kin.id WHERE turn_id NOT IN (SELECT value FROM json_each(:but)))
-- name: threads.drifted
SELECT id FROM threads WHERE EXISTS (
  SELECT 1 FROM json_each(drifts) AS one JOIN json_each(:turns) AS gone ON one.value ->> 'turn_id' = gone.value)
-- name: threads.displace
DELETE FROM thread_turns WHERE turn_id IN (SELECT value FROM json_each(:turns))
-- name: threads.unparent
UPDATE threads SET parent_id = NULL WHERE parent_id IN (SELECT value FROM json_each(:ids))
-- name: threads.unbridge
DELETE FROM bridges WHERE source_id IN (SELECT value FROM json_each(:ids))
  OR target_id IN (SELECT value FROM json_each(:ids))
-- name: threads.unsum
DELETE FROM syntheses WHERE thread_id IN (SELECT value FROM json_each(:ids))
-- name: threads.erase
DELETE FROM threads WHERE id IN (SELECT value FROM json_each(:ids))
-- name: threads.of_prompt
SELECT thread_id FROM thread_turns JOIN turns ON turns.id = turn_id
WHERE turn_id = :turn_id AND role = 'user' AND skipped = '' AND agent = ''
-- name: threads.spread
-- The sessions in which each thread had prompts, with the time of the last of them.
SELECT user_id, project_id, thread_id, opened_at, session, last FROM (
  SELECT thread_id, host || ' ' || session_id AS session, max(turns.at) AS last
  FROM thread_turns CROSS JOIN turns ON turns.id = turn_id
  WHERE role = 'user' AND skipped = '' AND turns.agent = '' GROUP BY thread_id, host, session_id)
JOIN threads ON threads.id = thread_id WHERE threads.tenant = 'local' AND merged_into IS NULL ORDER BY thread_id
-- name: thread_decisions.add
INSERT INTO thread_decisions (turn_id, at, action, thread_id, parent_id, similarity, reason, borderline, model, actor,
                              weighed)
VALUES (:turn_id, :at, :action, :thread_id, :parent_id, :similarity, :reason, :borderline, :model, :actor, :weighed)
-- name: thread_decisions.about
SELECT * FROM thread_decisions WHERE turn_id IN (SELECT value FROM json_each(:ids)) ORDER BY seq
-- name: thread_decisions.placed_by
-- The last decision before a time about every prompt before that time.
SELECT decided.thread_id, turns.at, turns.session_id
FROM turns JOIN thread_decisions AS decided ON decided.turn_id = turns.id
WHERE turns.at <= :at AND decided.seq =
  (SELECT max(seq) FROM thread_decisions WHERE turn_id = turns.id AND at <= :at)
ORDER BY turns.at, turns.seq
-- name: thread_decisions.last
SELECT max(seq) AS seq FROM thread_decisions
-- name: thread_decisions.asked
-- Among the latest decisions: prompts placed by the rules, and prompts for which a model was asked or will be.
SELECT count(DISTINCT iif(actor = 'rules', turn_id, NULL)) AS decided,
  count(DISTINCT iif(actor = 'model' AND weighed <> '[]', turn_id, NULL))
    + (SELECT count(*) FROM jobs WHERE kind = 'reconsider' AND state <> 'dead') AS asked
FROM thread_decisions WHERE seq > (SELECT max(seq) FROM thread_decisions) - :latest
-- name: thread_decisions.asked_about
-- Decisions of models and users about the prompts of a project for which a model was asked.
SELECT thread_decisions.* FROM thread_decisions JOIN turns ON turns.id = turn_id
WHERE actor <> 'rules' AND actor IN ('model', 'user') AND user_id = :user_id AND project_id IS :project_id
  AND turn_id IN (SELECT turn_id FROM thread_decisions WHERE actor <> 'rules' AND actor = 'model')
ORDER BY thread_decisions.seq
-- name: thread_decisions.held
-- Threads that a user moved something into or out of. The first condition is the one of the index.
SELECT thread_turns.thread_id AS id FROM thread_decisions JOIN thread_turns USING (turn_id)
JOIN turns ON turns.id = turn_id WHERE actor <> 'rules' AND actor = 'user' AND user_id = :user_id AND project_id IS :project_id
UNION
SELECT parent_id FROM thread_decisions JOIN turns ON turns.id = turn_id
WHERE actor <> 'rules' AND actor = 'user' AND user_id = :user_id AND project_id IS :project_id AND parent_id IS NOT NULL
-- name: thread_decisions.erase
DELETE FROM thread_decisions WHERE turn_id IN (SELECT value FROM json_each(:turns))
-- name: thread_decisions.about_none
DELETE FROM thread_decisions WHERE thread_id IN (SELECT value FROM json_each(:ids))
-- name: thread_decisions.unparent
UPDATE thread_decisions SET parent_id = NULL WHERE parent_id IN (SELECT value FROM json_each(:ids))

-- name: thread_vectors.put
INSERT OR REPLACE INTO thread_vectors (thread_id, space_id, vector) VALUES (:thread_id, :space_id, :vector)
-- name: thread_vectors.drop
DELETE FROM thread_vectors WHERE thread_id IN (SELECT value FROM json_each(:ids))
-- name: thread_vectors.some
SELECT thread_id, vector FROM json_each(:ids) CROSS JOIN thread_vectors ON thread_id = value AND space_id = :space_id
-- name: thread_vectors.archived
SELECT thread_id, vector FROM threads JOIN thread_vectors ON thread_id = threads.id
WHERE tenant = 'local' AND user_id = :user_id AND project_id IS :project_id AND state = 'archived'
  AND merged_into IS NULL AND space_id = :space_id
  AND (:only_agent IS NULL OR iif(agent = '', channel, agent) = :only_agent)
ORDER BY last_active DESC LIMIT :limit
-- name: thread_vectors.missing
-- Threads without a vector in a space in which one of their prompts has one.
SELECT id, seq FROM threads WHERE merged_into IS NULL AND seq > :after
  AND NOT EXISTS (SELECT 1 FROM thread_vectors WHERE thread_id = threads.id AND space_id = :space_id)
  AND EXISTS (SELECT 1 FROM thread_turns JOIN turns ON turns.id = turn_id
    JOIN vectors ON owner_kind = 'turn' AND owner_id = turn_id AND space_id = :space_id AND part = 0
    WHERE thread_id = threads.id AND role = 'user' AND skipped = '' AND agent = '')
ORDER BY seq LIMIT :limit
-- name: thread_vectors.clear_retired
DELETE FROM thread_vectors WHERE space_id IN (SELECT id FROM spaces WHERE state = 'retired')

-- name: active_days.note
INSERT INTO active_days (project_id, day) VALUES (:project_id, :day) ON CONFLICT DO NOTHING
-- name: bridges.put
-- Inserts a bridge, or updates the one with this id.
INSERT INTO bridges (id, source_id, target_id, kind, reason, confidence, depth, made_by, created_at, reinforced_at)
VALUES (:id, :source_id, :target_id, :kind, :reason, :confidence, :depth, :made_by, :created_at, :reinforced_at)
ON CONFLICT (id) DO UPDATE SET source_id = excluded.source_id, target_id = excluded.target_id, reason = excluded.reason,
  confidence = excluded.confidence, depth = excluded.depth, made_by = excluded.made_by,
  reinforced_at = excluded.reinforced_at
-- name: bridges.drop
DELETE FROM bridges WHERE id IN (SELECT value FROM json_each(:ids))
-- name: bridges.refuse
UPDATE bridges SET removed_at = :at WHERE id = :id AND removed_at IS NULL
-- name: bridges.get
SELECT * FROM bridges WHERE id = :id AND removed_at IS NULL
-- name: bridges.around
-- Bridges with at least one end in these threads, including those the user removed (`removed_at`).
SELECT bridges.* FROM json_each(:ids) CROSS JOIN bridges ON bridges.source_id = value
UNION
SELECT bridges.* FROM json_each(:ids) CROSS JOIN bridges ON bridges.target_id = value
ORDER BY id
-- name: bridges.some
SELECT bridges.* FROM json_each(:ids) CROSS JOIN bridges ON bridges.id = value WHERE removed_at IS NULL
-- name: bridges.oldest
-- Bridges between threads of one user and project that have not been confirmed for the longest time.
SELECT bridges.* FROM threads JOIN bridges ON bridges.source_id = threads.id
WHERE threads.tenant = 'local' AND threads.user_id = :user_id AND threads.project_id IS :project_id
  AND removed_at IS NULL AND made_by <> 'user'
ORDER BY reinforced_at LIMIT :limit
-- name: bridges.shown
SELECT bridges.*, source.title AS source_title, target.title AS target_title, source.project_id AS project_id,
       source.user_id AS user_id
FROM bridges JOIN threads AS source ON source.id = bridges.source_id
             JOIN threads AS target ON target.id = bridges.target_id
WHERE removed_at IS NULL AND source.user_id = :user_id
  AND (:everywhere OR source.project_id IS :project_id)
  AND (:thread_id IS NULL OR :thread_id IN (bridges.source_id, bridges.target_id))
  AND (:kind IS NULL OR bridges.kind = :kind)
  AND (NOT :isolated OR ifnull(nullif(source.agent, ''), source.channel) = ifnull(nullif(target.agent, ''), target.channel))
ORDER BY bridges.id
-- name: bridges.count
-- `unsure` is always 0, because the table checks the confidence. Faded bridges are counted too.
SELECT count(*) AS n, ifnull(sum(confidence < 0.5), 0) AS unsure FROM bridges WHERE removed_at IS NULL
-- name: bridges.active_days
SELECT day FROM active_days WHERE tenant = 'local' AND project_id = ifnull(:project_id, '') AND day <= :today
ORDER BY day DESC LIMIT :limit
-- name: bridges.thread
SELECT * FROM threads WHERE tenant = 'local' AND id = :id
-- name: bridges.threads
-- The threads of a user, or of a project, latest first, with their vectors.
SELECT threads.*, thread_vectors.vector
FROM threads LEFT JOIN thread_vectors ON thread_vectors.thread_id = threads.id AND thread_vectors.space_id = :space_id
WHERE threads.tenant = 'local' AND threads.user_id = :user_id AND merged_into IS NULL
  AND (:everywhere OR threads.project_id IS :project_id)
  AND (:agent IS NULL OR :agent IN (threads.agent, threads.channel))
ORDER BY last_active DESC LIMIT :limit
-- name: bridges.said
-- The beginnings of the newest prompts of threads.
SELECT thread_id, text FROM (
  SELECT thread_turns.thread_id, substr(turns.text, 1, :length) AS text, thread_turns.at AS at,
         row_number() OVER (PARTITION BY thread_turns.thread_id ORDER BY thread_turns.at DESC) AS place
  FROM thread_turns JOIN turns ON turns.id = thread_turns.turn_id
  WHERE thread_turns.thread_id IN (SELECT value FROM json_each(:ids)) AND turns.role = 'user' AND turns.skipped = ''
) WHERE place <= :limit ORDER BY thread_id, at DESC
-- name: bridges.replaced
-- Memories of a thread that replaced a memory from another thread, or conflict with it.
SELECT DISTINCT learned.thread_id, newer.text, older.text AS former, newer.state = 'quarantined' AS conflict
FROM thread_turns JOIN evidence ON evidence.turn_id = thread_turns.turn_id
JOIN memories AS newer ON newer.id = evidence.memory_id
LEFT JOIN reviews ON reviews.memory_id = newer.id AND reviews.kind = 'conflict' AND reviews.outcome = 'open'
JOIN memories AS older ON older.id = ifnull(reviews.against, newer.supersedes)
JOIN evidence AS proof ON proof.memory_id = older.id
JOIN thread_turns AS learned ON learned.turn_id = proof.turn_id
WHERE thread_turns.thread_id = :thread_id AND learned.thread_id <> :thread_id
  AND newer.state IN ('live', 'quarantined')

-- name: standing.current
-- The thread with the latest activity.
SELECT threads.id, threads.title, threads.last_active, projects.name AS project_name
FROM threads LEFT JOIN projects ON projects.id = threads.project_id
WHERE threads.tenant = 'local' AND threads.state = 'active' AND merged_into IS NULL
ORDER BY threads.last_active DESC LIMIT 1
-- name: standing.woken
-- Threads that were ever suspended, as far as can be seen, and how many of them were reactivated.
SELECT count(*) AS put_down, ifnull(sum(woken), 0) AS woken FROM (
  SELECT threads.state, threads.id IN (SELECT thread_id FROM thread_decisions WHERE action = 'reactivate') AS woken
  FROM threads WHERE threads.tenant = 'local' AND merged_into IS NULL
) WHERE woken OR state <> 'active'

-- name: exact.found
-- Every row, in any table with text, that contains these words. In events, only `data` is searched, not the rest of the
-- payload. ASCII text without the longest word is skipped early; text with other letters must be folded first.
SELECT 'memories' AS place, id FROM memories
  WHERE (text || ' ' || ifnull(previous_text, '') || ' ' || subject || ' ' || ifnull(key, '') || ' ' || ifnull(value, '')
         LIKE :run OR octet_length(text) > length(text) OR octet_length(subject) > length(subject)
         OR octet_length(ifnull(key, '') || ifnull(value, '')) > length(ifnull(key, '') || ifnull(value, ''))) AND says(:words, text, previous_text, subject, key, value)
UNION ALL SELECT 'turns', id FROM turns WHERE (text LIKE :run OR octet_length(text) > length(text)) AND says(:words, text)
UNION ALL SELECT 'events', id FROM events
  WHERE (payload LIKE :run AND says(:words, json_extract(payload, '$.data'))) OR (reason <> '' AND says(:words, reason))
UNION ALL SELECT 'threads', id FROM threads WHERE says(:words, title, summary, topics)
UNION ALL SELECT 'bridges', id FROM bridges WHERE says(:words, reason)
UNION ALL SELECT 'syntheses', id FROM syntheses WHERE says(:words, content)
UNION ALL SELECT 'session_analyses', host || ' ' || session_id FROM session_analyses WHERE says(:words, analysis)
UNION ALL SELECT 'analysis_cache', host || ' ' || session_id FROM analysis_cache WHERE says(:words, analysis)
UNION ALL SELECT 'memory_retrievals', id FROM memory_retrievals
  WHERE (user_message_preview LIKE :run OR octet_length(user_message_preview) > length(user_message_preview) OR notices <> '[]')
    AND says(:words, user_message_preview, items, notices)
UNION ALL SELECT 'unread_answers', id FROM unread_answers WHERE says(:words, answer, reason)
UNION ALL SELECT 'informed_outputs', content_hash FROM informed_outputs WHERE says(:words, summary)
UNION ALL SELECT 'jobs', id FROM jobs WHERE says(:words, error)
UNION ALL SELECT 'reviews', memory_id FROM reviews WHERE says(:words, reason)
UNION ALL SELECT 'journal', CAST(seq AS TEXT) FROM journal WHERE payload LIKE :run AND says(:words, payload)
UNION ALL SELECT 'thread_decisions', CAST(seq AS TEXT) FROM thread_decisions
  WHERE (reason LIKE :run OR weighed LIKE :run OR octet_length(reason) > length(reason)) AND says(:words, reason, weighed)
UNION ALL SELECT 'thread_turns', turn_id FROM thread_turns
  WHERE (topics LIKE :run OR topics LIKE '%\u%' OR octet_length(topics) > length(topics)) AND says(:words, topics)
UNION ALL SELECT 'vault_notes', path FROM vault_notes WHERE says(:words, path, tags)
UNION ALL SELECT 'vault_chunks', path || '#' || part FROM vault_chunks
  WHERE (text LIKE :run OR heading LIKE :run OR octet_length(heading || text) > length(heading || text))
    AND says(:words, heading, text)

-- name: exact.within
SELECT 1 FROM memories WHERE text LIKE :like ESCAPE '\' OR ifnull(value, '') LIKE :like ESCAPE '\'
UNION ALL SELECT 1 FROM turns WHERE text LIKE :like ESCAPE '\'
UNION ALL SELECT 1 FROM vault_chunks WHERE heading LIKE :like ESCAPE '\' OR text LIKE :like ESCAPE '\'
UNION ALL SELECT 1 FROM vault_notes WHERE path LIKE :like ESCAPE '\'
UNION ALL SELECT 1 FROM events WHERE payload LIKE :like ESCAPE '\' LIMIT 1

-- name: forgetting.known
-- The tables that have a row with this id.
SELECT 'memories' AS place FROM memories WHERE id = :id
UNION ALL SELECT 'turns' FROM turns WHERE id = :id
UNION ALL SELECT 'threads' FROM threads WHERE id = :id
UNION ALL SELECT 'bridges' FROM bridges WHERE id = :id
UNION ALL SELECT 'events' FROM events WHERE id = :id
UNION ALL SELECT 'syntheses' FROM syntheses WHERE id = :id
UNION ALL SELECT 'vault_notes' FROM vault_notes WHERE path = :id
-- name: forgetting.present
SELECT 'memories' AS place, id FROM memories WHERE id IN (SELECT value FROM json_each(:ids))
UNION ALL SELECT 'turns', id FROM turns WHERE id IN (SELECT value FROM json_each(:ids))
UNION ALL SELECT 'events', id FROM events WHERE state <> 'forgotten' AND id IN (SELECT value FROM json_each(:ids))
-- name: forgetting.newest
SELECT (SELECT ifnull(max(seq), 0) FROM events) AS event, (SELECT ifnull(max(seq), 0) FROM turns) AS turn,
  (SELECT ifnull(max(seq), 0) FROM memories) AS memory, (SELECT ifnull(max(seq), 0) FROM journal) AS entry
-- name: forgetting.queued
SELECT 1 FROM events JOIN jobs ON dedupe_key = 'read_turns:' || events.id AND jobs.state <> 'dead' AND attempts < 2
WHERE events.state = 'queued' AND says(:words, json_extract(events.payload, '$.data')) LIMIT 1
-- name: forgetting.turns_of_events
SELECT id FROM turns WHERE event_id IN (SELECT value FROM json_each(:ids))
-- name: forgetting.turns_of_threads
SELECT turn_id AS id FROM thread_turns WHERE thread_id IN (SELECT value FROM json_each(:ids))
-- name: forgetting.syntheses
-- All syntheses of a session go together.
SELECT id, host, session_id FROM syntheses
WHERE thread_id IN (SELECT value FROM json_each(:threads))
  OR (host, session_id) IN (SELECT value ->> 0, value ->> 1 FROM json_each(:sessions))
-- name: forgetting.sessions_of_syntheses
SELECT DISTINCT host, session_id FROM syntheses WHERE id IN (SELECT value FROM json_each(:ids))
-- name: forgetting.recounted
-- Concepts that other sessions mention too.
SELECT DISTINCT memory_id AS id FROM concept_mentions
WHERE (host, session_id) IN (SELECT value ->> 0, value ->> 1 FROM json_each(:sessions))
  AND memory_id NOT IN (SELECT value FROM json_each(:memories))
-- name: forgetting.unread
SELECT id FROM unread_answers
WHERE EXISTS (SELECT 1 FROM json_each(unread_answers.turns) AS one JOIN json_each(:turns) AS gone ON one.value = gone.value)
-- name: forgetting.bridges
-- Bridges of changed threads. Those the user made or removed stay, unless one of their threads is erased.
SELECT id FROM bridges
WHERE source_id IN (SELECT value FROM json_each(:ended)) OR target_id IN (SELECT value FROM json_each(:ended))
  OR ((source_id IN (SELECT value FROM json_each(:changed)) OR target_id IN (SELECT value FROM json_each(:changed)))
      AND made_by <> 'user' AND removed_at IS NULL)
-- name: forgetting.sayings
-- Titles, summaries, reasons and values of these rows.
SELECT title AS text FROM threads WHERE id IN (SELECT value FROM json_each(:threads))
UNION SELECT summary FROM threads WHERE id IN (SELECT value FROM json_each(:threads))
UNION SELECT reason FROM bridges WHERE id IN (SELECT value FROM json_each(:bridges))
UNION SELECT previous_text FROM memories WHERE id IN (SELECT value FROM json_each(:memories)) AND previous_text IS NOT NULL
UNION SELECT value FROM memories WHERE id IN (SELECT value FROM json_each(:memories)) AND value IS NOT NULL
-- name: forgetting.keys
-- The keys under which hosts delivered these rows.
SELECT host, session_id, key FROM events WHERE id IN (SELECT value FROM json_each(:events))
UNION SELECT host, session_id, key FROM turns WHERE id IN (SELECT value FROM json_each(:turns))
UNION SELECT host, session_id, transcript_key FROM turns
WHERE id IN (SELECT value FROM json_each(:turns)) AND transcript_key IS NOT NULL
-- name: forgetting.rows
-- Every affected row: what happens to it, the beginning of its text, and the content that shows whether it changed.
SELECT 'memories' AS place, id, 'erased' AS deed, text AS words, state || text || ifnull(previous_text, '') || valid_from AS content
  FROM memories WHERE id IN (SELECT value FROM json_each(:memories))
UNION ALL SELECT 'memories', id, 'rebuilt', text, text FROM memories WHERE id IN (SELECT value FROM json_each(:recounted))
UNION ALL SELECT 'turns', id, 'erased', text, text FROM turns WHERE id IN (SELECT value FROM json_each(:turns))
UNION ALL SELECT 'vault_notes', path, 'erased', path, hash || tags
  FROM vault_notes WHERE path IN (SELECT value FROM json_each(:notes))
UNION ALL SELECT 'vault_chunks', path || '#' || part, 'erased', text, heading || text
  FROM vault_chunks WHERE path || '#' || part IN (SELECT value FROM json_each(:chunks))
UNION ALL SELECT 'events', id, 'emptied', ifnull(payload ->> '$.data.text', kind), payload
  FROM events WHERE id IN (SELECT value FROM json_each(:events))
UNION ALL SELECT 'evidence', memory_id || ' ' || turn_id || ' ' || start || ' ' || stop, 'erased', '', '' FROM evidence
  WHERE memory_id IN (SELECT value FROM json_each(:memories)) OR turn_id IN (SELECT value FROM json_each(:turns))
UNION ALL SELECT 'reviews', memory_id, 'erased', reason, reason || outcome FROM reviews
  WHERE memory_id IN (SELECT value FROM json_each(:memories))
UNION ALL SELECT 'reviews', memory_id, 'unlinked', reason, reason || outcome FROM reviews
  WHERE memory_id NOT IN (SELECT value FROM json_each(:memories))
    AND (against IN (SELECT value FROM json_each(:memories)) OR memory_id IN (SELECT value FROM json_each(:reviews)))
UNION ALL SELECT 'concept_mentions', memory_id || ' ' || host || ' ' || session_id, 'erased', '', '' FROM concept_mentions
  WHERE memory_id IN (SELECT value FROM json_each(:memories))
    OR (host, session_id) IN (SELECT value ->> 0, value ->> 1 FROM json_each(:sessions))
UNION ALL SELECT 'session_analyses', host || ' ' || session_id, 'erased', analysis, analysis FROM session_analyses
  WHERE (host, session_id) IN (SELECT value ->> 0, value ->> 1 FROM json_each(:sessions))
UNION ALL SELECT 'analysis_cache', CAST(seq AS TEXT), 'erased', analysis, analysis FROM analysis_cache
  WHERE (host, session_id) IN (SELECT value ->> 0, value ->> 1 FROM json_each(:sessions))
UNION ALL SELECT 'syntheses', id, 'erased', content, content FROM syntheses
  WHERE id IN (SELECT value FROM json_each(:syntheses))
UNION ALL SELECT 'informed_outputs', content_hash, 'erased', summary, summary FROM informed_outputs
  WHERE content_hash IN (SELECT value FROM json_each(:informed))
UNION ALL SELECT 'unread_answers', id, 'erased', answer, answer FROM unread_answers
  WHERE id IN (SELECT value FROM json_each(:unread))
UNION ALL SELECT 'memory_retrievals', id, 'emptied', user_message_preview, user_message_preview || items FROM memory_retrievals
  WHERE id IN (SELECT value FROM json_each(:recalls))
UNION ALL SELECT 'journal', CAST(seq AS TEXT), 'emptied', ifnull(payload, ''), '' FROM journal
  WHERE seq IN (SELECT value FROM json_each(:journal)) AND payload IS NOT NULL
UNION ALL SELECT 'jobs', id, 'erased', kind || ' ' || error, '' FROM jobs WHERE id IN (SELECT value FROM json_each(:jobs))
UNION ALL SELECT 'threads', id, 'erased', title, title || summary FROM threads
  WHERE id IN (SELECT value FROM json_each(:ended))
UNION ALL SELECT 'threads', id, 'rebuilt', title, title || summary FROM threads
  WHERE id IN (SELECT value FROM json_each(:changed))
UNION ALL SELECT 'threads', id, 'unlinked', title, title FROM threads
  WHERE (parent_id IN (SELECT value FROM json_each(:ended))
      OR EXISTS (SELECT 1 FROM json_each(drifts) AS one JOIN json_each(:turns) AS gone ON one.value ->> 'turn_id' = gone.value))
    AND id NOT IN (SELECT value FROM json_each(:ended)) AND id NOT IN (SELECT value FROM json_each(:changed))
UNION ALL SELECT 'thread_turns', turn_id, 'erased', topics, thread_id FROM thread_turns
  WHERE turn_id IN (SELECT value FROM json_each(:turns))
UNION ALL SELECT 'thread_turns', turn_id, 'emptied', topics, thread_id FROM thread_turns
  WHERE turn_id IN (SELECT value FROM json_each(:topics)) AND turn_id NOT IN (SELECT value FROM json_each(:turns))
UNION ALL SELECT 'thread_decisions', CAST(seq AS TEXT), 'erased', reason, reason FROM thread_decisions
  WHERE turn_id IN (SELECT value FROM json_each(:turns)) OR thread_id IN (SELECT value FROM json_each(:ended))
UNION ALL SELECT 'thread_decisions', CAST(seq AS TEXT), 'emptied', reason, reason FROM thread_decisions
  WHERE seq IN (SELECT value FROM json_each(:decisions)) AND turn_id NOT IN (SELECT value FROM json_each(:turns))
    AND thread_id NOT IN (SELECT value FROM json_each(:ended))
UNION ALL SELECT 'thread_decisions', CAST(seq AS TEXT), 'unlinked', reason, reason FROM thread_decisions
  WHERE parent_id IN (SELECT value FROM json_each(:ended)) AND turn_id NOT IN (SELECT value FROM json_each(:turns))
    AND thread_id NOT IN (SELECT value FROM json_each(:ended)) AND seq NOT IN (SELECT value FROM json_each(:decisions))
UNION ALL SELECT 'bridges', id, 'erased', reason, reason FROM bridges WHERE id IN (SELECT value FROM json_each(:bridges))
UNION ALL SELECT 'bridges', id, 'emptied', reason, reason FROM bridges WHERE id IN (SELECT value FROM json_each(:reasons))
UNION ALL SELECT 'thread_vectors', thread_id || ' ' || space_id, 'erased', '', '' FROM thread_vectors
  WHERE thread_id IN (SELECT value FROM json_each(:ended)) OR thread_id IN (SELECT value FROM json_each(:changed))
UNION ALL SELECT 'vectors', owner_kind || ' ' || owner_id || ' ' || space_id || ' ' || part, 'erased', '', '' FROM vectors
  WHERE (owner_kind = 'memory' AND owner_id IN (SELECT value FROM json_each(:memories)))
    OR (owner_kind = 'turn' AND owner_id IN (SELECT value FROM json_each(:turns)))
-- name: forgetting.unreview
UPDATE reviews SET reason = '' WHERE memory_id IN (SELECT value FROM json_each(:ids))
-- name: forgetting.untopic
UPDATE thread_turns SET topics = '[]' WHERE turn_id IN (SELECT value FROM json_each(:ids))
-- name: forgetting.undecide
UPDATE thread_decisions SET reason = '', weighed = '[]' WHERE seq IN (SELECT value FROM json_each(:ids))
-- name: forgetting.unreason
UPDATE bridges SET reason = '' WHERE id IN (SELECT value FROM json_each(:ids))
-- name: forgetting.unsum
DELETE FROM syntheses WHERE id IN (SELECT value FROM json_each(:ids))
-- name: forgetting.unanswer
DELETE FROM unread_answers WHERE id IN (SELECT value FROM json_each(:ids))

-- name: tombstones.any
SELECT 1 FROM tombstones LIMIT 1
-- name: tombstones.add
INSERT INTO tombstones (hash, kind, at) VALUES (:hash, :kind, :at)
ON CONFLICT (hash) DO UPDATE SET at = max(at, excluded.at)
-- name: tombstones.of
SELECT at FROM tombstones WHERE hash = :hash
-- name: tombstones.all
SELECT hash, kind, at FROM tombstones
-- name: tombstones.ids
-- The rows that a tombstone of a row may refer to.
SELECT 'memories' AS place, id FROM memories UNION ALL SELECT 'turns', id FROM turns UNION ALL SELECT 'events', id FROM events
  WHERE state <> 'forgotten'
UNION ALL SELECT 'bridges', id FROM bridges WHERE reason <> '' UNION ALL SELECT 'syntheses', id FROM syntheses
UNION ALL SELECT 'memory_retrievals', id FROM memory_retrievals WHERE user_message_preview <> ''
UNION ALL SELECT 'unread_answers', id FROM unread_answers
UNION ALL SELECT 'informed_outputs', content_hash FROM informed_outputs
UNION ALL SELECT 'vault_notes', path FROM vault_notes
-- name: tombstones.keys
SELECT 'events' AS place, id, host, session_id, key, at FROM events WHERE state <> 'forgotten'
UNION ALL SELECT 'turns', id, host, session_id, key, at FROM turns
UNION ALL SELECT 'turns', id, host, session_id, transcript_key, at FROM turns WHERE transcript_key IS NOT NULL
-- name: tombstones.texts
-- Whole texts with their times: a text stated again after it was forgotten stays.
SELECT 'memories' AS place, id, text, created_at AS at FROM memories
UNION ALL SELECT 'memories', id, value, created_at FROM memories WHERE value IS NOT NULL
UNION ALL SELECT 'memories', id, previous_text, created_at FROM memories WHERE previous_text IS NOT NULL
UNION ALL SELECT 'turns', id, text, at FROM turns
UNION ALL SELECT 'threads', id, title, opened_at FROM threads UNION ALL SELECT 'threads', id, summary, opened_at FROM threads
UNION ALL SELECT 'bridges', id, reason, created_at FROM bridges
UNION ALL SELECT 'vault_notes', path, path, NULL FROM vault_notes
UNION ALL SELECT 'vault_chunks', path || '#' || part, text, NULL FROM vault_chunks

-- name: receipts.put
INSERT INTO receipts (id, at, actor, content, signature) VALUES (:id, :at, :actor, :content, :signature)
ON CONFLICT (id) DO UPDATE SET content = excluded.content, signature = excluded.signature
-- name: receipts.get
SELECT id, at, actor, content, signature FROM receipts WHERE id = :id
-- name: receipts.all
SELECT id, at, actor, content, signature FROM receipts ORDER BY at DESC, id DESC LIMIT :limit
-- name: gardens.begin
INSERT INTO gardens (id, occasion, state, plan, started_at) VALUES (:id, :occasion, 'running', :plan, :at)
-- name: gardens.add_step
INSERT INTO garden_steps (garden_id, place, phase, subject) VALUES (:garden_id, :place, :phase, :subject)
-- name: gardens.get
SELECT * FROM gardens WHERE id = :id
-- name: gardens.newest
SELECT * FROM gardens WHERE tenant = 'local' ORDER BY started_at DESC, id DESC LIMIT :limit
-- name: gardens.running
SELECT * FROM gardens WHERE tenant = 'local' AND state = 'running'
-- name: gardens.last_completed
SELECT * FROM gardens WHERE tenant = 'local' AND state = 'completed' ORDER BY started_at DESC, id DESC LIMIT 1
-- name: gardens.next_step
SELECT place, phase, subject FROM garden_steps
WHERE garden_id = :garden_id AND done_at IS NULL ORDER BY place LIMIT 1
-- name: gardens.mark_step
UPDATE garden_steps SET done_at = :at, result = :result
WHERE garden_id = :garden_id AND place = :place AND done_at IS NULL
  AND EXISTS (SELECT 1 FROM gardens WHERE id = :garden_id AND state = 'running')
-- name: gardens.steps_done
SELECT place, phase, subject FROM garden_steps
WHERE garden_id = :garden_id AND done_at IS NOT NULL AND place > :behind ORDER BY place
-- name: gardens.count_done
SELECT count(*) AS n FROM garden_steps
WHERE garden_id = :garden_id AND done_at IS NOT NULL AND phase IN (SELECT value FROM json_each(:kinds))
-- name: gardens.results
SELECT result FROM garden_steps WHERE garden_id = :garden_id AND done_at IS NOT NULL
-- name: gardens.end
UPDATE gardens SET state = :state, totals = :totals, error = :error, ended_at = :at WHERE id = :id AND state = 'running'
-- name: gardens.prune
-- Deletes the steps of all but the latest runs.
DELETE FROM garden_steps WHERE garden_id NOT IN
  (SELECT id FROM gardens WHERE tenant = 'local' ORDER BY started_at DESC, id DESC LIMIT :keep)
-- name: gardens.marks
-- When the steps of the latest runs were done, per run, in order.
SELECT garden_id, phase, done_at, started_at FROM garden_steps
JOIN (SELECT id, started_at FROM gardens WHERE tenant = 'local' AND state = 'completed'
      ORDER BY started_at DESC LIMIT :limit) ON id = garden_id
WHERE done_at IS NOT NULL ORDER BY garden_id, place

-- name: vectors.behind
-- Stored vectors after a key, in key order, with the dimension of their space.
SELECT owner_kind, owner_id, space_id, part, vector, dimension FROM vectors JOIN spaces ON spaces.id = space_id
WHERE (owner_kind, owner_id, space_id, part) > (:owner_kind, :owner_id, :space_id, :part)
ORDER BY owner_kind, owner_id, space_id, part LIMIT :limit
-- name: vectors.ownerless
-- Stored vectors whose owner does not exist.
SELECT owner_kind, owner_id, space_id, part FROM vectors
WHERE (owner_kind = 'turn' AND owner_id NOT IN (SELECT id FROM turns))
   OR (owner_kind = 'memory' AND owner_id NOT IN (SELECT id FROM memories))
-- name: vectors.clear
DELETE FROM vectors

-- name: tokens.put
INSERT INTO tokens (id, kind, name, scope, hash, created_at, expires_at)
VALUES (:id, :kind, :name, :scope, :hash, :created_at, :expires_at)
-- name: tokens.by_hash
SELECT * FROM tokens WHERE hash = :hash
-- name: tokens.get
SELECT * FROM tokens WHERE id = :id AND kind <> 'link'
-- name: tokens.all
SELECT * FROM tokens WHERE tenant = 'local' AND kind <> 'link' ORDER BY id DESC
-- name: tokens.living
-- Tokens that are not revoked.
SELECT id, kind, name, scope, hash, created_at, expires_at FROM tokens WHERE revoked_at IS NULL ORDER BY id
-- name: tokens.revoke
UPDATE tokens SET revoked_at = :at WHERE id = :id AND revoked_at IS NULL
-- name: tokens.redeem
-- The first use consumes the link.
UPDATE tokens SET revoked_at = :at
WHERE hash = :hash AND kind = 'link' AND revoked_at IS NULL AND expires_at > :at RETURNING *
-- name: tokens.touch
UPDATE tokens SET last_used_at = :at WHERE id = :id
-- name: tokens.count_live
SELECT count(*) AS n FROM tokens WHERE kind = 'token' AND revoked_at IS NULL
-- name: tokens.prune
DELETE FROM tokens WHERE kind <> 'token' AND expires_at < :before
-- name: notes.live
-- The files that a model keeps in a project, or outside every project, oldest first.
SELECT * FROM memories
WHERE tenant = 'local' AND state = 'live' AND kind = 'note' AND project_id IS :project_id AND user_id = :user_id
ORDER BY seq
-- name: feed.newest
SELECT (SELECT ifnull(max(seq), 0) FROM journal) AS entry,
       (SELECT ifnull(max(seq), 0) FROM events) AS event,
       (SELECT ifnull(max(seq), 0) FROM thread_decisions) AS decision,
       (SELECT ifnull(max(updated_at), '') FROM memory_settings) AS setting,
       (SELECT ifnull(max(at), '') FROM receipts) AS receipt
-- name: feed.open
SELECT id FROM events WHERE state = 'queued' ORDER BY seq DESC LIMIT :limit
-- name: feed.events
SELECT seq, id, kind, host, session_id, project_id AS project, received_at AS at FROM events
WHERE seq > :after ORDER BY seq LIMIT :limit
-- name: feed.settled
SELECT id, state, reason FROM events
WHERE id IN (SELECT value FROM json_each(:ids)) AND state <> 'queued' ORDER BY seq
-- name: feed.decisions
SELECT seq, turn_id, thread_id, action, parent_id, actor, at FROM thread_decisions
WHERE seq > :after ORDER BY seq LIMIT :limit
-- name: feed.entries
SELECT journal.seq, journal.at, actor, action, subject_id, ifnull(made_by, '') AS made_by,
       ifnull(prompt_version, '') AS prompt_version,
       (SELECT json_group_array(memory_id) FROM journal_touches AS all_of WHERE all_of.seq = journal.seq) AS touches
FROM journal LEFT JOIN memories ON memories.id = subject_id
WHERE journal.seq > :after ORDER BY journal.seq LIMIT :limit
-- name: feed.dead
SELECT id, kind, attempts FROM jobs WHERE state = 'dead' ORDER BY run_at DESC LIMIT 1000
-- name: feed.settings
SELECT key, updated_at AS at FROM memory_settings WHERE updated_at > :after ORDER BY updated_at, key
-- name: feed.receipts
SELECT id AS receipt_id, at FROM receipts WHERE at > :after ORDER BY at
-- name: answered.get
SELECT request, status, type, body FROM answered WHERE key = :key AND at >= :since
-- name: answered.begin
INSERT INTO answered (key, at, request) VALUES (:key, :at, :request)
ON CONFLICT (key) DO UPDATE SET at = excluded.at, request = excluded.request, status = 0, type = '', body = NULL
-- name: answered.end
-- If something was forgotten meanwhile, only the status is stored.
UPDATE answered SET status = :status, type = :type, body = CASE WHEN request IS NULL THEN NULL ELSE :body END
WHERE key = :key
-- name: answered.drop
DELETE FROM answered WHERE key = :key
-- name: answered.empty
UPDATE answered SET request = NULL, body = NULL WHERE request IS NOT NULL OR body IS NOT NULL
-- name: answered.prune
DELETE FROM answered WHERE at < :since OR key IN (SELECT key FROM answered ORDER BY at DESC LIMIT -1 OFFSET :most)

-- name: vault.known
SELECT path, stamp, hash FROM vault_notes
-- name: vault.put
INSERT INTO vault_notes (path, stamp, hash, changed, tags, trouble)
VALUES (:path, :stamp, :hash, :changed, :tags, :trouble)
ON CONFLICT (path) DO UPDATE SET stamp = excluded.stamp, hash = excluded.hash, changed = excluded.changed,
  tags = excluded.tags, trouble = excluded.trouble
-- name: vault.stamp
UPDATE vault_notes SET stamp = :stamp, changed = :changed WHERE path = :path
-- name: vault.drop
DELETE FROM vault_notes WHERE path IN (SELECT value FROM json_each(:paths))
-- name: vault.drop_words
DELETE FROM vault_fts WHERE rowid IN (SELECT seq FROM vault_chunks WHERE path IN (SELECT value FROM json_each(:paths)))
-- name: vault.drop_chunks
DELETE FROM vault_chunks WHERE path IN (SELECT value FROM json_each(:paths))
-- name: vault.put_chunk
INSERT INTO vault_chunks (path, part, heading, text) VALUES (:path, :part, :heading, :text)
-- name: vault.put_words
INSERT INTO vault_fts (rowid, tokens) SELECT seq, :tokens FROM vault_chunks WHERE path = :path AND part = :part
-- name: vault.forget_words
DELETE FROM vault_fts
WHERE rowid IN (SELECT seq FROM vault_chunks WHERE path || '#' || part IN (SELECT value FROM json_each(:ids)))
-- name: vault.forget_chunks
DELETE FROM vault_chunks WHERE path || '#' || part IN (SELECT value FROM json_each(:ids))
-- name: vault.merge
-- Merges all segments into one, without deleted tokens.
INSERT INTO vault_fts (vault_fts) VALUES ('optimize')
-- name: vault.doomed
-- These chunks, and all chunks of these notes.
SELECT path || '#' || part AS id, text FROM vault_chunks
WHERE path || '#' || part IN (SELECT value FROM json_each(:ids)) OR path IN (SELECT value FROM json_each(:paths))
-- name: vault.missing
-- Chunks without a vector in this space, those of the most recently changed notes first.
SELECT seq, heading, text FROM vault_chunks JOIN vault_notes USING (path)
WHERE space_id IS NOT :space_id ORDER BY changed DESC, seq LIMIT :limit
-- name: vault.embed
-- A chunk that was re-created meanwhile has another number.
UPDATE vault_chunks SET space_id = :space_id, vector = :vector WHERE seq = :seq
-- name: vault.vectors
SELECT seq, path, part, vector FROM vault_chunks WHERE space_id = :space_id ORDER BY seq
-- name: vault.best
SELECT rowid AS seq, bm25(vault_fts) AS bm25 FROM vault_fts WHERE vault_fts MATCH :match ORDER BY bm25 LIMIT :limit
-- name: vault.frequencies
SELECT term, doc FROM vault_words WHERE term IN (SELECT value FROM json_each(:forms))
-- name: vault.chunks
SELECT seq, chunks.path, part, heading, text, changed, tokens FROM json_each(:seqs)
CROSS JOIN vault_chunks AS chunks ON seq = value CROSS JOIN vault_notes AS notes ON notes.path = chunks.path
CROSS JOIN vault_fts ON vault_fts.rowid = seq
-- name: vault.of_note
SELECT path, part, heading, text, changed FROM vault_chunks JOIN vault_notes USING (path)
WHERE path = :path ORDER BY part LIMIT :limit
-- name: vault.note
SELECT path, changed, tags FROM vault_notes WHERE path = :path
-- name: vault.tagged
-- Notes with a tag or a tag below it, most recently changed first.
SELECT path FROM vault_notes
WHERE EXISTS (SELECT 1 FROM json_each(tags) WHERE value = :tag OR substr(value, 1, length(:tag) + 1) = :tag || '/')
ORDER BY changed DESC, path LIMIT :limit
-- name: vault.counts
SELECT (SELECT count(*) FROM vault_notes) AS notes, (SELECT count(*) FROM vault_chunks) AS chunks
-- name: vault.troubles
SELECT path, trouble FROM vault_notes WHERE trouble <> '' ORDER BY path LIMIT :limit

-- name: pages.all
SELECT key, place, path FROM vault_pages
-- name: pages.put
INSERT INTO vault_pages (key, place, path) VALUES (:key, :place, :path)
ON CONFLICT (key) DO UPDATE SET place = excluded.place, path = excluded.path
-- name: pages.clear
DELETE FROM vault_pages
-- name: pages.lines
SELECT memory_id, page, hash, is_left FROM vault_lines
-- name: pages.put_line
INSERT INTO vault_lines (memory_id, page, hash, is_left) VALUES (:memory_id, :page, :hash, :is_left)
ON CONFLICT (memory_id) DO UPDATE SET page = excluded.page, hash = excluded.hash, is_left = excluded.is_left
-- name: pages.drop_lines
DELETE FROM vault_lines WHERE memory_id IN (SELECT value FROM json_each(:ids))
-- name: pages.clear_lines
DELETE FROM vault_lines
-- name: pages.anew_lines
DELETE FROM vault_lines WHERE is_left OR page IN (SELECT key FROM vault_pages WHERE path = '')
-- name: pages.anew
DELETE FROM vault_pages WHERE path = ''
-- name: pages.facts
-- Valid memories that may be shown, up to a limit, the newest of them.
SELECT id, scope, project_id, kind, text, created_at FROM memories WHERE seq IN (
  SELECT seq FROM memories
  WHERE tenant = 'local' AND state = 'live' AND user_id = :user_id AND confidence >= :least AND trust >= :trust
    AND disabled = 0 AND kind IN ('rule', 'preference', 'constraint', 'decision', 'fact')
  ORDER BY seq DESC LIMIT :limit
)
ORDER BY seq
-- name: pages.sessions
SELECT id, scope, project_id, kind, text, created_at FROM memories WHERE seq IN (
  SELECT seq FROM memories
  WHERE tenant = 'local' AND state = 'live' AND user_id = :user_id AND kind = 'episode' AND disabled = 0 AND trust >= :trust
  ORDER BY seq DESC LIMIT :limit
)
ORDER BY seq
-- name: pages.heads
-- For each of these memories, its current successor, or its last version.
WITH RECURSIVE line (id, head, step) AS (
  SELECT value, value, 0 FROM json_each(:ids)
  UNION ALL
  SELECT line.id, one.superseded_by, step + 1 FROM line JOIN memories AS one ON one.id = line.head
  WHERE one.state = 'superseded' AND one.superseded_by IS NOT NULL AND step < 1000
)
SELECT line.id, line.head, one.state FROM line JOIN memories AS one ON one.id = line.head
WHERE NOT (one.state = 'superseded' AND one.superseded_by IS NOT NULL)

-- name: team.get
SELECT * FROM team
-- name: team.join
INSERT INTO team (one, url, name, member, member_name, device, device_name, joined_at, is_admin, cursor, entry)
VALUES (1, :url, :name, :member, :member_name, :device, :device_name, :joined_at, :is_admin, :cursor, :entry)
-- name: team.leave
DELETE FROM team
-- name: team.leave_projects
DELETE FROM team_projects
-- name: team.leave_shared
DELETE FROM team_shared
-- name: team.leave_received
DELETE FROM team_received
-- name: team.advance
UPDATE team SET cursor = ifnull(:cursor, cursor), entry = ifnull(:entry, entry)
-- name: team.touched
-- The memories that the next journal entries after a number touch, in the order of the entries.
SELECT seq, memory_id FROM journal_touches
WHERE seq IN (SELECT DISTINCT seq FROM journal_touches WHERE seq > :entry ORDER BY seq LIMIT :limit) ORDER BY seq
-- name: team.last_entry
SELECT ifnull(max(seq), 0) AS n FROM journal
-- name: team.policies
-- Every project with a remote, with its policy; the address that is its id comes before others.
SELECT projects.id AS project_id, min(iif(alias = projects.id, '', alias)) AS first, alias,
       ifnull(policy, 'off') AS policy, ifnull(with_evidence, 0) AS with_evidence,
       iif(team_projects.project_id IS NULL, '', cursor) AS cursor
FROM project_aliases JOIN projects ON projects.id = project_aliases.project_id
LEFT JOIN team_projects ON team_projects.project_id = projects.id
WHERE alias >= 'origin:' AND alias < 'origin;' GROUP BY projects.id
-- name: team.policy
INSERT INTO team_projects (project_id, policy, with_evidence, cursor)
VALUES (:project_id, :policy, :with_evidence, :cursor)
ON CONFLICT (project_id) DO UPDATE SET policy = excluded.policy, with_evidence = excluded.with_evidence,
  cursor = excluded.cursor
-- name: team.caught_up
INSERT INTO team_projects (project_id, policy, with_evidence, cursor) VALUES (:project_id, 'off', 0, :cursor)
ON CONFLICT (project_id) DO UPDATE SET cursor = excluded.cursor
-- name: team.of_project
SELECT id FROM memories
WHERE tenant = 'local' AND state = 'live' AND scope = 'project' AND project_id = :project_id
  AND kind NOT IN ('concept', 'episode') ORDER BY seq
-- name: team.shared
SELECT * FROM team_shared WHERE memory_id IN (SELECT value FROM json_each(:ids))
-- name: team.in_state
SELECT * FROM team_shared WHERE state = :state ORDER BY at, memory_id LIMIT :limit
-- name: team.share
INSERT INTO team_shared (memory_id, state, version, digest, mark, reason, at)
VALUES (:memory, :state, :version, :digest, :mark, :reason, :at)
ON CONFLICT (memory_id) DO UPDATE SET state = excluded.state, version = excluded.version, digest = excluded.digest,
  mark = team_shared.mark + 1, reason = excluded.reason, at = excluded.at
-- name: team.answered
UPDATE team_shared SET state = iif(mark = :mark, :state, state), version = :version, digest = :digest, reason = :reason,
  at = :at WHERE memory_id = :memory
-- name: team.unshare
DELETE FROM team_shared WHERE memory_id IN (SELECT value FROM json_each(:ids))
-- name: team.counts
SELECT state, count(*) AS n FROM team_shared GROUP BY state
UNION ALL SELECT 'received_' || state, count(*) FROM team_received GROUP BY state
-- name: team.candidates
SELECT count(*) AS n FROM team_shared WHERE state = 'candidate'
-- name: team.received
SELECT * FROM team_received WHERE hub_id IN (SELECT value FROM json_each(:ids))
-- name: team.received_as
SELECT * FROM team_received WHERE memory_id <> '' AND memory_id IN (SELECT value FROM json_each(:ids))
-- name: team.superseding
SELECT * FROM team_received WHERE supersedes = :hub_id ORDER BY hub_id
-- name: team.received_in
SELECT * FROM team_received WHERE state = :state AND state IN ('forgetting', 'forgotten') ORDER BY hub_id LIMIT :limit
-- name: team.held
SELECT memory_id FROM team_received JOIN memories ON memories.id = memory_id WHERE memory_id <> '' ORDER BY hub_id
-- name: team.receive
INSERT INTO team_received (hub_id, memory_id, author, version, state, supersedes, left_over)
VALUES (:hub_id, :memory, :author, :version, :state, :supersedes, :left_over)
ON CONFLICT (hub_id) DO UPDATE SET memory_id = excluded.memory_id, version = excluded.version, state = excluded.state,
  left_over = excluded.left_over
-- name: team.unlink
-- Cuts memories off from the versions before and after them.
UPDATE memories SET supersedes = iif(supersedes IN (SELECT value FROM json_each(:ids)), NULL, supersedes),
  previous_text = iif(supersedes IN (SELECT value FROM json_each(:ids)), NULL, previous_text),
  superseded_by = iif(id IN (SELECT value FROM json_each(:ids)), NULL, superseded_by)
WHERE supersedes IN (SELECT value FROM json_each(:ids)) OR id IN (SELECT value FROM json_each(:ids))
