// The exporter on small contracts that use every construct that T3's do: what it writes, with either release of effect, and what it refuses.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { after, before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";

const here = path.dirname(fileURLToPath(import.meta.url));
const fixture = path.join(here, "../tests/fixtures/contracts");
const given = JSON.parse(fs.readFileSync(path.join(fixture, "profile.json"), "utf8"));
let room;

before(() => {
  room = fs.mkdtempSync(path.join(os.tmpdir(), "export-"));
});
after(() => fs.rmSync(room, { recursive: true }));

/** A checkout of its own: `effect` is what it has installed, `files` are put over its modules. */
function checkout(effect, files = {}) {
  const root = fs.mkdtempSync(path.join(room, "checkout-"));
  const contracts = path.join(root, "packages/contracts");
  fs.cpSync(path.join(fixture, "packages/contracts"), contracts, { recursive: true });
  for (const [name, text] of Object.entries(files)) fs.writeFileSync(path.join(contracts, "src", name), text);
  if (effect) {
    fs.mkdirSync(path.join(contracts, "node_modules"));
    const target = typeof effect === "string" ? path.join(here, "node_modules", effect) : pretend(root, effect);
    fs.symlinkSync(fs.realpathSync(target), path.join(contracts, "node_modules/effect"));
  }
  return root;
}

// An effect that has nothing of what the exporter needs, or has it in a way of its own.
const CANNOT = "export const toJsonSchemaDocument = () => ({});";
const otherwise = (schema) => `export const toJsonSchemaDocument = (_, { referencePolicy }) => {
  referencePolicy({});
  return { schema: ${JSON.stringify(schema)} };
};`;
const CLOSED = otherwise({ additionalProperties: false, properties: { text: { minLength: 1 } } });
const LISTED = otherwise({ additionalProperties: true, properties: { text: { allOf: [[{ minLength: 1 }, true]] } } });
const BROKEN = 'import "not-installed";';
function pretend(root, { version, says = CANNOT }) {
  const directory = path.join(root, "effect");
  fs.mkdirSync(directory);
  fs.writeFileSync(path.join(directory, "package.json"), JSON.stringify({ name: "effect", version, type: "module", exports: { "./package.json": "./package.json", "./*": "./*.js" } }));
  fs.writeFileSync(path.join(directory, "Schema.js"), `export const Struct = () => ({}); export const makeFilter = Struct; export const String = { check: Struct };\n${says}`);
  return directory;
}

function run(root, { profile = given, out = fs.mkdtempSync(path.join(room, "out-")) } = {}) {
  const file = path.join(room, "profile.json");
  fs.writeFileSync(file, JSON.stringify(profile));
  const done = spawnSync(process.execPath, [path.join(here, "export.mjs"), root, "--profile", file, "--out", out], { encoding: "utf8", timeout: 60_000 });
  return { ...done, out, written: fs.statSync(out, { throwIfNoEntry: false })?.isDirectory() ? fs.readdirSync(out).sort() : [] };
}

function exported(root, options) {
  const done = run(root, options);
  assert.equal(done.status, 0, done.stderr);
  const text = fs.readFileSync(path.join(done.out, "contract.json"), "utf8");
  return { ...done, text, defs: JSON.parse(text).$defs, provenance: fs.readFileSync(path.join(done.out, "provenance.toml"), "utf8") };
}

function refused(root, options, pattern) {
  const done = run(root, options);
  assert.equal(done.status, 1, done.stdout);
  assert.match(done.stderr, pattern);
  assert.doesNotMatch(done.stderr, /\n\s+at /, "no stack");
  return done;
}

const ref = (name) => ({ $ref: `#/$defs/${name}` });
const string = { type: "string" };
const nothing = { type: "null" };

describe("what is written", () => {
  let defs, done;
  before(() => {
    done = exported(checkout("effect"));
    defs = done.defs;
  });

  it("is the same with effect 4.0 and 4.1, from run to run, and with the effect beside the exporter", () => {
    assert.equal(exported(checkout("effect-4.0")).text, done.text);
    assert.equal(exported(checkout("effect")).text, done.text);
    assert.equal(exported(checkout()).text, done.text);
    for (const says of [CANNOT, CLOSED, LISTED, BROKEN]) assert.equal(exported(checkout({ version: "4.0.0-beta.1", says })).text, done.text);
  });

  it("is what stands in the repository", () => {
    const kept = path.join(fixture, "contract.json");
    if (process.env.UPDATE_FIXTURES) fs.writeFileSync(kept, done.text);
    assert.equal(done.text, fs.readFileSync(kept, "utf8"));
  });

  it("has its keys in order, the ways of effect's own order where order means something", () => {
    assert.deepEqual(Object.keys(defs), Object.keys(defs).sort());
    assert.deepEqual(defs.RunStatus.enum, ["queued", "running", "completed"]);
  });

  it("tells ids apart that are equal on the wire", () => {
    assert.deepEqual(defs.ThreadStartCommand.properties.threadId, ref("ThreadId"));
    assert.deepEqual(defs.CommandRunStop.properties.runId, ref("RunId"));
    assert.deepEqual(defs.ThreadId, string);
    assert.deepEqual(defs.Thread.properties.createdAt, ref("DateTimeUtc"));
  });

  it("folds the doubles that stand below a default", () => {
    assert.deepEqual(defs.Thread.properties.lineage, { anyOf: [ref("Lineage"), nothing] });
    assert.deepEqual(defs.Lineage.properties.root, ref("ThreadId"));
    assert.deepEqual(Object.keys(defs).filter((name) => /_\d+$/.test(name)), []);
  });

  it("names what is optional and holds a default", () => {
    assert.deepEqual(defs.Thread.properties.advice, ref("Advice"));
  });

  it("does not mind what is said of a key", () => {
    assert.deepEqual(defs.Thread.properties.spoken, ref("Lineage"));
  });

  it("names the members of a union that only stands below a default", () => {
    assert.deepEqual(defs.Work.anyOf.slice(0, 2), ["WorkAgent", "WorkOther"].map(ref));
    assert.deepEqual(defs.Work.anyOf[2].properties.kind, { anyOf: [string, nothing] });
  });

  it("gives no name to a member that travels under another word than it is read as", () => {
    const [agent, command, ...others] = defs.Source.anyOf;
    assert.deepEqual([agent.properties.work.enum, command.properties.kind.enum], [["agent"], ["shell_command"]]);
    assert.deepEqual(others.slice(0, 2), ["SourceAgent", "SourceOther"].map(ref));
  });

  it("names no member after a type that is written otherwise than it travels", () => {
    const [logo, emoji, unknown] = defs.ReceivedBadge.anyOf;
    assert.deepEqual([logo.properties.kind.enum, emoji, unknown.properties], [["logo"], ref("BadgeEmoji"), { kind: string }]);
    assert.deepEqual(Object.keys(defs).filter((name) => name.startsWith("Stored")), []);
  });

  it("calls a type that has two names by the first, and no type by the name of a check", () => {
    assert.deepEqual(defs.FoundDiff.required, ["from", "to", "threadId", "diff"]);
    assert.deepEqual(defs.DiffInput.required, ["from", "to", "threadId"]);
    assert.deepEqual([defs.ShownDiff, defs.Range], [undefined, undefined]);
  });

  it("means what the index exports, and calls by its name what another module exports too", () => {
    const more = `import * as Schema from "effect/Schema";
      export const ServerConfig = Schema.Struct({ other: Schema.String });
      export const SmallMode = Schema.Literals(["a"]);
      export const SmallItem = Schema.Union([Schema.Struct({ type: Schema.Literal("b") })]);`;
    assert.equal(exported(checkout(undefined, { "legacy.ts": more })).text, done.text);
  });

  it("means the export with the prefix, if there is one without it as well", () => {
    const more = `import * as Schema from "effect/Schema"; export const Snapshot = Schema.Struct({ other: Schema.String });`;
    assert.deepEqual(exported(checkout(undefined, { "zzz.ts": more })).defs.Snapshot, defs.Snapshot);
  });

  it("calls it by the name that the profile gives to one of the two", () => {
    const roots = given.roots.map((name) => (name === "FoundDiff" ? "Shown" : name));
    const { defs } = exported(checkout(), { profile: { ...given, roots, names: { ...given.names, SmallShownDiff: "Shown" } } });
    assert.deepEqual(defs.Shown.required, ["from", "to", "threadId", "diff"]);
    assert.equal(defs.FoundDiff, undefined);
  });

  it("takes forms and errors of HTTP as the objects that they are", () => {
    assert.deepEqual(defs.TokenRequest.properties.scope, string);
    assert.deepEqual(defs.TokenError.properties._tag.enum, ["SmallTokenError"]);
  });

  it("keeps the second null of a field where absent and null differ", () => {
    assert.deepEqual(defs.Thread.properties.branch, { anyOf: [string, nothing, nothing] });
    assert.deepEqual(defs.Thread.properties.note, { anyOf: [string, nothing] });
    assert.deepEqual(defs.Thread.properties.flag, { type: "boolean" });
  });

  it("names the members of unions, and none that only a decoder reads", () => {
    const items = defs.Snapshot.properties.items.items.anyOf;
    assert.deepEqual(items.slice(0, 4), ["ItemUserMessage", "ItemPlanOrTodoList", "ItemError", "ItemChanged"].map(ref));
    assert.deepEqual(items[4].properties, { type: string });
    assert.deepEqual(defs.Task.anyOf[0], ref("TaskCommand"));
    assert.deepEqual(defs.Task.anyOf[1].properties.kind.enum, ["command"]);
    assert.deepEqual(defs.Usage.anyOf, ["UsageComplete", "UsagePartialOrUnavailable"].map(ref));
    assert.equal(defs.Icon.anyOf[0].$ref, undefined);
    assert.deepEqual(defs.Signal.anyOf, ["Ended", "SignalBegun"].map(ref));
    assert.deepEqual(defs.Command.anyOf[0], ref("ThreadStartCommand"));
  });

  it("names a member of too many words by the first and that there are more, unless the profile does", () => {
    const items = exported(checkout(), { profile: { ...given, arms: {} } }).defs.Snapshot.properties.items.items.anyOf;
    assert.deepEqual(items[3], ref("ItemABAndOthers"));
  });

  it("has a type that is decoded from two shapes as it travels", () => {
    const { instanceId, model, options } = defs.ModelSelection.properties;
    assert.deepEqual([instanceId, model.type, options.type], [ref("InstanceId"), "string", "array"]);
    assert.deepEqual(defs.ModelSelection.required, ["instanceId", "model"]);
  });

  it("names the elements of open arrays, which may have holes, and leaves out what nobody reads", () => {
    assert.deepEqual(defs.ServerConfig.properties, {
      history: { anyOf: [{ type: "array" }, nothing] },
      limits: { anyOf: [{}, nothing] },
      plugins: { items: { anyOf: [ref("Provider"), nothing] }, type: "array" },
      providers: { items: ref("Provider"), type: "array" },
      settings: {},
    });
    assert.equal(defs.Settings, undefined);
  });

  it("says numbers, literals, records and recursion in one way", () => {
    const { count, between, above, port, size, seconds, version, only } = defs.Thread.properties;
    assert.deepEqual(count, { maximum: Number.MAX_SAFE_INTEGER, minimum: 0, type: "integer" });
    assert.deepEqual(between, { maximum: 50, minimum: 1, type: "integer" });
    assert.deepEqual(above, { exclusiveMinimum: 0, maximum: Number.MAX_SAFE_INTEGER, type: "integer" });
    assert.deepEqual(port, { exclusiveMaximum: 65536, exclusiveMinimum: 0, type: "integer" });
    assert.deepEqual(size, { maximum: 100, minimum: 1, type: "integer" });
    assert.deepEqual(seconds.anyOf[1].enum, ["Infinity", "-Infinity", "NaN"]);
    assert.deepEqual([version.enum, only.anyOf[0].enum], [[1], ["one"]]);
    assert.deepEqual([defs.Answers, defs.Labels.additionalProperties], [{ type: "object" }, string]);
    assert.deepEqual(defs.Thread.properties.marks, { additionalProperties: count, type: "object" });
    assert.deepEqual(defs.Node.properties.children, { items: ref("Node"), maxItems: 100, type: "array" });
    assert.deepEqual(defs.DispatchError.properties._tag.enum, ["SmallDispatchError"]);
  });

  it("says where it comes from, with the commit's date and not the day's", () => {
    assert.match(done.provenance, /^version = "1\.2\.3"$/m);
    assert.match(done.provenance, /^protocol = 7$/m);
    assert.match(done.provenance, /^sha256 = "[0-9a-f]{64}"$/m);
    assert.match(done.provenance, /^ {4}"Command", "DiffInput", "FoundDiff", "RpcError", "ServerConfig", "Snapshot", "TokenError", "TokenRequest",$/m);
    assert.doesNotMatch(done.provenance, /^(commit|date)/m);
    assert.match(done.stderr, /note: no commit is written: the checkout has no \.git/);
    const root = checkout("effect");
    const env = { ...process.env, GIT_COMMITTER_DATE: "2026-02-03T04:05:06Z" };
    const git = (...args) => assert.equal(spawnSync("git", ["-C", root, "-c", "user.name=a", "-c", "user.email=a@b", ...args], { env }).status, 0);
    git("init", "--quiet");
    git("add", "packages/contracts/package.json", "packages/contracts/src");
    git("commit", "--quiet", "-m", "one");
    const { provenance } = exported(root);
    assert.match(provenance, /^date = "2026-02-03"$/m);
    assert.match(provenance, /^commit = "[0-9a-f]{40}"$/m);
    // A clone without history has the commit as well.
    const shallow = path.join(room, "shallow");
    assert.equal(spawnSync("git", ["clone", "--quiet", "--depth", "1", `file://${root}`, shallow]).status, 0);
    fs.cpSync(path.join(root, "packages"), path.join(shallow, "packages"), { recursive: true });
    assert.equal(exported(shallow).provenance, provenance);
    // Changed, or with a module that no commit has; which git is not told to remember.
    const index = () => fs.readFileSync(path.join(root, ".git/index"));
    const before = index();
    const module = path.join(root, "packages/contracts/src/uncommitted.ts");
    fs.writeFileSync(module, "export {};");
    fs.utimesSync(path.join(root, "packages/contracts/src/base.ts"), new Date(), new Date());
    const changed = exported(root);
    assert.match(changed.provenance, /^commit = "[0-9a-f]{40}-dirty"$/m);
    assert.match(changed.stderr, /note: packages\/contracts is not as committed/);
    fs.rmSync(module);
    fs.appendFileSync(path.join(root, "packages/contracts/package.json"), "\n");
    assert.match(exported(root).provenance, /^commit = "[0-9a-f]{40}-dirty"$/m);
    assert.deepEqual(index(), before);
    fs.rmSync(path.join(root, ".git/HEAD"));
    assert.match(exported(root).stderr, /note: no commit is written: .*not a git repository/);
  });

  it("says the server's version, or that of the contracts where the server has none", () => {
    const root = checkout();
    fs.mkdirSync(path.join(root, "apps/server"), { recursive: true });
    for (const [version, said] of [["0.0.0", "1.2.3"], ["2.0.0", "2.0.0"]]) {
      fs.writeFileSync(path.join(root, "apps/server/package.json"), JSON.stringify({ version }));
      assert.match(exported(root).provenance, new RegExp(`^version = "${said}"$`, "m"));
    }
  });

  it("is found with each package manager's way to install", () => {
    for (const [store, link] of [
      ["node_modules/.pnpm/effect@4.1.0_abc/node_modules", "packages/contracts/node_modules"],
      ["node_modules/.bun/effect@4.1.0/node_modules", "packages/contracts/node_modules"],
      ["node_modules", undefined],
    ]) {
      const root = checkout();
      fs.mkdirSync(path.join(root, store), { recursive: true });
      fs.cpSync(fs.realpathSync(path.join(here, "node_modules/effect-4.0")), path.join(root, store, "effect"), { recursive: true });
      fs.appendFileSync(path.join(root, store, "effect/dist/Schema.js"), '\nconsole.error("the effect of the checkout");\n');
      if (link) {
        fs.mkdirSync(path.join(root, link), { recursive: true });
        fs.symlinkSync(path.join(root, store, "effect"), path.join(root, link, "effect"));
      }
      const own = exported(root);
      assert.equal(own.text, done.text, store);
      assert.match(own.stderr, /the effect of the checkout/, store);
    }
  });

  it("does not depend on how lines end", () => {
    const source = path.join(fixture, "packages/contracts/src");
    const modules = fs.readdirSync(source, { recursive: true }).filter((name) => name.endsWith(".ts"));
    const files = modules.map((name) => [name, fs.readFileSync(path.join(source, name), "utf8").replaceAll("\n", "\r\n")]);
    assert.equal(exported(checkout(undefined, Object.fromEntries(files))).text, done.text);
  });

  it("replaces what a run that was stopped left behind", () => {
    const out = fs.mkdtempSync(path.join(room, "out-"));
    const gone = spawnSync(process.execPath, ["--version"]).pid;
    for (const name of ["contract.json", "provenance.toml"]) fs.writeFileSync(path.join(out, `${name}.${gone}.new`), "{");
    const under = `contract.json.${process.pid}.new`;
    fs.writeFileSync(path.join(out, under), "{");
    assert.deepEqual(exported(checkout(), { out }).written, ["contract.json", under, "provenance.toml"]);
  });

  it("is written into a folder that has to be made, from a path with spaces that is relative and a link", () => {
    const root = path.join(room, "a checkout #1%20");
    fs.symlinkSync(checkout(), root);
    const out = path.join(room, "made/of two");
    const file = path.join(room, "profile.json");
    fs.writeFileSync(file, JSON.stringify(given));
    const args = [path.join(here, "export.mjs"), `./${path.basename(root)}/`, "--profile", "profile.json", "--out", "made/of two"];
    const { status, stderr } = spawnSync(process.execPath, args, { cwd: room, encoding: "utf8", timeout: 60_000 });
    assert.equal(status, 0, stderr);
    assert.equal(fs.readFileSync(path.join(out, "contract.json"), "utf8"), done.text);
  });

  it("does not mind modules that import each other, if the index has them in an order that works", () => {
    const index = fs.readFileSync(path.join(fixture, "packages/contracts/src/index.ts"), "utf8");
    const schema = 'import * as Schema from "effect/Schema";';
    const files = {
      "early.ts": `${schema} import { Late } from "./late.ts"; export const Early = Schema.Struct({ at: Schema.String }); export const late = () => Late;`,
      "late.ts": `${schema} import { Early } from "./early.ts"; export const Late = Schema.Struct({ early: Early });`,
      "index.ts": `export * from "./late.ts";\nexport * from "./early.ts";\n${index}`,
    };
    const { stderr, defs } = exported(checkout(undefined, files), { profile: { ...given, roots: [...given.roots, "Late"] } });
    assert.doesNotMatch(stderr, /left out/);
    assert.deepEqual(defs.Late.properties, { early: ref("Early") });
  });

  it("lends the name of a scalar only where the profile says so", () => {
    const profile = { ...given, scalars: ["DelayDays"] };
    assert.deepEqual(exported(checkout(), { profile }).defs.Thread.properties.seconds, ref("DelayDays"));
    assert.equal(defs.DelayDays, undefined);
  });
});

describe("what is refused leaves what was written before", () => {
  const kept = (change) => {
    const { out, text } = exported(checkout());
    const done = change(out);
    assert.deepEqual(done.written, ["contract.json", "provenance.toml"]);
    assert.equal(fs.readFileSync(path.join(out, "contract.json"), "utf8"), text);
  };

  it("a root that is gone", () => {
    const profile = { ...given, roots: [...given.roots, "Gone"] };
    kept((out) => refused(checkout(), { profile, out }, /roots names Gone, which no module of .*src exports/));
  });

  it("a root whose module cannot be loaded, with the reason", () => {
    const root = checkout(undefined, { "rpc.ts": 'import "nowhere";\nexport const ClientCommand = 1;' });
    refused(root, {}, /exports none of ClientCommand[^]*rpc\.ts could not be loaded: .*nowhere/);
  });

  it("a module that is not needed is left out, and the provenance says so", () => {
    const { stderr, provenance } = exported(checkout(undefined, { "extra.ts": 'throw new Error("no");' }));
    assert.match(stderr, /note: extra\.ts was left out: no/);
    assert.match(provenance, /^left_out = \[\n {4}"extra\.ts",\n\]$/m);
  });

  it("a name that two types have", () => {
    const more = `import * as Schema from "effect/Schema";
      import { ServerConfig } from "./rpc.ts";
      export const Mode = Schema.Struct({ other: Schema.String });
      export const More = Schema.Struct({ config: ServerConfig, mode: Mode });`;
    const twins = ["{ a: Schema.String }", "{ a: Schema.String, b: Schema.optionalKey(Schema.String) }"].map(
      (fields, at) => `export const Twin${at} = Schema.Struct({ it: Schema.Struct(${fields}).annotate({ identifier: "Twin" }) });`,
    );
    const root = checkout(undefined, { "more.ts": `import * as Schema from "effect/Schema";\n${twins.join("\n")}` });
    const both = { ...given, roots: [...given.roots, "Twin0", "Twin1"] };
    kept((out) => refused(root, { profile: both, out }, /Twin: two different types have this name \(met in Twin0, Twin1\)/));
    const profile = { ...given, roots: [...given.roots, "More"] };
    kept((out) => refused(checkout(undefined, { "more.ts": more }), { profile, out }, /Mode: two different types have this name \(met in .*More/));
  });

  it("a root that two modules export", () => {
    const more = `import * as Schema from "effect/Schema"; export const ServerConfig = Schema.Struct({});`;
    const index = `export * from "./more.ts"; export * from "./rpc.ts"; export * from "./thread.ts";`;
    refused(checkout(undefined, { "more.ts": more, "index.ts": index }), {}, /ServerConfig is exported twice, by more\.ts and /);
  });

  it("a construct that has no JSON, with its place", () => {
    const constructs = {
      "Schema.Never": "is a value that cannot exist",
      "Schema.instanceOf(Map)": "has no form in JSON",
      "Schema.Option(Schema.instanceOf(Map))": "has no form in JSON",
      "Schema.TupleWithRest(Schema.Tuple([Schema.String]), [Schema.Number, Schema.String])": "is a list with elements behind its rest",
    };
    const more = Object.keys(constructs).map((construct, at) => `export const More${at} = Schema.Struct({ deep: Schema.Array(Schema.Struct({ it: ${construct} })) });`);
    const root = checkout(undefined, { "more.ts": `import * as Schema from "effect/Schema";\n${more.join("\n")}` });
    Object.values(constructs).forEach((why, at) => {
      const profile = { ...given, roots: [...given.roots, `More${at}`] };
      kept((out) => refused(root, { profile, out }, new RegExp(`More${at}\\.deep\\[\\]\\.it(\\.value)?: ${why}: `)));
    });
  });

  it("what has no JSON at a place that nobody reads stays", () => {
    const more = `import * as Schema from "effect/Schema"; export const More = Schema.Struct({ bad: Schema.instanceOf(Map) });`;
    const profile = { ...given, roots: [...given.roots, "More"], opaque: [...given.opaque, "More.bad"] };
    assert.deepEqual(exported(checkout(undefined, { "more.ts": more }), { profile }).defs.More.properties, { bad: {} });
  });

  it("a field that does not have the form that travels", () => {
    const profile = { ...given, decoded: { ModelSelection: { options: "string" } } };
    refused(checkout(), { profile }, /ModelSelection\.options: has 0 forms of type string/);
  });

  it("a profile with a key that means nothing", () => {
    refused(checkout(), { profile: { ...given, root: [] } }, /root is no key of a profile: use one of protocol, sign/);
  });

  it("a place to write to that is a file", () => {
    const out = path.join(room, "a-file");
    fs.writeFileSync(out, "");
    refused(checkout(), { out }, /^export: .*a-file: EEXIST/);
  });

  it("a folder that is no checkout", () => {
    refused(room, {}, /packages\/contracts\/src does not exist: name the root of a T3 checkout/);
  });
});
