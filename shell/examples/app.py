"""A server as anybody writes it: it knows nothing of how its startup is timed."""

from fastapi import FastAPI

app = FastAPI()


@app.get("/")
def hello() -> dict[str, str]:
    return {"hello": "world"}
