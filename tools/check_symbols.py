#!/usr/bin/env python3
"""Checks that no library below cli/ can end the process or print by itself.

    tools/check_symbols.py LIBRARY.a ...

Looks at the symbols that the objects of each static library leave undefined. std::terminate and what the
compiler itself calls are fine. Exit status 1 with one line for every finding.
"""

import subprocess
import sys

ENDS_THE_PROCESS = {"abort", "exit", "_exit", "_Exit", "quick_exit", "raise", "__assert_fail", "__assert",
                    "_ZSt21__glibcxx_assert_failPKciS0_S0_"}
PRINTS = {"printf", "vprintf", "puts", "putchar", "__printf_chk", "__vprintf_chk", "perror",
          "stdout", "stderr", "_ZSt4cout", "_ZSt4cerr", "_ZSt4clog"}


def findings(library):
    """(object, symbol) for every forbidden undefined symbol."""
    output = subprocess.run(["nm", "--undefined-only", library], check=True, capture_output=True, text=True).stdout
    current = library
    for line in output.splitlines():
        if line.endswith(":"):
            current = line[:-1]
        words = line.split()
        if len(words) == 2 and words[1].split("@")[0] in ENDS_THE_PROCESS | PRINTS:
            yield current, words[1]


def main():
    if len(sys.argv) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    count = 0
    for library in sys.argv[1:]:
        for name, symbol in findings(library):
            count += 1
            print(f"{library}: {name} uses {symbol}: throw grille::Error, or report through Progress",
                  file=sys.stderr)
    if count == 0:
        print(f"symbols: {len(sys.argv) - 1} libraries neither end the process nor print")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
