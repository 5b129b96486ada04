"""Only what is a file is opened, whatever stands in its place."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from minikubelet.runtime.regular_files import open_regular, read_regular


def test_a_file_is_read_up_to_its_limit(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"12345")
    assert read_regular(file, limit=5) == b"12345"
    with pytest.raises(OSError, match="it has more than 4 bytes"):
        read_regular(file, limit=4)


def test_a_link_is_followed_only_where_that_is_meant(tmp_path: Path) -> None:
    file, link = tmp_path / "file", tmp_path / "link"
    file.write_bytes(b"x")
    link.symlink_to(file)
    assert read_regular(link, limit=5) == b"x"
    with pytest.raises(OSError, match="it is not a regular file"):
        open_regular(str(link))


@pytest.mark.parametrize(
    ("make", "error"),
    [
        pytest.param(os.mkfifo, "it is not a regular file", id="pipe"),
        pytest.param(lambda path: path.symlink_to("/dev/zero"), "it is not a regular file", id="link to a device"),
        pytest.param(os.mkdir, "Is a directory", id="folder"),
        pytest.param(lambda _: None, "No such file", id="nothing"),
    ],
)
def test_what_is_no_file_is_not_opened(make: Callable[[Path], None], error: str, tmp_path: Path) -> None:
    make(tmp_path / "it")
    with pytest.raises(OSError, match=error):
        read_regular(tmp_path / "it", limit=5)
