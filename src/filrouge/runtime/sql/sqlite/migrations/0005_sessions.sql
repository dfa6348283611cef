-- A turn is judged by its neighbours in its session, in the order in which things were said.
CREATE INDEX turns_in_session ON turns (tenant, host, session_id, at, seq) WHERE role <> 'tool';
