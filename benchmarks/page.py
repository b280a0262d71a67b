"""Measure the page of 1, 6 and 20 runs: its size, and the time until a browser shows it.

    python benchmarks/page.py RUN [--runs 1,6,20] [--repetitions 5]

RUN is the folder of a run; copies of it, each with another name, are the further ones. Times are
those that headless Chromium reports, from the start of the navigation: `shown`, when the browser
has painted the first screen, and `ready`, when the page is complete. Each is the median of
the repetitions. `written` is the time that the toolkit takes for the page, in a warm process.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

TIMES = """const paint = performance.getEntriesByName('first-contentful-paint')[0];
const load = performance.getEntriesByType('navigation')[0];
return [paint ? paint.startTime : null, load.domComplete]"""


def write_pages(run, counts, folder):
    """Write a page for each number of runs; number -> (path, seconds, bytes without pictures)."""
    from toolkit.comparison.record import read_record
    from toolkit.page.writer import write_page

    record, pages = read_record(run), {}
    for count in counts:
        records = [record._replace(name=f"run {number}") for number in range(count)]
        path = os.path.join(folder, f"{count}.html")
        write_page(path, records)
        start = time.perf_counter()
        write_page(path, records)
        pages[count] = (path, time.perf_counter() - start, size_without_pictures(path))
    return pages


def size_without_pictures(path):
    with open(path, encoding="utf-8") as file:
        return len(re.sub('data:image[^"]*', "", file.read()).encode())


def start_browser():
    """Chromium without a window."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    for flag in ("headless=new", "no-sandbox", "disable-gpu", "disable-dev-shm-usage"):
        options.add_argument("--" + flag)
    return webdriver.Chrome(service=Service(shutil.which("chromedriver")), options=options)


def measure(driver, path, repetitions):
    """The medians of the times in ms of a page, after one that warms up."""
    rows = []
    for _ in range(repetitions + 1):
        driver.get("about:blank")
        driver.get("file://" + path)
        time.sleep(0.3)
        rows.append(driver.execute_script(TIMES))
    return [statistics.median(column) for column in zip(*rows[1:])]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("run", metavar="RUN", type=os.path.abspath)
    parser.add_argument("--runs", default="1,6,20", help="[default %(default)s]")
    parser.add_argument("--repetitions", type=int, default=5, help="[default %(default)s]")
    arguments = parser.parse_args()
    counts = [int(text) for text in arguments.runs.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        pages = write_pages(arguments.run, counts, folder)
        driver = start_browser()
        try:
            for count, (path, seconds, size) in pages.items():
                shown, ready = measure(driver, path, arguments.repetitions)
                row = {"runs": count, "bytes": os.path.getsize(path), "without_pictures": size}
                row.update(written_ms=round(1000 * seconds), shown_ms=shown, ready_ms=ready)
                print(json.dumps(row))
        finally:
            driver.quit()


if __name__ == "__main__":
    main()
