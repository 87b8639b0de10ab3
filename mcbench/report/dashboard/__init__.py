"""The live dashboard: follows runs while they train, in JupyterLab."""

from mcbench.report.dashboard.dashboard import Dashboard, planned_of, watch_experiment

__all__ = ["Dashboard", "planned_of", "watch_experiment"]
