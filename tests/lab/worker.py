"""A process that tunes in a study that others share: python -m tests.lab.worker URL TRIALS KILLED GO.

It waits for the file GO, so that all begin at once. KILLED is the number of its trials after which it kills itself, in
the middle of the next; -1 for never. A trial has failed after 2 seconds without a sign of life.
"""

import os
import signal
import sys
import time
from pathlib import Path

from spherec.lab import tuning as storage
from spherec.lab.tuning import TuneWatcher
from tests.lab.tunings import tuned

storage._HEARTBEAT, storage._GRACE = 1, 2


class Slow(TuneWatcher):
    """Takes its time after each trial, so that others have theirs."""

    def __init__(self, killed):
        self.ended, self.killed = 0, killed

    def on_epoch(self, number, epoch, history):
        if self.ended == self.killed and len(history.epochs) == 2:
            print(number, flush=True)
            os.kill(os.getpid(), signal.SIGKILL)

    def on_trial(self, trials, last):
        self.ended += 1
        time.sleep(0.2)


if __name__ == "__main__":
    url, trials, killed, go = sys.argv[1:]
    until = time.monotonic() + 60
    print("ready", flush=True)
    while not Path(go).exists() and time.monotonic() < until:
        time.sleep(0.001)
    done = tuned(storage=url, trials=int(trials), watcher=Slow(int(killed)))
    print(done.ended, len(done.trials), flush=True)
