"""Prove a run, diagnose it, and kill copies of it."""
