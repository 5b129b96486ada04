"""Log lines: for people on a terminal, an object per line otherwise, the same for libraries."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from minikubelet import logs


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level, before = root.handlers[:], root.level, structlog.get_config()
    yield
    root.handlers[:], root.level = handlers, level
    logging.captureWarnings(capture=False)
    structlog.configure(**before)


def test_json_lines_have_every_key() -> None:
    out = io.StringIO()
    logs.set_up("json", stream=out)
    structlog.get_logger("x").bind(pod="default/web").warning("something", container="m", nothing=None)
    line = json.loads(out.getvalue())
    assert (line["event"], line["level"], line["pod"], line["container"]) == (
        "something",
        "warning",
        "default/web",
        "m",
    )
    assert line["timestamp"].endswith("Z")
    assert list(line)[:3] == ["timestamp", "level", "event"]
    assert "nothing" not in line


def test_libraries_lines_look_the_same() -> None:
    out = io.StringIO()
    logs.set_up("json", stream=out)
    logging.getLogger("grpc").error("broken %s", "pipe")
    assert json.loads(out.getvalue())["event"] == "broken pipe"


def test_an_exception_is_one_line_of_json() -> None:
    out = io.StringIO()
    logs.set_up("json", stream=out)
    try:
        int("boom")
    except ValueError:
        structlog.get_logger().exception("failed")
    (line,) = out.getvalue().splitlines()
    assert "ValueError: invalid literal" in json.loads(line)["exception"]


def test_text_is_for_people_and_has_no_colours_outside_a_terminal() -> None:
    out = io.StringIO()
    logs.set_up("text", stream=out)
    structlog.get_logger().info("something", pod="default/web")
    assert "something" in out.getvalue()
    assert "pod=default/web" in out.getvalue()
    assert "\x1b" not in out.getvalue()


def test_auto_is_json_outside_a_terminal() -> None:
    out = io.StringIO()
    logs.set_up("auto", stream=out)
    structlog.get_logger().info("something")
    assert json.loads(out.getvalue())["event"] == "something"


def test_debug_lines_are_left_out() -> None:
    out = io.StringIO()
    logs.set_up("json", stream=out)
    structlog.get_logger().debug("detail")
    assert out.getvalue() == ""
