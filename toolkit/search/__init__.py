"""Trials of many configurations at equal budgets."""
