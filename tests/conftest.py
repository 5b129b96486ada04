"""What every test run needs."""

from __future__ import annotations

import asyncio


def pytest_configure() -> None:
    """Say that this thread has no event loop until a test gets its own.

    Otherwise looptime, which asks for the loop before each test, makes asyncio create one that nobody ever closes.
    """
    asyncio.set_event_loop(None)
