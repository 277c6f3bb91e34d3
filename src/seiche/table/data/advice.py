"""What to do about data that is not what the manifest says; for whoever meets it."""

__all__ = ["NO_ROW_COUNT", "OTHER_ROWS_READ"]

NO_ROW_COUNT = (
    "An old writer left the number out. Write the rows anew, which puts it there: `table.overwrite(table.to_arrow())`."
)
OTHER_ROWS_READ = (
    "Nothing was committed. Data files and manifest do not belong together: restore the files from a copy, or open an"
    " older version."
)
