//! `GET /v1/hot`: the counters that most decisions of this node meet, and so what tenants send.

use std::net::IpAddr;

use hyper::{Request, StatusCode};

use super::answer::{Answered, error, json};
use super::connection::HttpDoor;
use super::insiders::admit_insider;
use crate::hot::{PLACES, put_hot};

/// Counters that are told unless the question says how many.
const USUAL_TOP: usize = 20;

/// Tells of the hottest counters.
pub fn hot<T>(door: &HttpDoor, peer: Option<IpAddr>, request: &Request<T>) -> Answered {
    let what = "hot counters need the admin token";
    if let Err(response) = admit_insider(door, peer, request.headers(), what) {
        return *response;
    }
    let top = match top(request.uri().query().unwrap_or_default()) {
        Ok(top) => top,
        Err(detail) => return error(StatusCode::BAD_REQUEST, &detail),
    };
    let node = door.node.node();
    if !node.hot().is_on() {
        let detail = "this node looks at no decisions: it was started with --metrics off";
        return error(StatusCode::NOT_FOUND, detail);
    }
    let now_us = node.clock().now_us();
    let report = node.hot().report(top, now_us);
    let mut out = Vec::with_capacity(1024);
    put_hot(&mut out, &report, now_us);
    json(StatusCode::OK, out)
}

/// How many are wanted.
fn top(query: &str) -> Result<usize, String> {
    let mut top = None;
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let Some(number) = pair.strip_prefix("top=") else {
            return Err("the query takes top=N and nothing else".into());
        };
        let number = number.parse().ok().filter(|number| (1..=PLACES).contains(number));
        let number = number.ok_or_else(|| format!("top: a whole number from 1 to {PLACES}"))?;
        if top.replace(number).is_some() {
            return Err("top: given twice".into());
        }
    }
    Ok(top.unwrap_or(USUAL_TOP))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_says_how_many_and_nothing_else() {
        assert_eq!(top(""), Ok(USUAL_TOP));
        assert_eq!(top("top=1"), Ok(1));
        assert_eq!(top("top=1024&"), Ok(1024));
        for wrong in ["top=0", "top=1025", "top=-1", "top=", "top", "to=1", "top=1&top=2"] {
            assert!(top(wrong).is_err(), "{wrong}");
        }
    }
}
