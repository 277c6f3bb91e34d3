"""What the tree holds: names, keys and rows of namespaces, tables, views and the lake's own records."""
