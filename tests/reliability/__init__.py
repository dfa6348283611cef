"""What Filrouge promises when things go wrong, held against real processes, sockets, disks and signals."""
