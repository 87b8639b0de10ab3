"""Run records as figures, tables and self-contained HTML pages; the live dashboard.

Everything but the dashboard is a pure function of run records: the same records give the same
bytes.
"""
