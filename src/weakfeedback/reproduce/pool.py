"""Play all experiments on one executor: no worker idles while there is work left."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any

from weakfeedback.engine.replication import run
from weakfeedback.experiments.model import Experiment
from weakfeedback.experiments.run import Planned
from weakfeedback.reproduce.progress import View

AHEAD = 256  # tasks submitted and not yet done; on a cluster with more threads, several for each thread


class Pool:
    """Plays experiments; one thread plans and compiles the next ones while others are played.

    Parameters
    ----------
    executor : any ``concurrent.futures.Executor``
    plan : function Experiment -> Planned or None
        Called in a thread, one experiment at a time. None: there is nothing to play.
    finish : function Planned -> None
        Called when the last chunk of an experiment has been kept.
    view : what shows the progress
    """

    def __init__(
        self,
        executor: Executor,
        plan: Callable[[Experiment], Planned | None],
        finish: Callable[[Planned], None],
        view: View,
        ahead: int = AHEAD,
    ) -> None:
        self.executor, self.plan, self.finish, self.view, self.ahead = executor, plan, finish, view, ahead
        self.played = 0  # chunks
        self._done: SimpleQueue[Future[Any]] = SimpleQueue()
        self._ready: deque[tuple[Planned, int]] = deque()
        self._running: dict[Future[Any], tuple[Planned, int]] = {}
        self._left: dict[str, int] = {}

    def play(self, experiments: Iterable[Experiment]) -> None:
        """Play all; the first error ends the run, but everything finished is kept."""
        waiting = deque(experiments)
        planning: tuple[Future[Any], Experiment] | None = None
        planner = ThreadPoolExecutor(1, thread_name_prefix="plan")
        try:
            while waiting or planning or self._ready or self._running:
                if planning is None and waiting and len(self._ready) < self.ahead:
                    experiment = waiting.popleft()
                    planning = (planner.submit(self.plan, experiment), experiment)
                    planning[0].add_done_callback(self._done.put)
                self._submit()
                future = self._done.get()
                if planning is not None and future is planning[0]:
                    self._add_planned(planning[1], future.result())
                    planning = None
                else:
                    self._keep(future)
        except BaseException:
            for planned, _ in self._running.values():
                planned.plan.stop()  # running chunks end soon
            raise
        finally:
            for future in self._running:
                future.cancel()
            planner.shutdown(wait=False, cancel_futures=True)

    def _submit(self) -> None:
        while self._ready and len(self._running) < self.ahead:
            planned, k = self._ready.popleft()
            future = self.executor.submit(run, planned.plan.task(k))
            self._running[future] = (planned, k)
            future.add_done_callback(self._done.put)

    def _add_planned(self, experiment: Experiment, planned: Planned | None) -> None:
        if planned is None:
            self.view.finished(experiment)
            return
        missing = planned.plan.missing
        self.view.begun(experiment, len(missing), len(planned.plan.tasks))
        self._left[experiment.id] = len(missing)
        self._ready.extend((planned, k) for k in missing)
        self._close(planned)

    def _keep(self, future: Future[Any]) -> None:
        planned, k = self._running.pop(future)
        planned.plan.keep(k, future.result())
        self.played += 1
        self._left[planned.experiment.id] -= 1
        self.view.advanced(planned.experiment)
        self._close(planned)

    def _close(self, planned: Planned) -> None:
        if self._left[planned.experiment.id] == 0:
            self.finish(planned)
            self.view.finished(planned.experiment)
