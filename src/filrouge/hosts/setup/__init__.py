"""Writing Filrouge into the settings of agents, and taking it out again.

The files belong to other programs and to the people who wrote comments into them. A change is an insertion into the
text, never a file written anew; a file that nobody touched since gets its bytes back, and from any other only what is
ours is taken.
"""
