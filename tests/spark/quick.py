"""Settings of a Spark that lives for a minute: nothing runs long enough to be worth translating twice, or at all.

Nor are its classes worth verifying, ten thousand of them at every start. The setting is one for diagnosis; a Java that
does not know it passes over it.
"""

_UNCHECKED = "-XX:+IgnoreUnrecognizedVMOptions -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
_JAVA = f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC {_UNCHECKED}"

# The same for every Java that a process starts, and those that these start.
QUICK_JAVA = {"JAVA_TOOL_OPTIONS": _JAVA}

_SQL = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}

QUICK = {
    **_SQL,
    "spark.driver.extraJavaOptions": _JAVA,
    "spark.executor.extraJavaOptions": _JAVA,
}

# For a command that starts a Spark by itself: beside its own settings, and without a word of Java's on the screen that
# it was told something.
QUICK_COMMAND = {
    "SPARK_SUBMIT_OPTS": _JAVA,
    "PYSPARK_SUBMIT_ARGS": " ".join([*(f"--conf {name}={value}" for name, value in _SQL.items()), "pyspark-shell"]),
}
