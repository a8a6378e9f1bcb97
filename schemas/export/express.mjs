// Finds what effect would silently say with less than it means: a class without a codec becomes any JSON.

/** The first place in a schema that has no form in JSON, unless nobody reads it. */
export function unspeakable({ Schema, exports }, nameOf, opaque, root, schema) {
  const named = new Map([...exports].flatMap(([name, { all }]) => all.map(({ ast }) => [ast, nameOf(name)])));
  const seen = new Set();
  return look(Schema.toEncoded(schema).ast, root);

  function look(ast, at) {
    const place = named.get(ast) ?? at;
    if (opaque.includes(place) || seen.has(ast)) return undefined;
    seen.add(ast);
    if (ast._tag === "Declaration" && !ast.annotations?.toCodecJson && saysNothing(ast)) return place;
    const parts = [
      ...(ast.propertySignatures ?? []).map(({ name, type }) => [`${place}.${String(name)}`, type]),
      ...(ast.indexSignatures ?? []).map(({ type }) => [`${place}{}`, type]),
      ...[...(ast.elements ?? []), ...(ast.rest ?? [])].map((type) => [`${place}[]`, type]),
      ...[...(ast.types ?? []), ...(ast.typeParameters ?? [])].map((type) => [place, type]),
      ...(ast._tag === "Suspend" ? [[place, ast.thunk()]] : []),
    ];
    for (const [inner, part] of parts) {
      const found = look(part, inner);
      if (found) return found;
    }
    return undefined;
  }
  function saysNothing(ast) {
    return Object.keys(Schema.toJsonSchemaDocument(Schema.make(ast)).schema).length === 0;
  }
}
