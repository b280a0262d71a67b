"""The browser, for all tests of pages."""

from browser_fixtures import browser  # noqa: F401
