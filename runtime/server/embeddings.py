"""POST /v1/embeddings: one vector of length 1 per text."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import numpy as np

from krafla.runtime.server import schema
from krafla.runtime.server.completions import token_lists
from krafla.runtime.server.errors import ApiError, refuse
from krafla.runtime.server.request import Embedding, Finished, Request
from krafla.runtime.server.service import Service


async def embeddings(service: Service, body: schema.EmbeddingRequest, name: str) -> dict[str, Any]:
    """The answer; cancelling it cancels what it asked of the scheduler."""
    loaded = service.loaded()
    service.check_model(body.model)
    dim = loaded.model.config.dim
    if body.dimensions not in (None, dim):
        raise refuse("dimensions", f"is {body.dimensions}, this model's vectors have {dim}")
    lists = await service.prepare(lambda: token_lists(loaded, body.input, "input"))
    free = asyncio.Semaphore(service.options.scheduler.parallel)

    async def one(index: int, ids: list[int]) -> dict[str, Any]:
        async with free:
            vector = await _embed(service, ids, name)
        data: Any = [float(x) for x in vector]
        if body.encoding_format == "base64":
            data = base64.b64encode(np.ascontiguousarray(vector, "<f4").tobytes()).decode()
        return {"object": "embedding", "index": index, "embedding": data}

    tasks = [asyncio.create_task(one(i, ids)) for i, ids in enumerate(lists)]
    try:
        data = await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
    tokens = sum(map(len, lists))
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return {"object": "list", "data": data, "model": service.model_name(), "usage": usage}


async def _embed(service: Service, ids: list[int], name: str) -> Any:
    request = Request(tuple(ids), embed=service.options.pooling, deadline=service.deadline(), id=name)
    (ticket,) = service.submit([request], "input")
    try:
        async for event in ticket:
            if isinstance(event, Embedding):
                return event.vector
            if isinstance(event, Finished):
                raise service.ended(event)
    finally:
        ticket.cancel()
    raise ApiError(500, "the engine gave no embedding")
