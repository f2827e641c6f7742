#!/usr/bin/env bash
# check_deploy.sh HAYATE: deploy/ with real Prometheus, HAProxy and nginx.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=$(tools/fetch_tools.sh build/tools) || {
    [ $? = 1 ] || exit 1
    echo "skipped: deploy: the packages of Prometheus, HAProxy and nginx cannot be had"
    exit 0
}
python3 -B tests/e2e/test_deploy.py "$1" "$bin"
