#!/usr/bin/env bash
# Prints a Python that can make virtual environments and that Paddle has wheels for.
# The system's own is preferred: containers see it wherever the user's files are.
set -euo pipefail

for python in /usr/bin/python3 python3 python3.1{3,2,1,0}; do
    if "$python" -c '
import ensurepip, sys, venv
sys.exit(not (3, 10) <= sys.version_info < (3, 14))' 2>/dev/null; then
        command -v "$python"
        exit
    fi
done
exit 1
