"""Who decides which manifest becomes version n of a table."""
