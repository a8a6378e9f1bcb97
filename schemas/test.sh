#!/usr/bin/env bash
# Installs what the exporter needs and runs its tests.
set -euo pipefail
cd "$(dirname "$0")"
node=$(./node.sh)
# The plain installation of what package-lock.json names; npm is Node's own.
npm ci --no-fund --no-audit --silent
"$node" --test --test-reporter=spec export.test.mjs
