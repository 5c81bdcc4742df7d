//! `GET /v1/hot`: the counters that most decisions of this node meet. It lists what tenants send, so it
//! needs the admin token; a server that has none tells its own machine alone.

use std::net::IpAddr;

use hyper::{Request, StatusCode};

use super::answer::{Answered, error, json};
use super::check::admit;
use super::connection::HttpDoor;
use super::decisions::admit_if_closed;
use crate::hot::{PLACES, put_hot};

/// Counters that are told unless the question says how many.
const USUAL_TOP: usize = 20;

/// Tells of the hottest counters.
pub fn hot<T>(door: &HttpDoor, peer: Option<IpAddr>, request: &Request<T>) -> Answered {
    let may = if is_from_here(peer) { admit_if_closed } else { admit };
    if let Err(response) = may(door, request.headers(), "hot counters need the admin token") {
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

/// True for a peer on this machine; one without an address came by a socket in its files.
fn is_from_here(peer: Option<IpAddr>) -> bool {
    peer.is_none_or(|peer| peer.to_canonical().is_loopback())
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
    fn without_a_token_this_machine_alone_is_told() {
        for here in ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"] {
            assert!(is_from_here(Some(here.parse().unwrap())), "{here}");
        }
        for there in ["10.0.0.1", "192.168.1.2", "2001:db8::1", "::ffff:10.0.0.1", "0.0.0.0"] {
            assert!(!is_from_here(Some(there.parse().unwrap())), "{there}");
        }
        assert!(is_from_here(None), "a socket in the files of this machine");
    }

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
