-- Prompts are compared one by one: what was said of a thread in one session needs no vector of its own.
DROP TABLE thread_parts;
