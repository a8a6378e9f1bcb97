"""A long call without a progress token, seen through by the Python SDK (`pip install mcp`) in both eras.

Start `t3code-mcp simulate` and a `t3code-mcp serve` that knows it, dispatch a thread whose prompt is `sleep 330`, and wait for it longer than the
300 s of silence after which the SDK gives up:

    python wait.py http://127.0.0.1:8000/mcp "$(t3code-mcp token)" t3_wait '{"thread_id": "...", "timeout": 400}'

The tests `a_silent_wait_...` in tests/mcp/long.rs check the same on every run, with shorter clocks.
"""

import asyncio
import json
import sys
import time

import httpx2 as httpx
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client


async def once(era: str, url: str, token: str, tool: str, arguments: dict) -> bool:
    started = time.monotonic()
    # No clock of the client's own: what ends the call early is the silence of the server.
    timeout = httpx.Timeout(30, read=300)
    async with httpx.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=timeout) as http:
        try:
            async with Client(streamable_http_client(url, http_client=http), mode=era) as client:
                result = await client.call_tool(tool, arguments)
            print("python", era, "ok", result.structured_content, f"{time.monotonic() - started:.0f} s", flush=True)
            return not result.is_error
        except Exception as error:  # noqa: BLE001 - whatever it is, it is what a user would see
            print("python", era, "FAILED", repr(error), f"{time.monotonic() - started:.0f} s", flush=True)
            return False


async def main() -> int:
    url, token, tool, arguments = sys.argv[1:5]
    done = await asyncio.gather(*(once(era, url, token, tool, json.loads(arguments)) for era in ("legacy", "auto")))
    return 0 if all(done) else 1


sys.exit(asyncio.run(main()))
