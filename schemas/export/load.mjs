// Loads the modules of a checkout's contracts, with one effect for all of them and the shim of `shim.mjs` before its modules.

import fs from "node:fs";
import module, { createRequire } from "node:module";
import path from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

import { Refused } from "./error.mjs";
import { SHIM, renamed, shim } from "./shim.mjs";

const NODE = [22, 18];

/** Every schema that the contracts export, by name (`all` of them where several modules have it), and the effect that they were made with. */
export async function load(checkout, here) {
  const [major, minor] = process.versions.node.split(".").map(Number);
  if (major < NODE[0] || (major === NODE[0] && minor < NODE[1])) {
    throw new Refused(`Node ${process.versions.node} does not strip types: use ${NODE.join(".")} or newer`);
  }
  const root = path.join(checkout, "packages/contracts");
  const source = path.join(root, "src");
  if (!fs.existsSync(source)) throw new Refused(`${source} does not exist: name the root of a T3 checkout`);
  const effect = await chooseEffect(root, here);
  // Node calls modules by their real paths.
  hook(effect, pathToFileURL(fs.realpathSync(source) + path.sep).href);
  const Schema = await import("effect/Schema");
  const loaded = { source, effect, Schema, exports: new Map(), failed: [] };
  const modules = fs.readdirSync(source).filter((file) => /\.[mc]?ts$/.test(file) && !/\.(test|spec|d)\.[mc]?ts$/.test(file));
  // Modules that import each other are evaluated in the order that T3 does it in; who fails, and why, shows below.
  for (const file of modules.filter(isIndex)) await import(href(loaded, file)).catch(() => undefined);
  // The index last: it exports again what the others do.
  for (const file of modules.sort((a, b) => isIndex(a) - isIndex(b) || (a < b ? -1 : 1))) await collect(loaded, file);
  return loaded;
}

function isIndex(file) {
  return file.startsWith("index.") ? 1 : 0;
}

function href({ source }, file) {
  return pathToFileURL(path.join(source, file)).href;
}

async function collect(loaded, file) {
  let namespace;
  try {
    namespace = await import(href(loaded, file));
  } catch (error) {
    loaded.failed.push({ module: file, why: String(error?.message ?? error).split("\n")[0] });
    return;
  }
  for (const [name, schema] of Object.entries(namespace)) {
    if (!loaded.Schema.isSchema(schema)) continue;
    const known = loaded.exports.get(name);
    if (!known) loaded.exports.set(name, { schema, module: file, all: [schema] });
    // Of several by one name the one is meant that the index has: it has none where two of its modules disagree.
    else if (isIndex(file)) loaded.exports.set(name, { ...known, schema, twice: undefined });
    else if (!known.all.includes(schema)) loaded.exports.set(name, { ...known, all: [...known.all, schema], twice: `${known.module} and ${file}` });
  }
}

/** The effect of the checkout if it can name types, else the one beside the exporter. */
async function chooseEffect(root, here) {
  const tried = [];
  for (const base of [root, here]) {
    let file;
    try {
      file = createRequire(path.join(base, "package.json")).resolve("effect/package.json");
    } catch {
      tried.push(`${base}: effect is not installed`);
      continue;
    }
    const directory = path.dirname(file);
    const { version } = JSON.parse(fs.readFileSync(file, "utf8"));
    const lacks = await unfit(directory);
    if (!lacks) return { directory, version };
    tried.push(`${directory}: effect ${version} ${lacks}`);
  }
  throw new Refused(`no effect to export with (npm ci --prefix ${here} installs one):\n  ${tried.join("\n  ")}`);
}

// Asked, not guessed from the version: the betas cannot name types, some release candidates describe them in ways of their own.
async function unfit(directory) {
  let asked = false;
  try {
    const Schema = await import(resolveIn(directory, "effect/Schema"));
    const filled = Schema.makeFilter(() => true, { toJsonSchema: () => [{ minLength: 1 }, true] });
    const sample = Schema.Struct({ text: Schema.String.check(filled) });
    const { schema } = Schema.toJsonSchemaDocument(sample, { referencePolicy: () => void (asked = true) });
    if (!asked) return "cannot name types";
    return schema.additionalProperties === true && schema.properties.text.minLength === 1 ? undefined : "describes types otherwise than its releases do";
  } catch (error) {
    return `cannot name types: ${String(error?.message ?? error).split("\n")[0]}`;
  }
}

// The hook is asked for `require.resolve` as well.
let resolving = false;

function resolveIn(directory, specifier) {
  resolving = true;
  try {
    const file = createRequire(path.join(directory, "package.json")).resolve(specifier);
    if (!fs.existsSync(file)) throw new Error(`${specifier} does not exist`);
    return pathToFileURL(file).href;
  } finally {
    resolving = false;
  }
}

function hook(effect, source) {
  module.registerHooks({
    resolve(specifier, context, next) {
      if (resolving) return next(specifier, context);
      if (specifier === "effect" || specifier.startsWith("effect/")) {
        const url = first(renamed(specifier), (name) => resolveIn(effect.directory, name));
        if (url) return { url: context.parentURL?.includes(SHIM) ? url : url + SHIM, shortCircuit: true };
      }
      const file = context.parentURL?.startsWith(source) && specifier.startsWith(".") && meant(specifier, context.parentURL);
      return next(file ? pathToFileURL(file).href : specifier, context);
    },
    load(url, context, next) {
      if (!url.endsWith(SHIM)) return next(url, context);
      return { format: "module", source: shim(url.slice(0, -SHIM.length)), shortCircuit: true };
    },
  });
}

// The file that one module means by another's name: without its ending, with that of what it is built to, or a folder's.
function meant(specifier, parent) {
  const file = fileURLToPath(new URL(specifier, parent));
  const names = [file, `${file}.ts`, file.replace(/\.([mc]?)jsx?$/, ".$1ts"), path.join(file, "index.ts")];
  return names.find((name) => fs.statSync(name, { throwIfNoEntry: false })?.isFile());
}

function first(candidates, attempt) {
  for (const candidate of candidates) {
    try {
      return attempt(candidate);
    } catch {
      continue;
    }
  }
  return undefined;
}
