// Makes the document: each root converted by effect, with names, then normalised, and what they share put together.

import { Refused } from "./error.mjs";
import { fold } from "./fold.mjs";
import { unspeakable } from "./express.mjs";
import { annotated, nameOf, names } from "./names.mjs";
import { DEFS, mark, marked, normalise, references } from "./normalise.mjs";

/** The contract of what a profile takes. */
export function contract(loaded, profile) {
  const byAst = names(loaded, profile);
  const forms = new Map();
  const add = (name, schema, from) => {
    const known = forms.get(name) ?? [];
    if (!known.some((form) => same(form.schema, schema))) known.push({ schema, from });
    forms.set(name, known);
  };
  const context = { loaded, profile, byAst, add };
  for (const { name, schema } of roots(loaded, profile)) convert(context, name, schema);
  const defs = settle(forms, decoded(context));
  places(profile, defs);
  return { $defs: sorted(reachable(defs, profile)), $schema: "https://json-schema.org/draft/2020-12/schema" };
}

function roots({ Schema, exports, source, failed }, profile) {
  // Of two that are called alike the one with the prefix is meant: the later wins.
  const prefixed = ([name]) => (profile.prefix && name.startsWith(profile.prefix) ? 1 : 0);
  const inOrder = [...exports].sort((a, b) => prefixed(a) - prefixed(b));
  const byName = new Map(inOrder.map(([name, found]) => [nameOf(profile, name), { export: name, ...found }]));
  for (const [name, members] of Object.entries(profile.unions)) {
    const schemas = members.map((member) => need(byName.get(member) ?? exports.get(member), `union ${name}`, member).schema);
    byName.set(name, { schema: Schema.Union(schemas) });
  }
  function need(found, at, name) {
    const lost = failed.map(({ module, why }) => `\n  ${module} could not be loaded: ${why}`).join("");
    if (!found) {
      throw new Refused(
        `${profile.file}: ${at} names ${name}, which no module of ${source} exports: take it out, or give its new name under names${lost}`,
      );
    }
    if (found.twice) throw new Refused(`${name} is exported twice, by ${found.twice}: name the one that is meant under names`);
    return found;
  }
  const wanted = [...profile.roots, ...profile.since.filter((name) => byName.has(name))].map((name) => [name, "roots"]);
  wanted.push(...Object.entries(profile.elements).map(([at, name]) => [name, `elements, at ${at},`]));
  return wanted.map(([name, at]) => ({ name, schema: need(byName.get(name), at, name).schema }));
}

/** One schema with everything that it refers to. */
function convert({ loaded, profile, byAst, add }, root, schema) {
  const place = unspeakable(loaded, (name) => nameOf(profile, name), profile.opaque, root, schema);
  if (place) throw new Refused(`${place}: has no form in JSON: mend the exporter, or make the place opaque in ${profile.file} if nobody reads it`);
  const asked = new Map();
  const referencePolicy = ({ ast, identifier }) => {
    const name = inexpressible(ast) ?? byAst.get(ast) ?? annotated(identifier, profile.prefix);
    if (name) asked.set(name, (asked.get(name) ?? 0) + 1);
    return name;
  };
  let document;
  try {
    document = loaded.Schema.toJsonSchemaDocument(schema, { referencePolicy });
  } catch (error) {
    throw new Refused(`${root}: effect cannot express it as JSON Schema: ${String(error?.message ?? error).split("\n")[0]}`);
  }
  // effect numbers the doubles of a name: X, X_1, X_2.
  const doubled = new Map();
  for (const [name, count] of asked) {
    for (let at = 1; at < count; at++) doubled.set(`${name}_${at}`, name);
  }
  const rename = (name) => doubled.get(name) ?? name;
  for (const [name, definition] of Object.entries(document.definitions)) {
    add(rename(name), normalise(definition, rename), root);
  }
  const whole = normalise(document.schema, rename);
  if (whole.$ref !== DEFS + root) add(root, whole, root);
}

// A list that effect would cut short without a word.
function inexpressible(ast) {
  return ast._tag === "Arrays" && ast.rest.length > 1 ? mark("is a list with elements behind its rest") : undefined;
}

/** The types that are exported as they are decoded. */
function decoded({ loaded, profile, byAst }) {
  const definitions = new Map();
  for (const [name, fields] of Object.entries(profile.decoded)) {
    const found = loaded.exports.get(name) ?? [...loaded.exports].find(([key]) => nameOf(profile, key) === name)?.[1];
    if (!found) throw new Refused(`${profile.file}: decoded names ${name}, which no module of ${loaded.source} exports`);
    const inner = new Map();
    const add = (type, schema) => inner.set(type, schema);
    convert({ loaded, profile, byAst: new Map(byAst), add }, name, loaded.Schema.toType(found.schema));
    for (const [field, kind] of Object.entries(fields)) keepForm(inner.get(name), `${name}.${field}`, field, kind);
    for (const [type, schema] of inner) definitions.set(type, schema);
  }
  return definitions;
}

// Of a field that has several forms only the one that travels.
function keepForm(type, at, field, kind) {
  const arms = type.properties?.[field]?.anyOf;
  if (!arms) return;
  const kept = arms.filter((arm, index) => arm.type === kind && arms.findIndex((other) => same(other, arm)) === index);
  if (kept.length !== 1) throw new Refused(`${at}: has ${kept.length} forms of type ${kind}: mend decoded in the profile`);
  type.properties[field] = kept[0];
}

/** One definition a name. */
function settle(forms, given) {
  const all = Object.fromEntries([...forms].map(([name, list]) => [name, list.map(({ schema }) => schema)]));
  const defs = {};
  for (const [name, list] of forms) {
    defs[name] = fold(name, list, all);
  }
  return { ...defs, ...Object.fromEntries(given) };
}

/** What stands at the places that the profile names: elements, and what nobody reads. */
function places(profile, defs) {
  for (const [place, element] of Object.entries(profile.elements)) {
    at(defs, place, (schema) => {
      if (schema.type === "array" && !schema.items) schema.items = { $ref: DEFS + element };
      return schema;
    });
  }
  for (const place of profile.opaque) {
    at(defs, place, (schema) => {
      if (place.endsWith(ELEMENTS)) return anything(schema);
      const nulls = (schema.anyOf ?? []).filter((arm) => arm.type === "null");
      return nulls.length ? { anyOf: [{}, ...nulls] } : {};
    });
  }
}

// The list, of whatever.
function anything({ items, ...schema }) {
  return schema.anyOf ? { ...schema, anyOf: schema.anyOf.map(anything) } : schema;
}

const ELEMENTS = "[]";

function at(defs, place, change) {
  const [type, field] = place.replace(ELEMENTS, "").split(".");
  const schema = defs[type]?.properties?.[field];
  // Older states of a protocol lack some: what is not there needs nothing.
  if (schema) defs[type].properties[field] = change(schema);
}

function reachable(defs, profile) {
  const found = {};
  const open = [...profile.roots, ...profile.since].filter((name) => defs[name]);
  while (open.length) {
    const name = open.pop();
    if (found[name]) continue;
    if (!defs[name]) throw new Refused(`${name}: is referred to, but has no definition: add it to roots or take it out of elements`);
    const bad = marked(defs[name], name);
    // effect writes references as addresses.
    if (bad) throw new Refused(`${bad.place}: ${decodeURIComponent(bad.why)}: mend the exporter, or make the place opaque in ${profile.file} if nobody reads it`);
    found[name] = defs[name];
    open.push(...references(defs[name]));
  }
  return found;
}

function same(one, other) {
  return JSON.stringify(sorted(one)) === JSON.stringify(sorted(other));
}

/** The value with the keys of all objects in order. */
export function sorted(value) {
  if (Array.isArray(value)) return value.map(sorted);
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.keys(value).sort().map((key) => [key, sorted(value[key])]));
}
