"""A server that reports its startup as Gym's servers do, with the OpenTelemetry SDK."""

import os
import sys
import time

ENTERED_NS = time.time_ns()

from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

if "SPANS_FILE" in os.environ:
    from opentelemetry.exporter.otlp.json.file.trace_exporter import FileSpanExporter
elif os.environ["OTEL_EXPORTER_OTLP_PROTOCOL"] == "grpc":
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
else:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

name = os.environ["NEMO_GYM_CONFIG_PATH"]
spawn_ns = int(os.environ["NEMO_GYM_STARTUP_SPAWN_NS"])
setup_done_ns = int(os.environ["NEMO_GYM_STARTUP_SETUP_DONE_NS"])
above = TraceContextTextMapPropagator().extract(
    {"traceparent": os.environ["NEMO_GYM_STARTUP_TRACEPARENT"]}
)

provider = TracerProvider(resource=Resource.create({"service.name": f"nemo-gym/{name}"}))
exporter = FileSpanExporter(os.environ["SPANS_FILE"]) if "SPANS_FILE" in os.environ else OTLPSpanExporter()
provider.add_span_processor(BatchSpanProcessor(exporter))
tracer = provider.get_tracer("server")

ready_ns = time.time_ns()
root = tracer.start_span(
    "gym.server.startup",
    context=above,
    start_time=spawn_ns,
    attributes={"nemo.gym.server.name": name, "nemo.gym.server.worker": False},
)
for stage, start_ns, end_ns in [
    ("venv_setup", spawn_ns, setup_done_ns),
    ("interpreter_start", setup_done_ns, ENTERED_NS),
    ("init_server", ENTERED_NS, ready_ns),
]:
    tracer.start_span(
        f"gym.server.startup.{stage}",
        context=trace.set_span_in_context(root),
        start_time=start_ns,
        attributes={"nemo.gym.startup.stage": stage},
    ).end(end_time=end_ns)
root.end(end_time=ready_ns)
provider.shutdown()
sys.stdout.write("ready\n")
if "PORT" in os.environ:
    from http.server import HTTPServer, SimpleHTTPRequestHandler

    HTTPServer(("127.0.0.1", int(os.environ["PORT"])), SimpleHTTPRequestHandler).serve_forever()
