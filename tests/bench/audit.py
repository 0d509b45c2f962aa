"""How fast an audit goes, on one core: all that a worker has projected is derived from the log again and compared.

The topic is that of the projection's bench: statements, turns' candidates, late candidates and duplicates.
"""

import random
import statistics
import time

import redis

from lastword.running import make_auditor
from lastword_projector.audit.report import Report
from lastword_schemas.registry import parse_registry_file
from tests.bench.bench import Bench, BenchStopped, Options
from tests.bench.pipeline import Pipeline
from tests.bench.projection import KEYS, mix
from tests.bench.show import figure, progress
from tests.bench.stage import Stage, open_stage

RUNS = 5
BAR = 20_000
"""Entries a second."""
_SLOW_US = 1_000
"""Microseconds; what no call should take by itself; on a busy machine any call may."""
_KEPT = 10_000


def run(options: Options) -> bool:
    """Print the rates; whether their median reaches the bar; everything has to be grounded."""
    declared = "".join(
        f'[keys."key{number}"]\npolicy = "latest"\nmin_authority = "inferred"\n' for number in range(KEYS)
    )
    with open_stage(options.broker) as stage:
        figure(stage.versions)
        with Pipeline(stage, "audit", parse_registry_file(declared), partitions=options.partitions) as pipeline:
            pipeline.publish_mix(list(mix(random.Random(options.seed))))
            pipeline.project()
            return _measure(stage, pipeline)


def _measure(stage: Stage, pipeline: Pipeline) -> bool:
    rates, of_core = [], []
    with redis.Redis.from_url(stage.redis_url) as client:
        client.config_set("slowlog-log-slower-than", _SLOW_US)
        client.config_set("slowlog-max-len", _KEPT)
        client.slowlog_reset()
        for number in range(1, RUNS + 1):
            began, used = time.perf_counter(), time.process_time()
            report = _audit(pipeline)
            seconds, core = time.perf_counter() - began, time.process_time() - used
            if report.count:
                raise BenchStopped(f"not grounded: {report.violations[0]}")
            rates.append(report.entries / seconds)
            of_core.append(report.entries / core)
            figure(f"  run {number}: {rates[-1]:,.0f} entries/s, {of_core[-1]:,.0f} a second of the core it used")
        slow = len(client.slowlog_get(_KEPT))
    figure(
        f"audit: {statistics.median(rates):,.0f} [{min(rates):,.0f} - {max(rates):,.0f}] entries/s, at least {BAR:,}; "
        f"{report.entries:,} entries and {report.events:,} events of {report.owners:,} owners from "
        f"{report.records:,} records; {slow} calls took Redis more than {_SLOW_US / 1_000:.0f} ms"
    )
    return statistics.median(rates) >= BAR


def _audit(pipeline: Pipeline) -> Report:
    with progress("audit", pipeline.total) as on_progress:
        auditor = make_auditor(pipeline.settings, pipeline.log, on_progress=lambda report: on_progress(report.records))
        return auditor.audit()


BENCH = Bench("an audit of everything that Redis holds, on one core", (), (), run)
