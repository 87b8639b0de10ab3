"""The live dashboard: follows runs while they train, in JupyterLab."""

from mcbench.report.dashboard.dashboard import Dashboard, watch_experiment
from mcbench.report.dashboard.workbench import workbench

__all__ = ["Dashboard", "watch_experiment", "workbench"]
