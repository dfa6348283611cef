"""Acceptance tests that run the real agent command lines against a scripted model on this machine.

Nothing here replaces a part of the product or of a host: the agents are the published packages, the hooks
run the installed `filrouge`, and only the model is a script. They are off unless FILROUGE_HOST_TESTS=1.
"""
