"""From the statements of transactions to one root: what each wants, what it has read, and whether both still go."""
