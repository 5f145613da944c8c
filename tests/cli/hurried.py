"""`python -m tests.cli.hurried train …`: the command line, with a checkpoint every CHECKPOINT_SECONDS."""

import os

from spherec.cli import main
from spherec.training import RunFiles

if __name__ == "__main__":
    RunFiles.__init__.__kwdefaults__["checkpoint_seconds"] = float(os.environ.get("CHECKPOINT_SECONDS", "0.1"))
    main()
