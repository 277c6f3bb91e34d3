"""Group commit: transactions that wait are planned, decided by one root, and each told what became of it."""
