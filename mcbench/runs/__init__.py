"""One run: its configuration, its training, its evaluation and the record it leaves behind.

Import the module you need (``mcbench.runs.store``, ``mcbench.runs.train``, ...): this package
imports nothing by itself, so that readers of records never pay for loading torch.
"""
