import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikubelet.api.durations import DurationError, parse, show


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0),
        ("0s", 0),
        ("10s", 10),
        ("1m20s", 80),
        ("1.5h", 5400),
        (".5s", 0.5),
        ("5.s", 5),
        ("300ms", 0.3),
        ("2h45m", 9900),
        ("1us", 1e-6),
        ("1µs", 1e-6),
        ("1μs", 1e-6),
        ("7ns", 7e-9),
        ("-1m", -60),
        ("+1m", 60),
    ],
)
def test_durations_are_read_as_go_reads_them(text: str, seconds: float) -> None:
    assert parse(text) == seconds


@pytest.mark.parametrize("text", ["", "10", "s", "1d", "1 m", " 1m", "1m-", "--1m", "1,5s", "++0", "00"])
def test_other_texts_are_no_durations(text: str) -> None:
    with pytest.raises(DurationError, match="is not a duration; write a number with a unit"):
        parse(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (10, "10s"),
        (80, "1m20s"),
        (60, "1m0s"),
        (3605, "1h0m5s"),
        (3600, "1h0m0s"),
        (90_000, "25h0m0s"),
        (1.5, "1.5s"),
        (61.25, "1m1.25s"),
        (0.3, "300ms"),
        (0.0015, "1.5ms"),
        (0.000002, "2µs"),
        (5e-9, "5ns"),
        (-80, "-1m20s"),
        (1e-12, "0s"),
    ],
)
def test_durations_are_shown_as_go_shows_them(seconds: float, text: str) -> None:
    assert show(seconds) == text


@given(st.integers(-(10**15), 10**15))
def test_what_is_shown_reads_back(milliseconds: int) -> None:
    assert parse(show(milliseconds / 1000)) == pytest.approx(milliseconds / 1000, abs=1e-9)
