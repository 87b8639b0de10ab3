"""Profiles, run configurations, run records, training, evaluation and experiments.

Import the module you need (``mcbench.lab.store``, ``mcbench.lab.train``, ...): this package imports
nothing by itself, so that readers of records never pay for loading torch.
"""
