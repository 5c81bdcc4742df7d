//! A span as OTLP has it in JSON, with the names of the semantic conventions of OpenTelemetry.

use serde_json::{Value, json};

use super::span::{Asked, Ended, Record};
use crate::grpc::transport::Code;

const METHOD: &str = "envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
const KIND_SERVER: u8 = 2;
const STATUS_ERROR: u8 = 2;
/// The parent is known to be of another process.
const IS_REMOTE: u32 = 0x300;

/// The JSON object of a span.
pub(super) fn span(record: &Record) -> String {
    let start_ns = u128::from(record.start_us) * 1_000;
    let mut attributes = Vec::with_capacity(12);
    let name = put_asked(&mut attributes, record.asked);
    let is_error = put_ended(&mut attributes, record.ended);
    put_decisions(&mut attributes, record);
    let mut span = json!({
        "traceId": format!("{:032x}", record.parent.trace_id),
        "spanId": format!("{:016x}", record.id),
        "parentSpanId": format!("{:016x}", record.parent.span_id),
        "flags": u32::from(record.parent.flags) | IS_REMOTE,
        "name": name,
        "kind": KIND_SERVER,
        // 64 bits are texts in the JSON of Protocol Buffers.
        "startTimeUnixNano": start_ns.to_string(),
        "endTimeUnixNano": (start_ns + u128::from(record.took_ns)).to_string(),
        "attributes": attributes,
    });
    if !record.state.is_empty() {
        span["traceState"] = json!(record.state);
    }
    if is_error {
        span["status"] = json!({"code": STATUS_ERROR});
    }
    span.to_string()
}

fn put_asked(attributes: &mut Vec<Value>, asked: Asked) -> String {
    match asked {
        Asked::ShouldRateLimit => {
            attributes.push(text("rpc.system.name", "grpc"));
            attributes.push(text("rpc.method", METHOD));
            METHOD.to_owned()
        }
        Asked::Http { method, route } => {
            attributes.push(text("http.request.method", method));
            attributes.push(text("http.route", route));
            format!("{} {route}", if method == "_OTHER" { "HTTP" } else { method })
        }
    }
}

/// True if the fault is ours: that of a client is none of the server's span.
fn put_ended(attributes: &mut Vec<Value>, ended: Option<Ended>) -> bool {
    let (error, is_error) = match ended {
        Some(Ended::Grpc(code)) => {
            attributes.push(text("rpc.response.status_code", code.name()));
            let is_error = matches!(
                code,
                Code::Unknown
                    | Code::DeadlineExceeded
                    | Code::Unimplemented
                    | Code::Internal
                    | Code::Unavailable
                    | Code::DataLoss
            );
            (code.name().to_owned(), is_error)
        }
        Some(Ended::Http(status)) => {
            attributes.push(number("http.response.status_code", u64::from(status.as_u16())));
            (status.as_str().to_owned(), status.is_server_error())
        }
        None => ("unanswered".to_owned(), true),
    };
    if is_error {
        attributes.push(text("error.type", &error));
    }
    is_error
}

fn put_decisions(attributes: &mut Vec<Value>, record: &Record) {
    attributes.push(text("tidegate.store", record.store));
    if record.decisions > 1 {
        attributes.push(number("tidegate.checks", record.decisions));
        attributes.push(number("tidegate.denied", record.denied));
        return;
    }
    let Some(told) = &record.first else { return };
    attributes.push(text("tidegate.domain", &told.domain));
    attributes.push(truth("tidegate.allowed", told.is_allowed));
    attributes.push(text("tidegate.reason", told.reason));
    if let Some(limit) = &told.limit {
        attributes.push(text("tidegate.limit", limit));
    }
    attributes.push(truth("tidegate.degraded", told.is_degraded));
    attributes.push(text("tidegate.decision_id", told.id.as_str()));
}

fn text(key: &str, value: &str) -> Value {
    json!({"key": key, "value": {"stringValue": value}})
}

fn truth(key: &str, value: bool) -> Value {
    json!({"key": key, "value": {"boolValue": value}})
}

fn number(key: &str, value: u64) -> Value {
    json!({"key": key, "value": {"intValue": value.to_string()}})
}

#[cfg(test)]
mod tests {
    use http::StatusCode;

    use super::*;

    fn read(record: &Record) -> Value {
        serde_json::from_str(&span(record)).unwrap()
    }

    fn has(span: &Value, attribute: &Value) -> bool {
        span["attributes"].as_array().unwrap().contains(attribute)
    }

    #[test]
    fn ids_times_and_flags_are_as_the_standard_has_them() {
        let span = read(&Record::for_test(7));
        assert_eq!(span["traceId"], "00000000000000000000000000000abc");
        assert_eq!(span["spanId"], "0000000000000007");
        assert_eq!(span["parentSpanId"], "0000000000000def");
        assert_eq!(span["flags"], 0x303);
        assert_eq!(span["startTimeUnixNano"], "1764554400000000000");
        assert_eq!(span["endTimeUnixNano"], "1764554400000001234");
        assert_eq!((&span["name"], &span["kind"]), (&json!(METHOD), &json!(2)));
        assert_eq!((span.get("status"), span.get("traceState")), (None, None));
        let handed_on = Record { state: "a=1,b=2".into(), ..Record::for_test(7) };
        assert_eq!(read(&handed_on)["traceState"], "a=1,b=2");
    }

    #[test]
    fn faults_of_the_server_alone_are_errors() {
        let cases = [
            (Some(Ended::Grpc(Code::InvalidArgument)), None),
            (Some(Ended::Grpc(Code::Unavailable)), Some("UNAVAILABLE")),
            (Some(Ended::Http(StatusCode::TOO_MANY_REQUESTS)), None),
            (Some(Ended::Http(StatusCode::SERVICE_UNAVAILABLE)), Some("503")),
            (None, Some("unanswered")),
        ];
        for (ended, error) in cases {
            let span = read(&Record { ended, ..Record::for_test(1) });
            assert_eq!(span.get("status").is_some(), error.is_some(), "{span}");
            assert!(error.is_none_or(|kind| has(&span, &text("error.type", kind))), "{span}");
        }
    }

    #[test]
    fn many_checks_are_counted_and_methods_of_others_have_one_name() {
        let asked = Asked::Http { method: "_OTHER", route: "/v1/forward-auth" };
        let record = Record { asked, decisions: 3, denied: 1, ..Record::for_test(1) };
        let span = read(&record);
        assert_eq!(span["name"], "HTTP /v1/forward-auth");
        assert!(
            has(&span, &number("tidegate.checks", 3)) && has(&span, &number("tidegate.denied", 1))
        );
    }
}
