"""The files of a run: the model that it writes, and its checkpoint, from which it continues."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from os import PathLike
from os.path import realpath
from pathlib import Path

from spherec.data.input_files import check_path
from spherec.data.output_files import lock_output
from spherec.errors import ArgumentError, FailedProcessError
from spherec.training.checkpoint import CheckpointFile, Standing, describe_run
from spherec.training.crew import Crew
from spherec.training.step import Run


class RunFiles:
    """The files of one run. They are locked while it lasts, and only ever replaced as a whole.

    Args:
        output: File to which the model is saved at the end. Once it is on disk, the checkpoint is removed, unless the
            run was interrupted. Without it, call `save` of the model yourself.
        checkpoint: File to which the state of the run is written every `checkpoint_seconds` and at the end. One that
            cannot be written is a `CheckpointWarning`.
        checkpoint_seconds: Seconds between two checkpoints.
        resume: Continue from the checkpoint, as if training had never stopped.
        in_shards: In a run of several processes, each writes the vectors that it holds into a shard next to `output`,
            and none has the whole model afterwards. By default the first one collects all of them.
    """

    def __init__(
        self,
        output: str | PathLike[str] | None = None,
        checkpoint: str | PathLike[str] | None = None,
        *,
        checkpoint_seconds: float = 300.0,
        resume: bool = False,
        in_shards: bool = False,
    ) -> None:
        if not checkpoint_seconds >= 0:
            raise ArgumentError(f"checkpoint_seconds must be >= 0, got {checkpoint_seconds}")
        if resume and checkpoint is None:
            raise ArgumentError("resume is True, but no checkpoint was named; give the path of one")
        if in_shards and output is None:
            raise ArgumentError("in_shards (--shards) is for a model that is written; name its output")
        paths = (None if path is None else Path(check_path(path)) for path in (output, checkpoint))
        self.output, self.checkpoint = paths
        if self.output and self.checkpoint and realpath(self.output) == realpath(self.checkpoint):
            raise ArgumentError(f"output and checkpoint are both {self.output}; name two files")
        self.checkpoint_seconds, self.resume, self.in_shards = checkpoint_seconds, resume, in_shards
        self._file: CheckpointFile | None = None

    @contextmanager
    def open(self, crew: Crew) -> Iterator[None]:
        """Lock the files, which must be possible to write, within this block."""
        if self.in_shards:
            crew.check_shards()
        with ExitStack() as locks:
            for path in (self.output, self.checkpoint):
                if path is not None and crew.is_first:
                    locks.enter_context(lock_output(path))
            yield

    def begin(self, run: Run, *, is_validated: bool) -> Standing:
        """Return the position from which a new run is to continue, and put it into that state."""
        crew = run.crew
        identity = describe_run(run, is_validated=is_validated) if self.checkpoint or crew.size > 1 else {}
        lasts = {"epochs": run.plan.epochs, "patience": run.config.patience}
        given = {"checkpoint": self.checkpoint is not None, "resume": self.resume, "in_shards": self.in_shards}
        crew.check_alike({**identity, **lasts, **given})
        if self.checkpoint is None:
            return Standing()
        parts: CheckpointFile | None = crew.checkpoint(self.checkpoint, identity)
        self._file = parts or CheckpointFile(self.checkpoint, identity)
        if not self.resume:
            return Standing()
        standing = self._file.load(run)
        done, begun = len(standing.history.epochs), bool(standing.pairs)
        crew.check_alike({"epochs of the checkpoint": done, "pairs of the checkpoint": standing.pairs})
        if done + begun > run.plan.epochs:
            state = f"{done} done" + (f" and epoch {done + 1} begun" if begun else "")
            raise ArgumentError(
                f"epochs is {run.plan.epochs}, but {self.checkpoint} has {state}; give at least {done + begun}, or "
                "start anew"
            )
        return standing

    def save(self, run: Run, standing: Standing) -> None:
        """Write the checkpoint."""
        if self._file is not None:
            self._file.try_save(run, standing, f"training continues and tries again in {self.checkpoint_seconds:g} s")

    @contextmanager
    def closing(self, run: Run, standing: Standing, *, is_interrupted: bool, is_saved: bool) -> Iterator[None]:
        """Save the model in this block. The checkpoint of a finished run that was saved is removed.

        That of an interrupted run of several processes is written first: torchrun kills them after 30 seconds. If the
        model cannot be saved, a checkpoint is worth all the more, and none takes the room of the model before.
        """
        file, is_written, failure = self._file, False, None
        without = "the run cannot be resumed from here, but its model is saved"
        if file is not None and is_interrupted and run.crew.size > 1:
            is_written = file.try_save(run, standing, without)
        try:
            yield
        except Exception as error:
            failure = error
        if run.crew.agree(failure is not None)[0]:
            failure = failure or FailedProcessError("another process could not save the model; see its message")
            if file is not None and (
                is_written or file.try_save(run, standing, "the run is lost unless its model can be saved")
            ):
                failure.add_note(f"{file.path} holds the whole run; resume it to save its model without more training")
            raise failure
        if file is not None and not is_written:
            if is_saved and self.output is not None and not is_interrupted:
                file.remove()
            else:
                file.try_save(run, standing, without)
