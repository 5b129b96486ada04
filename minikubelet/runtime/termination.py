"""What a container left behind to say why it ended: its termination message (TM-1 to TM-3).

Blocking; `exits.Exits` calls it in a thread when a container has exited. A container may have made something else of
the file, if it can reach it by another way: only a regular file is opened, and no link followed.
"""

from __future__ import annotations

from minikubelet.runtime.log_lines import parsed
from minikubelet.runtime.regular_files import open_regular

#: Bytes of the termination file, and lines and bytes of the log, that are taken; always the last ones.
_MAX_FILE = 4096
_MAX_LINES, _MAX_LOG = 80, 2048
#: Enough of a log's end for `_MAX_LOG` bytes of text, whatever the length of its lines (at most 16 KiB each).
_LOG_TAIL = 64 * 1024


def read_message(path: str) -> str:
    """The termination file's last 4096 bytes; "" if it is empty or missing (TM-1)."""
    try:
        return _tail(path, _MAX_FILE)[0].decode(errors="replace")
    except FileNotFoundError:
        return ""
    except OSError as error:
        return f"Error on reading termination log {path}: {error}"


def read_log(path: str) -> str:
    """The last 80 log lines without their stamps, of that the last 2048 bytes (TM-2)."""
    try:
        data, whole = _tail(path, _LOG_TAIL)
    except OSError as error:
        return f"Error on reading termination message from logs: {error}"
    raw = data.splitlines() if whole else data.splitlines()[1:]
    lines: list[bytes] = []
    open_line = False
    for entry in raw:
        if (line := parsed(entry)) is None:
            continue
        if open_line:
            lines[-1] += line.text
        else:
            lines.append(line.text)
        open_line = not line.whole
    text = b"".join(line + b"\n" for line in lines[-_MAX_LINES:])
    return text[-_MAX_LOG:].decode(errors="replace")


def joined(runtime_message: str, text: str) -> str:
    """Both messages, if there are both (TM-3)."""
    return f"{runtime_message}: {text}" if runtime_message and text else runtime_message or text


def _tail(path: str, size: int) -> tuple[bytes, bool]:
    """The last bytes of a file, and whether that is all of it."""
    with open_regular(path) as file:
        end = file.seek(0, 2)
        file.seek(max(0, end - size))
        return file.read(size), end <= size
