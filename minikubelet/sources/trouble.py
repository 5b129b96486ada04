"""What can become of a watched file besides being read."""

from __future__ import annotations

import enum


class Trouble(enum.Enum):
    """Told by `folder_watch` to whoever follows a folder."""

    GONE = "gone"
    #: Not listed since a moment ago: it may be about to be replaced, so its objects stay unless another file claims
    #: them.
    VANISHED = "vanished"
    #: Somebody has it open for writing.
    BEING_WRITTEN = "being written"
