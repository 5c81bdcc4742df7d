#!/bin/sh
# Says what this machine lacks to build Tidegate, each with the command that brings it.
# Prints the Python to use on the last line of standard output.
set -u
missing=0
lacks() {
    missing=1
    printf 'missing: %s\n     do: %s\n' "$1" "$2" >&2
}
python=
for candidate in "${PYTHON:-}" python3 python3.14 python3.13 python3.12 python3.11; do
    [ -n "$candidate" ] || continue
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        python=$candidate
        break
    fi
done
if [ -z "$python" ]; then
    lacks 'Python 3.11 or newer' 'sudo apt-get install python3 python3-venv   (or name one: make PYTHON=/path/to/python3)'
elif ! "$python" -c 'import ensurepip' 2>/dev/null; then
    lacks "venv for $python" 'sudo apt-get install python3-venv'
fi
if ! command -v cargo >/dev/null 2>&1; then
    lacks 'a Rust toolchain (stable)' "curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y && . \"\$HOME/.cargo/env\""
else
    found=$(rustc --version 2>/dev/null | cut -d' ' -f2)
    minor=$(printf '%s' "$found" | cut -d. -f2)
    if [ "${minor:-0}" -lt 88 ]; then
        lacks "Rust 1.88 or newer (found ${found:-none})" 'rustup update stable'
    fi
fi
command -v cc >/dev/null 2>&1 || lacks 'a C compiler, which Rust links with' 'sudo apt-get install gcc libc6-dev'
[ "$missing" -eq 0 ] || exit 1
printf '%s\n' "$python"
