"""The live dashboard: follows runs while they train, in JupyterLab."""

from mcbench.report.dashboard.arm_form import workbench
from mcbench.report.dashboard.dashboard import Dashboard, watch_experiment

__all__ = ["Dashboard", "watch_experiment", "workbench"]
