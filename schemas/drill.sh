#!/usr/bin/env bash
# The drill of an upgrade, with the compiler: an older state of T3's contract, the one that is kept, and one made up. It checks the crate
# twice, which takes two minutes of one core (`schema check` says the same without a compiler). Works in a copy, of what is committed.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
older=${1:-tests/fixtures/protocol-2-older.json}
older=$(realpath "$older")
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}
copy=$(mktemp -d)
# Cargo takes what the copy built for this folder's own, if that is the newer.
trap 'rm -rf "$copy"; touch "$root/build.rs" "$root/src/lib.rs"' EXIT
git archive HEAD | tar -x -C "$copy"
cd "$copy"
contract=schemas/t3/protocol-2/contract.json
newest=$copy/newest.json
cp "$contract" "$newest"

# The build's own words, without cargo's around them.
build() { cargo check --locked --lib --quiet 2>build.log && echo "it compiles" || { sed -n 's/^  *\(schemas\/\|error\)/  \1/p' build.log | head -60; return 1; }; }
# It stops, with so many lines where a number is given.
stops() {
    if build >said.log; then cat said.log; echo "it should have stopped"; exit 1; fi
    cat said.log
    local lines
    lines=$(grep -c '^  schemas/' said.log || true)
    [ "$lines" = "${1:-$lines}" ] || { echo "it says $lines things, and $1 were changed"; exit 1; }
}

echo "== the older state, with the tables of the newest: each line says what to take out"
python3 -c 'import json, sys; json.dump(json.load(open(sys.argv[1])), open(sys.argv[2], "w"), indent=1, sort_keys=True)' "$older" "$contract"
stops
echo "== the newest state"
cp "$newest" "$contract"
build
echo "== a made-up state: a status, a request kind, a command by another name, a field that is required"
python3 - "$newest" "$contract" <<'PY'
import json, sys
text = open(sys.argv[1]).read().replace('"run.interrupt"', '"run.stop"').replace("CommandRunInterrupt", "CommandRunStop")
contract = json.loads(text)
defs = contract["$defs"]
defs["RunStatus"]["enum"].append("paused")
defs["ProviderRequestKind"]["enum"].append("browser")
defs["CommandMessageDispatch"]["properties"]["priority"] = {"type": "string"}
defs["CommandMessageDispatch"]["required"].append("priority")
json.dump(contract, open(sys.argv[2], "w"), indent=1, sort_keys=True)
PY
stops 4
echo "== the same, once each line is answered"
sed -i 's/^preparing = "starting"$/&\npaused = "running"/; s/^mcp-elicitation = "approval"$/&\nbrowser = "approval"/' schemas/lifecycle.toml
sed -i 's/"run.interrupt"/"run.stop"/; s/^CommandRunInterrupt = /CommandRunStop = /; s/^CommandMessageDispatch = \[/&"priority",/' schemas/selection.toml
sed -i 's/sent::Command::RunInterrupt(sent::CommandRunInterrupt/sent::Command::RunStop(sent::CommandRunStop/; s/^\( *\)message_id: message.message.clone(),$/&\n\1priority: String::new(),/' src/machine/dialect/v2/commands.rs
build
