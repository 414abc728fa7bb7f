"""Prints what the OTLP protobuf classes read out of a file of OTLP JSON lines."""

import base64
import json
import sys

from google.protobuf import json_format
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


def ids_to_base64(value):
    """OTLP writes ids in hex, where JSON's mapping of protobuf has base64."""
    if isinstance(value, dict):
        for key, field in value.items():
            if key in ("traceId", "spanId", "parentSpanId"):
                value[key] = base64.b64encode(bytes.fromhex(field)).decode()
            else:
                ids_to_base64(field)
    elif isinstance(value, list):
        for item in value:
            ids_to_base64(item)
    return value


def attributes(of):
    return [[it.key, it.value.WhichOneof("value"), plain(it.value)] for it in of.attributes]


def plain(value):
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [plain(item) for item in value.array_value.values]
    return getattr(value, kind)


for line in open(sys.argv[1], encoding="utf-8"):
    fields = ids_to_base64(json.loads(line))
    if "resourceSpans" in fields:
        # Strict: a field that is unknown is an error.
        for resource in json_format.ParseDict(fields, ExportTraceServiceRequest()).resource_spans:
            print(json.dumps(["resource", attributes(resource.resource)]))
            for span in (span for scope in resource.scope_spans for span in scope.spans):
                ids = [span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex()]
                times = [span.start_time_unix_nano, span.end_time_unix_nano]
                status = [span.status.code, span.status.message]
                rest = [span.name, span.kind, span.flags, *times, *status, attributes(span)]
                print(json.dumps(["span", *ids, *rest], ensure_ascii=False))
    else:
        for resource in json_format.ParseDict(
            fields, ExportMetricsServiceRequest()
        ).resource_metrics:
            for metric in (metric for scope in resource.scope_metrics for metric in scope.metrics):
                for point in metric.histogram.data_points:
                    times = [point.start_time_unix_nano, point.time_unix_nano]
                    values = [point.count, point.sum, point.min, point.max]
                    buckets = [list(point.bucket_counts), list(point.explicit_bounds)]
                    of = [metric.name, metric.unit, metric.histogram.aggregation_temporality]
                    print(json.dumps(["metric", *of, *times, *values, *buckets, attributes(point)]))
