"""What a terminal shows of the bytes that it gets."""

import re


class Screen:
    """What a terminal shows that breaks long lines into rows, again whenever its width changes.

    Attributes:
        lines: the text of each line, of any length.
    """

    def __init__(self, width):
        self.width = width
        self.lines, self._line, self._column = [""], 0, 0

    def feed(self, text):
        for part in re.findall(r"\x1b\[[0-9;?]*[a-zA-Z]|\r|\n|[^\x1b\r\n]+", text):
            self._apply(part)

    def _apply(self, part):
        row_start = max(0, self._column - 1) // self.width * self.width
        line = self.lines[self._line]
        if part == "\n":
            self._line += 1
            self.lines += [""] * (self._line + 1 - len(self.lines))
        elif part == "\r":
            self._column = row_start
        elif part == "\x1b[2K":
            row = " " * len(line[row_start : row_start + self.width])
            self.lines[self._line] = line[:row_start] + row + line[row_start + self.width :]
        elif part == "\x1b[J":
            self.lines[self._line :] = [line[: self._column]]
        elif re.match(r"\x1b\[\d*A", part):
            self._move_up(int(part[2:-1] or 1))
        elif not part.startswith("\x1b"):
            end = line[self._column + len(part) :]
            self.lines[self._line] = line[: self._column].ljust(self._column) + part + end
            self._column += len(part)

    def _move_up(self, rows):
        for _ in range(rows):
            if self._column >= self.width:
                self._column -= self.width
            else:
                self._line -= 1
                rows_above = max(0, len(self.lines[self._line].rstrip()) - 1) // self.width
                self._column += rows_above * self.width

    def text(self):
        return [line.rstrip() for line in self.lines if line.strip()]
