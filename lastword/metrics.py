"""What an audit found, as Prometheus reads it."""

from lastword_projector.audit.report import Report
from lastword_projector.audit.violations import What


def audit_metrics(report: Report, ended_at: float) -> str:
    """The text format of a finished audit; `ended_at` is in seconds since 1970."""
    labels = f'namespace="{report.namespace}",log="{report.log_id}"'
    lines = [
        "# HELP lastword_audit_violations What in Redis the log does not explain, as of the last audit.",
        "# TYPE lastword_audit_violations gauge",
        *(f'lastword_audit_violations{{{labels},what="{what.value}"}} {report.counts[what]}' for what in What),
    ]
    figures = {
        "owners": ("Owners that the last audit compared.", report.owners),
        "entries": ("Entries that the last audit compared.", report.entries),
        "events": ("Items of histories that the last audit compared.", report.events),
        "seconds": ("How long the last audit took.", round(report.seconds, 3)),
        "ended_timestamp_seconds": ("When the last audit ended.", round(ended_at, 3)),
    }
    for name, (text, value) in figures.items():
        lines += [
            f"# HELP lastword_audit_{name} {text}",
            f"# TYPE lastword_audit_{name} gauge",
            f"lastword_audit_{name}{{{labels}}} {value}",
        ]
    return "\n".join(lines) + "\n"
