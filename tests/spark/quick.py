"""Settings of a Spark that lives for a minute: nothing runs long enough to be worth translating twice, or at all.

Nor are its classes worth verifying, ten thousand of them at every start. The setting is one for diagnosis; a Java that
does not know it passes over it.
"""

_UNCHECKED = "-XX:+IgnoreUnrecognizedVMOptions -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
_JAVA = f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC {_UNCHECKED}"

# The same for every Java that a process starts, and those that these start.
QUICK_JAVA = {"JAVA_TOOL_OPTIONS": _JAVA}

QUICK = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.driver.extraJavaOptions": _JAVA,
    "spark.executor.extraJavaOptions": _JAVA,
}
