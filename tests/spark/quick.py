"""Settings of a Spark that lives for a minute: nothing runs long enough to be worth translating twice, or at all."""

_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

QUICK = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.driver.extraJavaOptions": _JAVA,
    "spark.executor.extraJavaOptions": _JAVA,
}
