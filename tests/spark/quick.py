"""Settings of a Spark that lives for a minute: nothing runs long enough to be worth translating twice, or at all."""

_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

# The same for every Java that a process starts, and those that these start.
QUICK_JAVA = {"JAVA_TOOL_OPTIONS": _JAVA}

QUICK = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.driver.extraJavaOptions": _JAVA,
    "spark.executor.extraJavaOptions": _JAVA,
}
