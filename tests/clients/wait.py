"""A long call without a progress token, seen through by the Python SDK (`pip install mcp`) in both eras.

    python wait.py http://127.0.0.1:8000/mcp TOKEN TOOL '{"seconds": 330}'
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
