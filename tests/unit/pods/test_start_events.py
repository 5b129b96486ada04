"""What an event says of a start that failed (CC-11)."""

from __future__ import annotations

import pytest

from minikubelet.pods.starter import text_of_event

ID = "4f" * 32


@pytest.mark.parametrize(
    ("message", "container_id", "expected"),
    [
        pytest.param(f"cannot start {ID}: no", ID, "Error: cannot start main: no", id="CC-11 its id is its name"),
        pytest.param("cannot start", ID, "Error: cannot start", id="CC-11 no id in it"),
        pytest.param(f"{ID} is somebody's", "", f"Error: {ID} is somebody's", id="CC-11 there is no container yet"),
    ],
)
def test_the_text_of_an_event(message: str, container_id: str, expected: str) -> None:
    assert text_of_event(message, container_id=container_id, name="main") == expected
