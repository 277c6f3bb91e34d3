"""Lance's own catalog protocol over HTTP: pylance, LanceDB and others open the lake's tables and commit to them."""
