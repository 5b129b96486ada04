"""Checks of paths that lie within a volume (VA-1)."""

from __future__ import annotations

from minikubelet.api.problems import Problems, invalid


def descending_path(text: str, path: str) -> Problems:
    """A path that leads down only."""
    if text.startswith("/"):
        yield invalid(path, text, "must be a relative path")
    if ".." in text.split("/"):
        yield invalid(path, text, "must not contain '..'")


def file_path(text: str, path: str) -> Problems:
    """The path of a file that a volume is to have: names that begin with `..` are the atomic writer's own."""
    yield from descending_path(text, path)
    if text.startswith("..") and not text.startswith("../") and text != "..":
        yield invalid(path, text, "must not start with '..'")
