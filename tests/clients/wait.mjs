// A long call without a progress token, seen through by the TypeScript client (`npm i @modelcontextprotocol/client`) in both eras.
//
// Start `t3code-mcp simulate` and a `t3code-mcp serve` that knows it, dispatch a thread whose prompt is `sleep 330`, and wait for it longer than
// the 300 s of silence after which the client gives up:
//
//     node wait.mjs http://127.0.0.1:8000/mcp "$(t3code-mcp token)" t3_wait '{"thread_id": "...", "timeout": 400}'
//
// The tests `a_silent_wait_...` in tests/mcp/long.rs check the same on every run, with shorter clocks.

import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";

const [url, token, tool, args] = process.argv.slice(2);

async function once(era) {
  const started = Date.now();
  const seconds = () => `${Math.round((Date.now() - started) / 1000)} s`;
  try {
    const client = new Client({ name: "wait", version: "1" }, { versionNegotiation: { mode: era } });
    const headers = { Authorization: `Bearer ${token}` };
    await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }));
    // The client's own clock is 60 s unless raised; everything else is its default.
    const result = await client.callTool({ name: tool, arguments: JSON.parse(args) }, { timeout: 3_600_000 });
    console.log("typescript", era, "ok", JSON.stringify(result.structuredContent), seconds());
    await client.close();
    return !result.isError;
  } catch (error) {
    console.log("typescript", era, "FAILED", String(error), seconds());
    return false;
  }
}

const done = await Promise.all(["legacy", "auto"].map(once));
process.exit(done.every(Boolean) ? 0 : 1);
