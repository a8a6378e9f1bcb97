// What to take of a protocol's contracts, and how to call it: one JSON file a protocol.
//
//   protocol  its number
//   sign      an export that only contracts of this protocol have
//   prefix    cut off the names of exports
//   names     names of exports that say it otherwise
//   roots     what is exported, by the names above; what it refers to comes along
//   since     roots that the protocol's first servers lack: exported where they are
//   unions    unions that the contracts do not make themselves
//   elements  what the arrays hold that are encoded as arrays of anything, by place
//   decoded   types whose encoded side is too loose: exported as they are decoded; per field that has several forms, the one to keep
//   opaque    places whose content nobody reads; with [] behind it, the elements of the list there
//   arms      names for the members of unions that have too many words to make one of
//   scalars   scalar exports that lend their name to whatever is equal

import fs from "node:fs";

import { Refused } from "./error.mjs";

const KEYS = ["protocol", "sign", "prefix", "names", "roots", "since", "unions", "elements", "decoded", "opaque", "arms", "scalars"];

/** The first profile whose sign the checkout bears. */
export async function choose(loaded, files) {
  const signs = [];
  for (const file of files) {
    const profile = read(file);
    if (loaded.exports.has(profile.sign)) return profile;
    signs.push(`${profile.sign} (protocol ${profile.protocol})`);
  }
  const failed = loaded.failed.map(({ module, why }) => `\n  ${module} could not be loaded: ${why}`).join("");
  throw new Refused(`${loaded.source} exports none of ${signs.join(", ")}: no protocol that is known here${failed}`);
}

function read(file) {
  let profile;
  try {
    profile = JSON.parse(fs.readFileSync(file, "utf8"));
  } catch (error) {
    throw new Refused(`${file}: ${error.message}`);
  }
  const unknown = Object.keys(profile).find((key) => !KEYS.includes(key));
  if (unknown) throw new Refused(`${file}: ${unknown} is no key of a profile: use one of ${KEYS.join(", ")}`);
  return {
    file,
    prefix: "",
    names: {},
    since: [],
    unions: {},
    elements: {},
    decoded: {},
    opaque: [],
    arms: {},
    scalars: [],
    ...profile,
  };
}
