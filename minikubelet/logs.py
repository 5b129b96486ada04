"""Where log lines go and how they look.

The commands call `set_up` once; every other module just asks structlog for a logger. structlog's and the standard
library's loggers end in one handler on standard error: key=value lines for people on a terminal, a JSON object per
line otherwise, so that the journal and log collectors can read them.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from typing import Any, Literal, TextIO

import msgspec
import structlog
from structlog.typing import Processor

#: Libraries whose everyday messages say nothing to an operator.
_QUIET = ("aiohttp.access", "asyncio")
#: Tells of every request that is no HTTP, with a traceback; what fails in our own handlers is logged by the server.
_SILENT = ("aiohttp.server",)


def set_up(style: Literal["auto", "text", "json"] = "auto", *, stream: TextIO | None = None) -> None:
    """From now on log to `stream` (default: standard error). May be called again."""
    stream = stream or sys.stderr
    text = style == "text" or (style == "auto" and stream.isatty())
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="%H:%M:%S.%f" if text else "iso", utc=not text),
        _without_empty,
    ]
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *_rendering(text, stream)],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
    for name in _SILENT:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    logging.captureWarnings(capture=True)
    structlog.configure(
        processors=[structlog.stdlib.filter_by_level, *shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )


def _rendering(text: bool, stream: TextIO) -> list[Processor]:
    if text:
        plain = structlog.dev.plain_traceback
        return [structlog.dev.ConsoleRenderer(colors=stream.isatty(), exception_formatter=plain, pad_event_to=0)]
    return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(serializer=_json)]


def _without_empty(_logger: Any, _method: str, event: Any) -> Mapping[str, Any]:
    """A key whose value is None says nothing."""
    return {key: value for key, value in event.items() if value is not None}


def _json(event: Any, **_: Any) -> str:
    first = {key: event[key] for key in ("timestamp", "level", "event") if key in event}
    return msgspec.json.encode(first | event, enc_hook=str).decode()
