-- Nearly all decisions are the rules'; those of models and people are read for every project.
CREATE INDEX thread_decisions_by_others ON thread_decisions (actor, turn_id) WHERE actor <> 'rules';
