"""The lake: any number of tables that change together, because one root file names them all."""
