"""What can be wrong with a call to a queue; the names are SQS's where it has one."""


class QueueError(Exception):
    """The queue refused a call. Nothing was changed, and no message is lost."""


class QueueDoesNotExist(QueueError):
    """Nobody has created a queue of this name: a worker that polls it would wait for ever."""


class QueueNameExists(QueueError):
    """There is a queue of this name with other attributes."""


class ReceiptHandleIsInvalid(QueueError):
    """This queue never gave out such a receipt handle."""


class ReceiptHandleHasExpired(QueueError):
    """The message was received again since this receipt handle was given out."""


class MessageNotInflight(QueueError):
    """The message is visible again, deleted, or a dead letter: there is no visibility timeout to change."""


class InvalidMessageContents(QueueError, ValueError):
    """A body that cannot be written as JSON."""


class MessageTooLong(QueueError, ValueError):
    """A body that is larger than a queue takes."""
