"""FastAPI that sends a task of Celery for each request."""

from __future__ import annotations

import os
from typing import Any

from celery import Celery
from fastapi import FastAPI
from pydantic import BaseModel

celery = Celery(broker=os.environ["BROKER"])
app = FastAPI()


class Call(BaseModel):
    """A call, as the gateway takes it."""

    task: str
    args: list[Any] = []
    queue: str = "celery"


@app.post("/v1/calls", status_code=202)
def enqueue(call: Call) -> dict[str, str]:
    """Send a call."""
    return {"id": celery.send_task(call.task, args=call.args).id}
