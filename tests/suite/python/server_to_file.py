"""Writes a server's startup with the OpenTelemetry SDK's file exporter: under span 100 of trace 1,
from 2027-01-15 08:00:00 UTC."""

import sys

from opentelemetry import trace
from opentelemetry.exporter.otlp.json.file.trace_exporter import FileSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

BEGAN_NS = 1_800_000_000_000_000_000
MS = 1_000_000

above = TraceContextTextMapPropagator().extract({"traceparent": f"00-{1:032x}-{0x64:016x}-01"})
resource = Resource.create({"service.name": "renamed", "host.name": "node", "nemo.gym.server.name": "greeter"})
provider = TracerProvider(resource=resource)
provider.add_span_processor(BatchSpanProcessor(FileSpanExporter(sys.argv[1])))
tracer = provider.get_tracer("server")


def at(ms):
    return BEGAN_NS + ms * MS


root = tracer.start_span(
    "gym.server.startup", context=above, start_time=at(10), attributes={"process.pid": 4711}
)
inside = trace.set_span_in_context(root)
stage = tracer.start_span("gym.server.startup.init_server", context=inside, start_time=at(2_020))
stage.end(at(2_310))
root.end(at(2_310))
provider.shutdown()
