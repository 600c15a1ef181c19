import json
import logging

import pytest

from gristmill.telemetry import logs


@pytest.fixture
def record() -> logging.LogRecord:
    log_record = logging.makeLogRecord(
        {"name": "gristmill.jobs.worker", "levelname": "INFO", "msg": "job %s", "args": ("done",)}
    )
    log_record.kind = "index_document"
    log_record.took = 0.12345
    log_record.reason = "two words"
    return log_record


def test_a_text_line_says_what_happened_and_the_facts_behind_it(record: logging.LogRecord) -> None:
    line = logs.TextFormatter().format(record)
    assert line.endswith('info    jobs.worker job done kind=index_document took=0.123 reason="two words"')


def test_a_json_line_has_each_fact_as_a_field(record: logging.LogRecord) -> None:
    line = json.loads(logs.JsonFormatter().format(record))
    assert line["message"] == "job done"
    assert (line["level"], line["logger"], line["kind"]) == (
        "info",
        "gristmill.jobs.worker",
        "index_document",
    )


def test_a_traceback_stays_one_json_line() -> None:
    try:
        raise ValueError("broken\nin two")
    except ValueError as error:
        log_record = logging.makeLogRecord(
            {"msg": "bug", "exc_info": (type(error), error, error.__traceback__)}
        )
    line = logs.JsonFormatter().format(log_record)
    assert "\n" not in line
    assert "ValueError" in json.loads(line)["traceback"]
