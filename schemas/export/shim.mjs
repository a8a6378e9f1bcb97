// What stands between the contracts and effect: brands and times that leave a name, and names of effect's betas.

/** What the URL of a shimmed module ends in. */
export const SHIM = "?shim";

// Where effect's modules were before its release, and where they are.
const MODULES = [
  ["effect/unstable/httpapi", "effect/http-api"],
  ["effect/unstable", "effect"],
];

// What they called things, and what they call them, by module.
const MEMBERS = {
  Schema: [
    ["TaggedErrorClass", "TaggedError"],
    ["ErrorClass", "Error"],
    ["isStartsWith", "isStartingWith"],
    ["isEndsWith", "isEndingWith"],
    ["isIncludes", "isIncluding"],
    ["isLengthBetween", "isBetweenLength"],
    ["isSizeBetween", "isBetweenSize"],
    ["isPropertiesLengthBetween", "isBetweenProperties"],
  ],
  SchemaTransformation: [
    ["make", "makeTransformation"],
    ["transformOrFail", "transformEffect"],
    ["transformOptionalOrFail", "transformOptionalEffect"],
  ],
  SchemaGetter: [
    ["transformOrFail", "transformEffect"],
    ["transformOptionalOrFail", "transformOptionalEffect"],
  ],
};

/** The names under which a module of effect may be found, the given one first. */
export function renamed(specifier) {
  const others = MODULES.flatMap(([old, now]) => [
    [old, now],
    [now, old],
  ]);
  return [specifier, ...others.filter(([from]) => `${specifier}/`.startsWith(`${from}/`)).map(([from, to]) => to + specifier.slice(from.length))];
}

/** The text of the module that stands before the one at `url`. */
export function shim(url) {
  const name = /\/(\w+)\.js$/.exec(url)?.[1];
  // What the barrel exports by name has to be shimmed as well.
  if (name === "index") {
    const modules = Object.keys(MEMBERS).map((module) => `export * as ${module} from ${JSON.stringify(url.replace(/index\.js$/, `${module}.js`) + SHIM)};`);
    return [`export * from ${JSON.stringify(url)};`, ...(url.endsWith("/dist/index.js") ? modules : [])].join("\n");
  }
  const lines = [`import * as real from ${JSON.stringify(url)};`, `export * from ${JSON.stringify(url)};`];
  for (const [old, now] of MEMBERS[name] ?? []) {
    lines.push(`const ${old}_ = real.${old} ?? real.${now}; export { ${old}_ as ${old} };`);
    lines.push(`const ${now}_ = real.${now} ?? real.${old}; export { ${now}_ as ${now} };`);
  }
  if (name === "Schema") {
    lines.push("export const brand = (id) => (schema) => real.brand(id)(schema).annotate({ identifier: id });");
    lines.push('export const DateTimeUtc = real.DateTimeUtc.annotate({ identifier: "DateTimeUtc" });');
  }
  return lines.join("\n");
}
