"""The signals that end scripts/peers_gpu.py: SIGALRM of --limit, SIGTERM and SIGINT. It
needs nothing but Python.

A mask would not hold them back: another thread, of which PyTorch has many, may take a
signal, and Python then calls the handler in the main thread all the same.
"""

import contextlib
import signal


class TimeUp(BaseException):
    """--limit is near, or somebody ends the run."""

    def __init__(self, number=signal.SIGALRM):
        self.number = number


class Signals:
    """Raises TimeUp on a signal, and within held() at its end."""

    def __init__(self):
        self.depth, self.pending, self.over = 0, None, False

    def start(self, seconds=None):
        """Begins with SIGTERM and SIGINT, and with SIGALRM after so many seconds."""
        self.__init__()
        signal.signal(signal.SIGTERM, self.take)
        signal.signal(signal.SIGINT, self.take)
        if seconds is not None:  # again every second, because a library may swallow it
            signal.signal(signal.SIGALRM, self.take)
            signal.setitimer(signal.ITIMER_REAL, seconds, 1)

    def end(self):
        """From now on nothing is raised: what is left takes a moment."""
        self.over = True
        signal.setitimer(signal.ITIMER_REAL, 0)

    def take(self, number, _frame):
        if self.over:
            return
        if self.depth:
            self.pending = number
        else:
            raise TimeUp(number)

    @contextlib.contextmanager
    def held(self):
        """Signals wait until the block has ended."""
        before, self.depth = self.depth, self.depth + 1
        try:
            yield
        finally:
            self.depth = before
        self.late()

    def hold(self):
        """Within held(): ends released() where a signal came before it could end."""
        self.depth = max(self.depth, 1)

    @contextlib.contextmanager
    def released(self):
        """Within held(): the block may be interrupted."""
        before, self.depth = self.depth, 0
        try:
            self.late()
            yield
        finally:
            self.depth = before

    def late(self):
        """Raises for a signal that waited."""
        if self.pending is not None and not self.depth and not self.over:
            number, self.pending = self.pending, None
            raise TimeUp(number)
