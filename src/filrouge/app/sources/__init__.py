"""Sources: what may go in front of a model, one small module each."""
