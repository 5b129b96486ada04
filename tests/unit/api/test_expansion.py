import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikubelet.api.expansion import expand


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("$$(B)", "$(B)"),
        ("$$$(B)", "$bb"),
        ("$(NO)", "$(NO)"),
        ("$( x", "$( x"),
        ("a$", "a$"),
        ("$B", "$B"),
        ("$(B)$(B)", "bbbb"),
        ("x-$(B)-y", "x-bb-y"),
        ("$(EMPTY)!", "!"),
        ("$(NESTED)", "$(B)"),
        ("$()", "$()"),
        ("$(A B)", "spaced"),
        ("$($(B))", "$($(B))"),
        ("$$$$", "$$"),
        ("\n$(B)\n", "\nbb\n"),
        ("", ""),
    ],
)
def test_references_are_replaced_in_one_pass(text: str, expanded: str) -> None:  # CC-6
    variables = {"B": "bb", "EMPTY": "", "NESTED": "$(B)", "A B": "spaced"}
    assert expand(text, variables) == expanded


@given(st.text())
def test_doubling_every_dollar_keeps_a_text_as_it_is(text: str) -> None:
    assert expand(text.replace("$", "$$"), {"A": "x"}) == text
