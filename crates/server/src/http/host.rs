//! The host that a request names, which nothing here depends on: but a message that names none, or
//! two, is read one way here and another way by a program before or behind (RFC 9112, section 3.2).

use hyper::header::HOST;
use hyper::{HeaderMap, Version};

/// Says what is wrong with the host of a request over HTTP/1.
pub fn mistake(version: Version, headers: &HeaderMap) -> Option<&'static str> {
    let mut named = headers.get_all(HOST).iter();
    match (named.next(), named.next()) {
        // HTTP/1.0 knew no hosts.
        (None, _) if version < Version::HTTP_11 => None,
        (None, _) => Some("HTTP/1.1 wants the header host"),
        (Some(_), Some(_)) => Some("the header host came more than once"),
        (Some(host), None) if host.as_bytes().iter().copied().all(may_name_a_host) => None,
        (Some(_), None) => Some("the header host is no host, such as limits.example:8080"),
    }
}

/// What a host with its port is made of (RFC 3986, section 3.2).
fn may_name_a_host(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+,;=:[]".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_fine(version: Version, hosts: &[&str]) -> bool {
        let mut headers = HeaderMap::new();
        for host in hosts {
            headers.append(HOST, host.parse().unwrap());
        }
        mistake(version, &headers).is_none()
    }

    #[test]
    fn a_request_names_one_host_from_http_1_1_on() {
        assert!(is_fine(Version::HTTP_11, &["limits.example:8080"]));
        assert!(!is_fine(Version::HTTP_11, &[]));
        assert!(is_fine(Version::HTTP_10, &[]));
        for version in [Version::HTTP_10, Version::HTTP_11] {
            assert!(!is_fine(version, &["a", "a"]));
        }
    }

    #[test]
    fn a_host_is_made_of_what_hosts_are_made_of() {
        for good in ["", "x", "10.0.0.1:80", "[::1]:8080", "under_score.example", "a%20b"] {
            assert!(is_fine(Version::HTTP_11, &[good]), "{good}");
        }
        for bad in ["a b", "user@host", "a/b", "a?b", "a\\b", "a\"b"] {
            assert!(!is_fine(Version::HTTP_11, &[bad]), "{bad}");
        }
    }
}
