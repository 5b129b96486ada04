"""Names and addresses as Kubernetes wants them, with its texts for those it does not (VA-1).

Every function returns what is wrong with a text: an empty list if nothing is.
"""

from __future__ import annotations

import ipaddress
import re

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_QUALIFIED = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_VALUE = f"({_QUALIFIED})?"
_HEADER = "[-A-Za-z0-9]+"
_SEARCH_LABEL = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SEARCH = rf"{_SEARCH_LABEL}(\.{_SEARCH_LABEL})*"
_UID = "[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?"

_LABEL_TEXT = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
    "and must start and end with an alphanumeric character"
)
_SUBDOMAIN_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
    "and must start and end with an alphanumeric character"
)
_QUALIFIED_TEXT = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
)
_LABEL_VALUE_TEXT = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character"
)
_CONFIG_KEY = "[-._a-zA-Z0-9]+"
_CONFIG_KEY_TEXT = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
_HEADER_TEXT = "a valid HTTP header must consist of alphanumeric characters or '-'"
_UID_TEXT = (
    "a uid must consist of alphanumeric characters, '-' or '.', and start and end with an alphanumeric character"
)


def dns_label(text: str) -> list[str]:
    """A name of one part, at most 63 characters: containers, volumes, namespaces, host names."""
    problems = _at_most(63, text)
    if not re.fullmatch(_LABEL, text):
        if re.fullmatch(_SUBDOMAIN, text):
            problems.append("must not contain dots")
        else:
            problems.append(_pattern(_LABEL_TEXT, _LABEL, "my-name", "123-abc"))
    return problems


def dns_subdomain(text: str) -> list[str]:
    """Labels joined by dots, at most 253 characters: pods."""
    problems = _at_most(253, text)
    if not re.fullmatch(_SUBDOMAIN, text):
        problems.append(_pattern(_SUBDOMAIN_TEXT, _SUBDOMAIN, "example.com"))
    return problems


def search_domain(text: str) -> list[str]:
    """A domain of a resolver's search list: a subdomain in which labels may begin with `_`; a final dot is fine."""
    if text == ".":
        return []
    domain = text.removesuffix(".")
    problems = _at_most(253, domain)
    if not re.fullmatch(_SEARCH, domain):
        problems.append(_pattern(_SUBDOMAIN_TEXT, _SEARCH, "example.com"))
    return problems


def qualified_name(text: str) -> list[str]:
    """The key of a label or an annotation: `name` or `prefix.example/name`."""
    parts = text.split("/")
    if len(parts) > 2:
        name = _pattern(_QUALIFIED_TEXT, _QUALIFIED, "MyName", "my.name", "123-abc")
        suffix = " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return [f"a qualified name {name}{suffix}"]
    problems: list[str] = []
    if len(parts) == 2:
        prefix = parts[0]
        found = dns_subdomain(prefix) if prefix else ["must be non-empty"]
        problems += [f"prefix part {problem}" for problem in found]
    name = parts[-1]
    if not name:
        return [*problems, "name part must be non-empty"]
    found = _at_most(63, name)
    if not re.fullmatch(_QUALIFIED, name):
        found.append(_pattern(_QUALIFIED_TEXT, _QUALIFIED, "MyName", "my.name", "123-abc"))
    return problems + [f"name part {problem}" for problem in found]


def label_value(text: str) -> list[str]:
    problems = _at_most(63, text)
    if not re.fullmatch(_LABEL_VALUE, text):
        problems.append(_pattern(_LABEL_VALUE_TEXT, _LABEL_VALUE, "MyValue", "my_value", "12345"))
    return problems


def pod_uid(text: str) -> list[str]:
    """A uid names folders and control groups, so it has to be safe there (the reference does not check it)."""
    problems = _at_most(63, text)
    if not re.fullmatch(_UID, text):
        problems.append(_pattern(_UID_TEXT, _UID, "web-1", "5f0c9a"))
    return problems


def port_name(text: str) -> list[str]:
    problems = _at_most(15, text)
    if not re.fullmatch("[-a-z0-9]+", text):
        problems.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search("[a-z]", text):
        problems.append("must contain at least one letter (a-z)")
    if "--" in text:
        problems.append("must not contain consecutive hyphens")
    if text.startswith("-") or text.endswith("-"):
        problems.append("must not begin or end with a hyphen")
    return problems


def port_number(number: int) -> list[str]:
    return [] if 1 <= number <= 65535 else ["must be between 1 and 65535, inclusive"]


def env_name(text: str) -> list[str]:
    if all(" " <= character <= "~" and character != "=" for character in text):
        return []
    return ["a valid environment variable name must consist only of printable ASCII characters other than '='"]


def config_key(text: str) -> list[str]:
    """A key of a ConfigMap or Secret: at the same time the name of a file."""
    problems = _at_most(253, text)
    if not re.fullmatch(_CONFIG_KEY, text):
        problems.append(_pattern(_CONFIG_KEY_TEXT, _CONFIG_KEY, "key.name", "KEY_NAME", "key-name"))
    if text in (".", ".."):
        problems.append(f"must not be '{text}'")
    elif text.startswith(".."):
        problems.append("must not start with '..'")
    return problems


def header_name(text: str) -> list[str]:
    if re.fullmatch(_HEADER, text):
        return []
    return [_pattern(_HEADER_TEXT, _HEADER, "X-Header-Name")]


def ip_address(text: str) -> list[str]:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        valid = False
    else:
        valid = "%" not in text
    return [] if valid else ["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"]


def _at_most(characters: int, text: str) -> list[str]:
    return [] if len(text) <= characters else [f"must be no more than {characters} characters"]


def _pattern(text: str, pattern: str, *examples: str) -> str:
    """The reference's wording, its odd blanks included."""
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{text} (e.g. {shown}regex used for validation is '{pattern}')"
