"""A projector worker as a program of its own, so that it can be killed. Settings: environment, `LASTWORD_`..."""

from lastword.logs import set_up_logging
from lastword.running import run_worker
from lastword.settings import WorkerSettings

if __name__ == "__main__":
    settings = WorkerSettings()
    set_up_logging(settings.log_level)
    run_worker(settings)
