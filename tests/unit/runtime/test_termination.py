from __future__ import annotations

import os
from pathlib import Path

import pytest

from minikubelet.runtime.termination import joined, read_log, read_message


def test_tm_1_the_last_4096_bytes_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "message"
    file.write_text("x" * 904 + "y" * 4096)
    assert read_message(str(file)) == "y" * 4096


def test_tm_1_an_empty_or_missing_file_is_no_message(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    assert read_message(str(tmp_path / "empty")) == ""
    assert read_message(str(tmp_path / "missing")) == ""


def test_tm_1_another_failure_is_told_in_the_message(tmp_path: Path) -> None:
    text = read_message(str(tmp_path))
    assert text.startswith(f"Error on reading termination log {tmp_path}: ")


@pytest.mark.parametrize("kind", ["link", "pipe", "device", "folder"])
def test_tm_1_and_tm_2_only_a_file_is_read_and_nothing_waited_for(tmp_path: Path, kind: str) -> None:
    (tmp_path / "secret").write_text("secret")
    path = tmp_path / "message"
    match kind:
        case "link":
            path.symlink_to(tmp_path / "secret")
        case "pipe":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "device":
            path = Path("/dev/null")
    assert read_message(str(path)) == f"Error on reading termination log {path}: it is not a regular file"
    assert read_log(str(path)) == "Error on reading termination message from logs: it is not a regular file"


def test_bytes_that_are_no_text_do_not_hinder(tmp_path: Path) -> None:
    file = tmp_path / "message"
    file.write_bytes(b"\xff\xfeok")
    assert read_message(str(file)) == "��ok"


def _log(tmp_path: Path, *lines: str) -> str:
    file = tmp_path / "0.log"
    file.write_text("".join(f"2026-01-01T00:00:00.{i}Z {line}\n" for i, line in enumerate(lines)))
    return str(file)


def test_tm_2_the_last_80_lines_of_both_streams_without_stamps(tmp_path: Path) -> None:  # 13/log-lines
    lines = [f"{'stdout' if i % 2 else 'stderr'} F line {i}" for i in range(1, 201)]
    assert read_log(_log(tmp_path, *lines)) == "".join(f"line {i}\n" for i in range(121, 201))


def test_tm_2_of_that_the_last_2048_bytes(tmp_path: Path) -> None:
    text = read_log(_log(tmp_path, *["stdout F " + "x" * 99] * 80))
    assert len(text) == 2048
    assert text.endswith("x" * 99 + "\n")


def test_lg_1_partial_lines_are_joined_and_what_is_no_line_is_skipped(tmp_path: Path) -> None:
    path = _log(
        tmp_path, "stdout P one", "stdout F  two", "garbage", "stdout F:tag three", "", "stdout F ", "stdout P end"
    )
    assert read_log(path) == "one two\nthree\n\nend\n"


def test_a_line_of_16_kib_at_the_end_of_a_long_log(tmp_path: Path) -> None:
    text = read_log(_log(tmp_path, *["stdout F short"] * 20000, "stdout P " + "a" * 16384, "stdout F z"))
    assert text == "a" * 2046 + "z\n"


def test_tm_2_a_missing_log_is_told(tmp_path: Path) -> None:
    assert read_log(str(tmp_path / "no.log")).startswith("Error on reading termination message from logs: ")


@pytest.mark.parametrize(
    ("runtime", "text", "expected"), [("a", "b", "a: b"), ("a", "", "a"), ("", "b", "b"), ("", "", "")]
)
def test_tm_3_both_messages_are_joined(runtime: str, text: str, expected: str) -> None:
    assert joined(runtime, text) == expected
