// Which name a part of a contract gets: that of the export that it is.
//
// effect shows each part as its encoded AST. Conversions are memoised, so the AST that is shown first for an exported schema is the
// same object that is met inside of others; below a default it is another one, that of the schema's encoded side.

const STOP = Symbol("stop");

/** The names of all parts: `ast` → name, for effect's `referencePolicy`. */
export function names({ Schema, exports }, profile) {
  const byAst = new Map();
  const own = (name) => nameOf(profile, name);
  const sorted = [...exports.keys()].sort((a, b) => rank(profile, a) - rank(profile, b) || (a < b ? -1 : 1));
  const unions = [];
  for (const name of sorted) {
    const { schema: meant, all } = exports.get(name);
    for (const schema of new Set([meant, ...all])) {
      for (const side of sides(Schema, schema)) {
        const ast = side && shown(Schema, side);
        if (!ast || !lendsName(ast, side, own(name), profile)) continue;
        if (!byAst.has(ast)) byAst.set(ast, own(name));
        if (ast._tag === "Union") unions.push([own(name), schema.ast, ast]);
      }
    }
  }
  for (const [name, written, ast] of unions) nameArms({ Schema, byAst, profile }, name, written, ast);
  return byAst;
}

// An optional key makes a copy of its schema; effect 4.0 then encodes the copy, 4.1 what was copied.
function sides(Schema, schema) {
  const optional = attempt(() => Schema.optionalKey(schema));
  return [schema, optional].flatMap((side) => [side, side && attempt(() => Schema.toEncoded(side))]);
}

/** What an export is called. */
export function nameOf(profile, name) {
  if (name in profile.names) return profile.names[name];
  const short = cut(name, profile.prefix);
  // An export that the profile calls so has the short name.
  return Object.values(profile.names).includes(short) ? name : short;
}

/** The name that an annotation gives: of a brand, or of an error class. */
export function annotated(identifier, prefix) {
  return identifier && cut(identifier.replace(/Encoded$/, ""), prefix);
}

function cut(name, prefix) {
  return prefix && name.startsWith(prefix) && name.length > prefix.length ? name.slice(prefix.length) : name;
}

// Exports that the profile names come before those that only happen to be equal.
function rank(profile, name) {
  return name in profile.names ? 0 : 1;
}

/** The encoded AST that effect shows first for a schema. */
export function shown(Schema, schema) {
  let first;
  try {
    Schema.toRepresentation(Schema.toCodecJson(schema), {
      referencePolicy: ({ ast }) => {
        first = ast;
        throw STOP;
      },
    });
  } catch (error) {
    // What cannot be converted has no name; whether it is needed shows later.
    if (error !== STOP) return undefined;
  }
  return first;
}

// Strings, numbers and lists are equal by accident: all ids share one AST.
function lendsName(ast, side, name, profile) {
  if (ast._tag !== "Objects" && ast._tag !== "Union" && ast._tag !== "Suspend") return false;
  const scalar = ast._tag === "Union" && side.ast._tag !== "Union" && bottom(side.ast)._tag === "Number";
  return !scalar || profile.scalars.includes(name);
}

function bottom(ast) {
  while (ast.encoding?.length) ast = ast.encoding.at(-1).to;
  return ast;
}

// The members of a union that have no name get one of the union's name and their tag.
function nameArms({ Schema, byAst, profile }, union, written, ast) {
  // What is written otherwise than it travels is no union of these members.
  if (written._tag !== "Union" || written.encoding?.length) return;
  const arms = ast.types.map((arm, at) => ({ met: bottom(arm), as: written.types[at] })).filter(({ as }) => !decodeOnly(as));
  const tag = findTag(arms);
  if (!tag) return;
  for (const { met, as } of arms) {
    if (byAst.has(met) || met._tag !== "Objects" || rewords(as, tag)) continue;
    const words = wordsOf(met, tag);
    if (words) byAst.set(met, union + armName(profile.arms[union] ?? {}, union, words));
  }
}

// A member that is written as a transformation is there to read what older servers wrote; a class has a name of its own.
function decodeOnly(ast) {
  return (ast?.encoding?.length ?? 0) > 0;
}

// A member whose tag is decoded as another word: the union has that one too.
function rewords(ast, tag) {
  return (ast?.propertySignatures ?? []).some(({ name, type }) => name === tag && type.encoding?.length > 0);
}

function findTag(arms) {
  const objects = arms.map(({ met }) => met).filter((ast) => ast._tag === "Objects");
  if (objects.length === 0) return undefined;
  // effect's own `_tag` stands on classes and tagged structs, which have names where they matter.
  const shared = objects[0].propertySignatures.map(({ name }) => name).filter((name) => typeof name === "string" && name !== "_tag");
  const preferred = ["type", "kind"].filter((name) => shared.includes(name));
  return [...new Set([...preferred, ...shared])].find((name) => {
    const words = objects.map((ast) => wordsOf(ast, name));
    return words.every(Boolean) && new Set(words.flat()).size === words.flat().length;
  });
}

function wordsOf(ast, name) {
  const field = ast.propertySignatures.find((field) => field.name === name);
  const type = field && bottom(field.type);
  const literals = type?._tag === "Union" ? type.types.map(bottom) : [type];
  if (!literals.every((literal) => literal?._tag === "Literal" && typeof literal.literal === "string")) return undefined;
  return literals.map(({ literal }) => literal);
}

const MOST_WORDS = 3;

function armName(given, union, words) {
  const named = words.map((word) => given[word]).find(Boolean);
  if (named) return named;
  const pascal = words.map((word) =>
    word.split(/[^A-Za-z0-9]+/).filter(Boolean).map((part) => part[0].toUpperCase() + part.slice(1)).join(""),
  );
  // Too many to say: the first, and that there are more. `arms` of the profile gives a better one.
  return words.length > MOST_WORDS ? `${pascal[0]}AndOthers` : pascal.join("Or");
}

function attempt(make) {
  try {
    return make();
  } catch {
    return undefined;
  }
}
