"""A supervisor that launches one server as Gym's does, with the OpenTelemetry SDK.

Ends the server at the end of standard input.
"""

import os
import subprocess
import sys
import time

from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

if os.environ["OTEL_EXPORTER_OTLP_PROTOCOL"] == "grpc":
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
else:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

provider = TracerProvider(resource=Resource.create({"service.name": "nemo-gym/supervisor"}))
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
tracer = provider.get_tracer("supervisor")

root = tracer.start_span("gym.startup")
server_span = tracer.start_span(
    "gym.startup.server",
    context=trace.set_span_in_context(root),
    attributes={"nemo.gym.server.name": "reward"},
)
carrier = {}
TraceContextTextMapPropagator().inject(carrier, trace.set_span_in_context(server_span))
spawn_ns = time.time_ns()
server = subprocess.Popen(
    ["sh", "-c", 'export NEMO_GYM_STARTUP_SETUP_DONE_NS=$(date +%s%N); exec "$0"', sys.argv[1]],
    env={
        **os.environ,
        "NEMO_GYM_CONFIG_PATH": "reward",
        "NEMO_GYM_STARTUP_SPAWN_NS": str(spawn_ns),
        "NEMO_GYM_STARTUP_TRACEPARENT": carrier["traceparent"],
    },
    stdin=subprocess.DEVNULL,
    stderr=subprocess.PIPE,
    text=True,
)
try:
    for line in server.stderr:
        if line.startswith("listening on "):
            break
    server_span.end()
    root.end()
    provider.shutdown()
    sys.stdin.read()
finally:
    server.kill()
    server.wait()
