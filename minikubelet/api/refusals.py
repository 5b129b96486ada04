"""Why a command is not carried out, in Kubernetes' words: raised by the room that knows, answered by `server/`.

It stands here because rooms do not know each other.
"""

from __future__ import annotations

from typing import Literal

#: `reason` of a Kubernetes `Status`.
Reason = Literal[
    "AlreadyExists",
    "BadRequest",
    "Conflict",
    "Forbidden",
    "InternalError",
    "Invalid",
    "MethodNotAllowed",
    "NotFound",
    "ServiceUnavailable",
    "Timeout",
]


class RefusedError(Exception):
    """Nothing was changed, unless the message says otherwise. The message is for people and says what to do."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason: Reason = reason
        self.message = message
