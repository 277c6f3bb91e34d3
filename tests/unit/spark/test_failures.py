"""What is told of errors of Spark."""

import pytest

from seiche.spark.sql.failures import first_line


@pytest.mark.parametrize("result", ["", ", and return NULL instead"])
def test_nobody_is_told_to_switch_off_what_storing_needs(result: str) -> None:
    advice = f'If necessary set "spark.sql.ansi.enabled" to "false" to bypass this error{result}. SQLSTATE: 22012'
    said = first_line(ValueError(f"[DIVIDE_BY_ZERO] Division by zero. Use `try_divide`. {advice}\n== SQL =="))
    assert said == "[DIVIDE_BY_ZERO] Division by zero. Use `try_divide`."
