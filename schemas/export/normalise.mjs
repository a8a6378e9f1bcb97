// Says what effect wrote in one way, whichever of its releases wrote it.
//
// What has no meaning here becomes a mark in place of a name: it may stand at a place that nobody reads, so that only what is left
// in the end is refused.

/** Where references point to. */
export const DEFS = "#/$defs/";

const MARK = "!";

/** The mark for what cannot be expressed; also a name that effect can be told. */
export function mark(why) {
  return MARK + why;
}

/** The first place below `place` that bears a mark, and why. */
export function marked(schema, place) {
  if (schema === null || typeof schema !== "object") return undefined;
  if (typeof schema.$ref === "string" && schema.$ref.startsWith(DEFS + MARK)) return { place, why: schema.$ref.slice(DEFS.length + MARK.length) };
  for (const [key, inner] of Object.entries(schema)) {
    const found =
      key === "properties"
        ? first(Object.entries(inner), ([name, field]) => marked(field, `${place}.${name}`))
        : marked(inner, key === "items" ? `${place}[]` : place);
    if (found) return found;
  }
  return undefined;
}

function first(items, find) {
  for (const item of items) {
    const found = find(item);
    if (found) return found;
  }
  return undefined;
}

// Text and what only T3 checks.
const DROPPED = new Set(["title", "description", "default", "examples", "format", "pattern", "propertyNames", "readOnly", "writeOnly", "contentEncoding", "contentMediaType", "$comment"]);
const PLAIN = new Set(["type", "enum", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "minItems", "maxItems", "uniqueItems", "required", "minProperties", "maxProperties"]);

/** The schema in the one way; `rename` says what a reference is called. */
export function normalise(schema, rename) {
  if (schema.$ref !== undefined) return { $ref: DEFS + rename(schema.$ref.slice(DEFS.length)) };
  const flat = merge(schema);
  // What is said of a key stands beside a reference, which says all else.
  if (flat.$ref !== undefined && Object.keys(flat).every((key) => key === "$ref" || DROPPED.has(key))) return normalise({ $ref: flat.$ref }, rename);
  const done = {};
  const inner = (value) => normalise(value, rename);
  for (const [key, value] of Object.entries(flat)) {
    if (DROPPED.has(key)) continue;
    if (key === "anyOf" || key === "oneOf") {
      done.anyOf = value.flatMap((arm) => arms(inner(arm)));
    } else if (key === "items" || (key === "additionalProperties" && typeof value === "object")) {
      done[key] = inner(value);
    } else if (key === "patternProperties" && Object.keys(value).length === 1 && !flat.properties) {
      // A record whose keys T3 checks.
      done.additionalProperties = inner(Object.values(value)[0]);
    } else if (key === "prefixItems") {
      done.prefixItems = value.map(inner);
    } else if (key === "properties") {
      done.properties = Object.fromEntries(Object.entries(value).map(([name, field]) => [name, inner(field)]));
    } else if (key === "additionalProperties") {
      done.additionalProperties ??= value;
    } else if (PLAIN.has(key)) {
      done[key] = value;
    } else {
      return { $ref: DEFS + mark(key === "not" ? "is a value that cannot exist" : `has ${key}, which schemas/export/normalise.mjs cannot say`) };
    }
  }
  return bounded(done);
}

// A choice inside of a choice: effect 4.0 nests them where 4.1 does not.
function arms(schema) {
  return schema.anyOf && Object.keys(schema).length === 1 ? schema.anyOf : [schema];
}

// effect 4.0 repeats checks as `allOf`; of two bounds the narrower holds.
function merge(schema) {
  if (!schema.allOf) return schema;
  const { allOf, ...whole } = schema;
  for (const part of allOf.map((inner) => merge(inner))) {
    for (const [key, value] of Object.entries(part)) {
      if (DROPPED.has(key)) continue;
      if (!(key in whole) || same(whole[key], value)) whole[key] = value;
      else if (/^(exclusiveM|m)inimum$|^min/.test(key)) whole[key] = Math.max(whole[key], value);
      else if (/^(exclusiveM|m)aximum$|^max/.test(key)) whole[key] = Math.min(whole[key], value);
      else return { [`two different ${key}`]: [whole[key], value] };
    }
  }
  return whole;
}

function same(one, other) {
  return JSON.stringify(one) === JSON.stringify(other);
}

// effect 4.1 writes the bounds of a safe integer, 4.0 does not.
function bounded(schema) {
  if (schema.type !== "integer") return schema;
  return {
    ...schema,
    ...(schema.exclusiveMinimum === undefined && { minimum: schema.minimum ?? Number.MIN_SAFE_INTEGER }),
    ...(schema.exclusiveMaximum === undefined && { maximum: schema.maximum ?? Number.MAX_SAFE_INTEGER }),
  };
}

/** Every name that a schema refers to, each time that it does. */
export function references(schema) {
  if (schema === null || typeof schema !== "object") return [];
  const own = typeof schema.$ref === "string" ? [schema.$ref.slice(DEFS.length)] : [];
  return [...own, ...Object.values(schema).flatMap(references)];
}
