"""Run records as figures, tables and self-contained HTML pages.

Everything here is a pure function of run records: the same records give the same bytes.
"""
