from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikubelet.api import quantity
from minikubelet.api.quantity import QuantityError, canonical, milli, parse, whole

SUFFIXES = ["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e3", "E-2", "e+1"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("2", 2),
        ("-1", -1),
        ("+1", 1),
        ("0.5", Fraction(1, 2)),
        (".5", Fraction(1, 2)),
        ("5.", 5),
        ("100m", Fraction(1, 10)),
        ("1n", Fraction(1, 10**9)),
        ("1u", Fraction(1, 10**6)),
        ("1k", 1000),
        ("1M", 10**6),
        ("1Ki", 1024),
        ("1.5Gi", 3 * 2**29),
        ("1Ei", 2**60),
        ("1E", 10**18),
        ("1E3", 1000),
        ("1e-3", Fraction(1, 1000)),
        ("12e6", 12_000_000),
    ],
)
def test_a_quantity_has_an_exact_value(text: str, value: Fraction) -> None:
    assert parse(text) == value


@pytest.mark.parametrize(
    "text",
    ["", " 1", "1 ", "x", "1x", "1MB", "64mb", "1K", "0x10", "1_000", "--1", "1.2.3", "m", ".", "1e", "1i", "1" * 65],
)
def test_other_texts_are_no_quantities(text: str) -> None:
    with pytest.raises(QuantityError, match=r"must be a quantity such as 2, 0\.5, 100m, 64Mi or 1Gi"):
        parse(text)


@pytest.mark.parametrize(
    ("text", "thousandths", "number"),
    [("1", 1000, 1), ("100m", 100, 1), ("1u", 1, 1), ("1.0001", 1001, 2), ("1Ki", 1_024_000, 1024), ("0", 0, 0)],
)
def test_thousandths_and_whole_numbers_round_up(text: str, thousandths: int, number: int) -> None:
    assert (milli(text), whole(text)) == (thousandths, number)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("1000m", "1"),
        ("0.5", "500m"),
        ("1.0", "1"),
        ("0100m", "100m"),
        ("1u", "1m"),
        ("1000", "1k"),
        ("1500", "1500"),
        ("1024Mi", "1Gi"),
        ("1.5Gi", "1536Mi"),
        ("1000Ki", "1000Ki"),
        ("0.1Ki", "102400m"),
        ("0Mi", "0"),
        ("2703.125Ki", "2768k"),
        ("1.5Ki", "1536"),
        ("1e3", "1e3"),
        ("1200e1", "12e3"),
        ("0e3", "0"),
        ("-2000m", "-2"),
        ("1E", "1E"),
        ("2000E", "2000E"),
    ],
)
def test_there_is_one_way_to_write_a_value(text: str, shown: str) -> None:
    assert canonical(text) == shown


texts = st.builds(
    lambda number, fraction, suffix: f"{number}{fraction}{suffix}",
    st.integers(-(10**9), 10**9),
    st.sampled_from(["", ".5", ".25", ".125", ".0001"]),
    st.sampled_from(SUFFIXES),
)


@given(texts)
def test_a_canonical_quantity_stays_as_it_is_and_keeps_its_thousandths(text: str) -> None:
    shown = canonical(text)
    assert milli(shown) == milli(text)
    assert canonical(shown) == shown


@given(st.text(max_size=30))
def test_no_text_does_more_than_be_refused(text: str) -> None:
    try:
        value = parse(text)
    except quantity.QuantityError:
        return
    assert whole(text) >= value
