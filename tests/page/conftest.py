"""A browser without a window and without a network, in which tests of pages open them."""

import json
import os
import shutil

import process_fixtures
import pytest

REQUIRED = os.environ.get("TOOLKIT_TEST_BROWSER") == "1"


class Browser:
    """Chromium through its driver.

    Attributes:
        driver: of Selenium.
    """

    def __init__(self, driver):
        self.driver = driver
        self.command("Network.enable")
        none = {"latency": 0, "downloadThroughput": 0, "uploadThroughput": 0}
        self.command("Network.emulateNetworkConditions", offline=True, **none)

    def command(self, name, **arguments):
        """Send a command of the DevTools protocol."""
        return self.driver.execute_cdp_cmd(name, arguments)

    def open(self, address, width=1366, height=768, is_dark=False, media=""):
        """Open a page in a window of this size, and forget what was logged before."""
        features = [{"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}]
        self.command("Emulation.setEmulatedMedia", media=media, features=features)
        screen = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        self.command("Emulation.setDeviceMetricsOverride", **screen)
        self.driver.get("about:blank")
        self.driver.get_log("browser"), self.driver.get_log("performance")
        self.driver.get(address)

    def run(self, script, *arguments):
        """The value of a script's `return`."""
        return self.driver.execute_script(script, *arguments)

    def wait(self, script, *arguments):
        """Wait until a script returns something true, and return that."""
        return process_fixtures.wait_until(lambda: self.run(script, *arguments), lambda: script)

    def messages(self):
        """What the console got since the page was opened."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self):
        """The addresses that the page requested, without blobs and data of the page itself."""
        events = [json.loads(e["message"])["message"] for e in self.driver.get_log("performance")]
        sent = [e["params"] for e in events if e["method"] == "Network.requestWillBeSent"]
        addresses = [each["request"]["url"] for each in sent]
        return [a for a in addresses if not a.startswith(("blob:", "data:", "about:"))]


@pytest.fixture(scope="session")
def browser():
    """The browser of all tests; skips them where Chromium or its driver is missing."""
    try:
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service
    except ImportError:
        skip_or_fail("the package selenium is not installed")
    paths = [shutil.which(program) for program in ("chromium", "chromedriver")]
    if not all(paths):
        skip_or_fail("chromium or chromedriver is not on PATH")
    options = webdriver.ChromeOptions()
    options.binary_location = paths[0]
    for flag in ("headless=new", "no-sandbox", "disable-gpu", "disable-dev-shm-usage"):
        options.add_argument("--" + flag)
    options.add_experimental_option("browserStartupTimeout", int(1000 * process_fixtures.PATIENCE))
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})

    class PatientService(Service):
        def assert_process_still_running(self):  # it would wait for 30 s
            process_fixtures.wait_until(self.is_connectable, among=[self.process])

    driver = webdriver.Chrome(service=PatientService(paths[1]), options=options)
    driver.set_script_timeout(process_fixtures.PATIENCE)
    driver.set_page_load_timeout(process_fixtures.PATIENCE)
    yield Browser(driver)
    driver.quit()


def skip_or_fail(reason):
    """Skip, or fail where a browser is required."""
    if REQUIRED:
        pytest.fail(f"TOOLKIT_TEST_BROWSER is 1, but {reason}")
    pytest.skip(reason)
