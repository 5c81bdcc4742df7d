//! Who is told what tenants send: holders of the admin token; where there is none, this machine alone.

use std::net::IpAddr;

use hyper::HeaderMap;

use super::answer::Answered;
use super::check::admit;
use super::connection::HttpDoor;
use crate::access::Denied;

/// Passes those who may know.
///
/// # Errors
/// The answer to others, who are told what they wanted.
pub fn admit_insider(
    door: &HttpDoor,
    peer: Option<IpAddr>,
    headers: &HeaderMap,
    what: &str,
) -> Result<(), Box<Answered>> {
    match door.rate_limit.admin.check(headers) {
        Err(Denied::Disabled) if is_from_here(peer) => Ok(()),
        _ => admit(door, headers, what),
    }
}

/// True for a peer on this machine; one without an address came by a socket in its files.
fn is_from_here(peer: Option<IpAddr>) -> bool {
    peer.is_none_or(|peer| peer.to_canonical().is_loopback())
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
}
