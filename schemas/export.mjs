// Exports the contracts of a T3 checkout as JSON Schema: node schemas/export.mjs <T3 checkout> [--out DIR] [--profile FILE]
//
// Writes contract.json and provenance.toml into schemas/t3/protocol-N, N being what the checkout speaks. What is exported is said by
// schemas/profiles/protocol-N.json. Nothing is written unless all of it could be.

import path from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

import { contract } from "./export/contract.mjs";
import { Refused } from "./export/error.mjs";
import { load } from "./export/load.mjs";
import { choose } from "./export/profile.mjs";
import { provenance, write } from "./export/write.mjs";

const here = path.dirname(fileURLToPath(import.meta.url));
const usage = "usage: node schemas/export.mjs <T3 checkout> [--out DIR] [--profile FILE]";

async function main() {
  const { checkout, options } = read(process.argv.slice(2));
  const loaded = await load(checkout, here);
  const profile = await choose(loaded, options.profile ? [options.profile] : profiles());
  const document = contract(loaded, profile);
  const out = options.out ?? path.join(here, "t3", `protocol-${profile.protocol}`);
  const origin = provenance(checkout, profile, loaded, document);
  write(out, document, origin.text);
  for (const { module, why } of loaded.failed) console.error(`note: ${module} was left out: ${why}`);
  for (const note of origin.notes) console.error(`note: ${note}`);
  console.log(`${out}: protocol ${profile.protocol}, ${Object.keys(document.$defs).length} types, sha256 ${origin.sha256}`);
}

function read(argv) {
  try {
    const { values, positionals } = parseArgs({
      args: argv,
      allowPositionals: true,
      options: { out: { type: "string" }, profile: { type: "string" } },
    });
    if (positionals.length !== 1) throw new Refused(usage);
    return { checkout: path.resolve(positionals[0]), options: values };
  } catch (error) {
    throw error instanceof Refused ? error : new Refused(`${error.message}\n${usage}`);
  }
}

// The newest first: a checkout on its way from one protocol to the next has both.
function profiles() {
  return [2, 1].map((protocol) => path.join(here, "profiles", `protocol-${protocol}.json`));
}

try {
  await main();
} catch (error) {
  if (!(error instanceof Refused)) throw error;
  console.error(`export: ${error.message}`);
  process.exitCode = 1;
}
