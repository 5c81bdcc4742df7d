//! The client's address: the first hop from the right that is no proxy of ours.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use http::{HeaderMap, HeaderName};
use ipnet::IpNet;

/// Hops that are looked at; a longer list is the client's own writing.
const MOST_HOPS: usize = 32;
/// Addresses that stand for IPv4 ones behind a translator (RFC 6052).
const NAT64: u128 = 0x0064_ff9b << 96;

/// The networks whose word is believed.
#[derive(Clone, Debug, Default)]
pub struct Trusted(Vec<IpNet>);

impl Trusted {
    /// Reads networks and addresses.
    ///
    /// # Errors
    /// The text that is neither.
    pub fn parse(networks: &[String]) -> Result<Self, String> {
        let read = |text: &String| {
            let one = || text.parse::<IpAddr>().map(|address| IpNet::from(unified(address)));
            text.parse::<IpNet>()
                .map(|net| net.trunc())
                .or_else(|_| one())
                .map_err(|_| text.clone())
        };
        networks.iter().map(read).collect::<Result<_, _>>().map(Self)
    }

    /// Whether an address lies in one of them.
    pub fn holds(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(&address))
    }
}

/// How much of an address tells clients apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefixes {
    /// Bits of an IPv4 address.
    pub v4: u8,
    /// Bits of an IPv6 address: one customer has a whole /64 or more.
    pub v6: u8,
}

impl Prefixes {
    /// The address with the other bits cleared.
    pub fn cut(self, address: IpAddr) -> IpAddr {
        let prefix = if address.is_ipv4() { self.v4 } else { self.v6 };
        IpNet::new(address, prefix).map_or(address, |network| network.trunc().addr())
    }
}

/// One form for an address that has several: IPv4 mapped into IPv6, or behind a translator.
pub fn unified(address: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = address else { return address };
    if let Some(v4) = v6.to_ipv4_mapped() {
        return IpAddr::V4(v4);
    }
    let bits = v6.to_bits();
    if bits >> 32 == NAT64 >> 32 { IpAddr::V4(Ipv4Addr::from_bits(bits as u32)) } else { address }
}

/// The client's address as a believed peer says it in that header: from the right, past the
/// networks that are trusted. What is no address ends the walk, and the last good hop counts; a
/// peer that says nothing counts itself.
///
/// # Errors
/// A header that names one address came twice.
pub fn client_address(
    peer: IpAddr,
    header: &HeaderName,
    headers: &HeaderMap,
    trusted: &Trusted,
) -> Result<IpAddr, Doubled> {
    let values = headers.get_all(header).iter().map(http::HeaderValue::as_bytes);
    let hops: Vec<Option<IpAddr>> = match header.as_str() {
        "forwarded" => values.flat_map(|value| split(value, b',')).map(forwarded).collect(),
        // Only lists may come in several lines, which are one list (RFC 9110, 5.3).
        name if name.ends_with("forwarded-for") => {
            values.flat_map(|value| value.split(|byte| *byte == b',')).map(hop).collect()
        }
        _ => {
            let hops: Vec<_> = values.map(hop).collect();
            if hops.len() > 1 {
                return Err(Doubled);
            }
            hops
        }
    };
    let mut last_good = peer;
    for hop in hops.into_iter().rev().take(MOST_HOPS) {
        let Some(address) = hop else { break };
        last_good = address;
        if !trusted.holds(address) {
            break;
        }
    }
    Ok(last_good)
}

/// A header that may come once came twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Doubled;

/// The `for` of one element of `Forwarded` (RFC 7239).
fn forwarded(element: &[u8]) -> Option<IpAddr> {
    split(element, b';')
        .find_map(|pair| {
            let (name, value) = pair.trim_ascii().split_at_checked(4)?;
            name.eq_ignore_ascii_case(b"for=").then_some(value)
        })
        .and_then(hop)
}

/// Parts between separators that stand outside quotes.
fn split(text: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    let mut is_quoted = false;
    text.split(move |byte| {
        is_quoted ^= *byte == b'"';
        *byte == separator && !is_quoted
    })
}

/// An address with or without port, brackets, quotes and zone.
fn hop(text: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(text.trim_ascii()).ok()?;
    let text = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text);
    let address = if let Some(rest) = text.strip_prefix('[') {
        let (address, port) = rest.split_once(']')?;
        if !port.is_empty() && !is_port(port.strip_prefix(':')?) {
            return None;
        }
        IpAddr::V6(without_zone(address).parse::<Ipv6Addr>().ok()?)
    } else if let Ok(address) = without_zone(text).parse() {
        address
    } else {
        let (address, port) = text.split_once(':')?;
        if !is_port(port) {
            return None;
        }
        IpAddr::V4(address.parse().ok()?)
    };
    Some(unified(address))
}

fn without_zone(address: &str) -> &str {
    address.split_once('%').map_or(address, |(address, _)| address)
}

fn is_port(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit()) && text.parse::<u16>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn client(peer: &str, header: &str, lines: &[&str]) -> Result<String, Doubled> {
        let trusted = Trusted::parse(&["10.0.0.0/8".into(), "fd00::/8".into()]).unwrap();
        let peer = unified(peer.parse().unwrap());
        let name: HeaderName = header.parse().unwrap();
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(&name, http::HeaderValue::from_bytes(line.as_bytes()).unwrap());
        }
        client_address(peer, &name, &headers, &trusted).map(|address| address.to_string())
    }

    #[test]
    fn first_hop_from_the_right_that_is_not_trusted_counts() {
        let cases: [(&[&str], &str); 11] = [
            (&["1.2.3.4, 203.0.113.7"], "203.0.113.7"),
            (&["203.0.113.7, 10.0.0.9"], "203.0.113.7"),
            (&["1.2.3.4", "203.0.113.7, 10.0.0.9"], "203.0.113.7"),
            (&["203.0.113.7, 10.0.0.9", "10.0.0.8"], "203.0.113.7"),
            (&["203.0.113.7, fd00::1,10.1.1.1"], "203.0.113.7"),
            (&["203.0.113.7, garbage"], "10.0.0.5"),
            (&["garbage, 10.0.0.9"], "10.0.0.9"),
            (&["203.0.113.7,"], "10.0.0.5"),
            (&["10.0.0.7, 10.0.0.8"], "10.0.0.7"),
            (&[""], "10.0.0.5"),
            (&[], "10.0.0.5"),
        ];
        for (lines, expected) in cases {
            assert_eq!(client("10.0.0.5", "x-forwarded-for", lines).as_deref(), Ok(expected));
        }
    }

    #[test]
    fn hops_beyond_the_cap_are_not_looked_at() {
        let long = format!("203.0.113.7{}", ", 10.0.0.1".repeat(40));
        assert_eq!(client("10.0.0.5", "x-forwarded-for", &[&long]).as_deref(), Ok("10.0.0.1"));
    }

    #[test]
    fn address_has_one_form() {
        let forms = [
            ("1.2.3.4:50001", "1.2.3.4"),
            ("\"1.2.3.4:80\"", "1.2.3.4"),
            ("::ffff:1.2.3.4", "1.2.3.4"),
            ("[::ffff:102:304]:443", "1.2.3.4"),
            ("64:ff9b::1.2.3.4", "1.2.3.4"),
            ("[2001:db8::1]:443", "2001:db8::1"),
            ("\"[2001:DB8:0:0::1]\"", "2001:db8::1"),
            ("fe80::1%eth0", "fe80::1"),
        ];
        for (form, expected) in forms {
            assert_eq!(client("10.0.0.5", "x-real-ip", &[form]).as_deref(), Ok(expected), "{form}");
        }
        for bad in ["1.2.3", "1.2.3.4:", "1.2.3.4:99999", "[1.2.3.4]", "[::1]x", "[::1", "unknown"]
        {
            let found = client("10.0.0.5", "x-real-ip", &[bad]);
            assert_eq!(found.as_deref(), Ok("10.0.0.5"), "{bad}");
        }
        assert_eq!(client("10.0.0.5", "x-real-ip", &["1.2.3.4", "5.6.7.8"]), Err(Doubled));
    }

    #[test]
    fn forwarded_is_read_where_it_is_the_header() {
        let cases = [
            ("for=1.2.3.4, for=203.0.113.7;proto=https", "203.0.113.7"),
            ("for=203.0.113.7;by=\"a,b;c\", For=\"[fd00::2]:80\"", "203.0.113.7"),
            ("for=203.0.113.7, for=unknown", "10.0.0.5"),
            ("for=203.0.113.7, proto=https", "10.0.0.5"),
        ];
        for (line, expected) in cases {
            assert_eq!(client("10.0.0.5", "forwarded", &[line]).as_deref(), Ok(expected), "{line}");
        }
    }

    #[test]
    fn prefix_is_cut_for_each_family() {
        let cut =
            |address: &str| Prefixes { v4: 24, v6: 64 }.cut(address.parse().unwrap()).to_string();
        assert_eq!(cut("2001:db8:1:2:ffff::1"), "2001:db8:1:2::");
        assert_eq!(cut("192.0.2.77"), "192.0.2.0");
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = (hop(&bytes), forwarded(&bytes));
        }
    }
}
