// One form of a type that was met in several: below a default effect forgets the names inside, which makes it a double.

import { Refused } from "./error.mjs";
import { DEFS, references } from "./normalise.mjs";

/** The form that says most, if all say the same; `all` has the forms of every name. */
export function fold(name, forms, all) {
  const [best, ...others] = forms.map(({ schema }) => schema).sort((a, b) => references(b).length - references(a).length);
  for (const other of others) {
    if (!alike(best, other, all, new Set())) {
      const from = [...new Set(forms.map(({ from }) => from))].join(", ");
      throw new Refused(`${name}: two different types have this name (met in ${from}): give one of them another under names in the profile`);
    }
  }
  return best;
}

// Equal once names are opened.
function alike(one, other, all, open) {
  if (one?.$ref && one.$ref === other?.$ref) return true;
  const pair = JSON.stringify([one, other]);
  // A type that holds itself: what is being compared already is taken as equal.
  if (open.has(pair)) return true;
  open.add(pair);
  if (one?.$ref) return opened(one, all).some((form) => alike(form, other, all, open));
  if (other?.$ref) return opened(other, all).some((form) => alike(one, form, all, open));
  if (one === null || other === null || typeof one !== "object" || typeof other !== "object") return one === other;
  const [keys, others] = [Object.keys(one), Object.keys(other)];
  return (
    Array.isArray(one) === Array.isArray(other) &&
    keys.length === others.length &&
    keys.every((key) => key in other && alike(one[key], other[key], all, open))
  );
}

function opened(schema, all) {
  return all[schema.$ref.slice(DEFS.length)] ?? [];
}
