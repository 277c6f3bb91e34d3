"""What users do to a table: verbs that prepare a change, and leave it to others when and how it is committed."""
