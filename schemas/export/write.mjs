// Writes a contract and where it comes from: both, or neither.

import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import fs from "node:fs";
import path from "node:path";

import { references } from "./normalise.mjs";
import { Refused } from "./error.mjs";

/** The contract as text: what is hashed and written. */
export function text(document) {
  return JSON.stringify(document, null, 1);
}

/** `provenance.toml`. Its dates are the checkout's, so that a second run writes the same; `notes` say what it lacks. */
export function provenance(checkout, profile, loaded, document) {
  const sha256 = createHash("sha256").update(text(document)).digest("hex");
  const { commit, date, notes } = commits(checkout);
  const facts = [
    ["source", "T3 Code, packages/contracts"],
    ["version", version(checkout)],
    ["commit", commit],
    ["date", date],
    ["protocol", profile.protocol],
    ["file", "contract.json"],
    ["sha256", sha256],
  ];
  const lines = [
    "# Where contract.json comes from: exported from T3's contracts, never edited by hand. A test checks hash and roots.",
    ...facts.filter(([, value]) => value !== undefined).map(([key, value]) => `${key} = ${JSON.stringify(value)}`),
  ];
  if (loaded.failed.length) {
    lines.push("# Modules that could not be loaded: their types have no names here.", list("left_out", loaded.failed.map(({ module }) => module)));
  }
  lines.push("# Types that nothing else in the contract refers to: what was exported; the rest came along.", list("roots", unreferred(document)));
  return { sha256, text: `${lines.join("\n")}\n`, notes };
}

function unreferred(document) {
  const entries = Object.entries(document.$defs);
  const inner = new Set(entries.flatMap(([name, schema]) => references(schema).filter((other) => other !== name)));
  return entries.map(([name]) => name).filter((name) => !inner.has(name));
}

const WIDTH = 116;

function list(key, items) {
  const lines = [];
  for (const item of items.map((item) => `${JSON.stringify(item)},`)) {
    const last = lines.at(-1);
    if (last !== undefined && last.length + 1 + item.length <= WIDTH) lines[lines.length - 1] = `${last} ${item}`;
    else lines.push(`    ${item}`);
  }
  return [`${key} = [`, ...lines, "]"].join("\n");
}

// T3's release number stands with its server; the contracts carry it too.
function version(checkout) {
  for (const directory of ["apps/server", "packages/contracts", "."]) {
    try {
      const { version } = JSON.parse(fs.readFileSync(path.join(checkout, directory, "package.json"), "utf8"));
      if (version && version !== "0.0.0") return version;
    } catch {
      continue;
    }
  }
  return undefined;
}

// Only a checkout's own commit, not that of a repository around it; an archive has none. Contracts that were changed since are not the commit's.
function commits(checkout) {
  if (!fs.existsSync(path.join(checkout, ".git"))) return { notes: ["no commit is written: the checkout has no .git"] };
  // Nothing is written, not even git's index; a checkout may be another user's, as a folder that is mounted.
  const careful = ["--no-optional-locks", "-c", "safe.directory=*", "-C", checkout];
  const git = (...args) => execFileSync("git", [...careful, ...args], { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] }).trim();
  try {
    const [commit, date] = git("log", "-1", "--no-show-signature", "--format=%H %cs").split(" ");
    if (!git("status", "--porcelain", "--", "packages/contracts/package.json", "packages/contracts/src")) return { commit, date, notes: [] };
    return { commit: `${commit}-dirty`, date, notes: ["packages/contracts is not as committed: the commit is written with -dirty"] };
  } catch (error) {
    const why = String(error.stderr || error.message).trim().split("\n")[0];
    return { notes: [`no commit is written: ${why}`] };
  }
}

/** Writes both files beside the old ones first, then puts them in their place. */
export function write(out, document, provenance) {
  const files = [
    ["contract.json", text(document)],
    ["provenance.toml", provenance],
  ];
  const beside = (name) => path.join(out, `${name}.${process.pid}.new`);
  try {
    fs.mkdirSync(out, { recursive: true });
    for (const name of leftovers(out)) fs.rmSync(path.join(out, name), { force: true });
    try {
      for (const [name, content] of files) fs.writeFileSync(beside(name), content);
      for (const [name] of files) fs.renameSync(beside(name), path.join(out, name));
    } finally {
      for (const [name] of files) fs.rmSync(beside(name), { force: true });
    }
  } catch (error) {
    throw new Refused(`${out}: ${error.message}`);
  }
}

// Of runs that were stopped; one that is under way keeps its own.
function leftovers(out) {
  return fs.readdirSync(out).filter((name) => {
    const pid = /^(?:contract\.json|provenance\.toml)\.(\d+)\.new$/.exec(name)?.[1];
    return pid !== undefined && !runs(Number(pid));
  });
}

function runs(pid) {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return error.code === "EPERM";
  }
}
