"""The live dashboard: follows runs while they train, in JupyterLab."""

from mcbench.report.dashboard.arm_form import workbench
from mcbench.report.dashboard.dashboard import Dashboard

__all__ = ["Dashboard", "workbench"]
