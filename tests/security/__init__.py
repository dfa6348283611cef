"""What an attacker would try."""
