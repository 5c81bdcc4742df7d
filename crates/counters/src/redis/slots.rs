//! Where a counter lies in a Cluster: its slot, and the node that serves it.

use std::fmt;

use super::resp::Reply;

/// Slots of a Cluster (Redis Cluster specification).
pub(super) const SLOTS: usize = 16_384;

const NOBODY: u16 = u16::MAX;

/// CRC-16/XMODEM, a byte at a time.
const CRC: [u16; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

/// The slot of a hash tag, given without its braces.
#[inline]
pub(super) fn slot_of(tag: &[u8]) -> u16 {
    let step = |crc: u16, byte: &u8| crc << 8 ^ CRC[usize::from((crc >> 8) as u8 ^ byte)];
    tag.iter().fold(0, step) % SLOTS as u16
}

/// One server of a Cluster, as its peers name it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Node {
    pub(super) host: String,
    pub(super) port: u16,
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

impl Node {
    /// From `host:port` of a redirection. Without a host it is the one that answered.
    fn redirected(text: &str, asked: &Self) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        let host = if host.is_empty() { &asked.host } else { host };
        Some(Self { host: host.to_owned(), port: port.parse().ok()? })
    }
}

/// What a node says of a call that another one has to answer. It proves that the call did not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Redirect {
    /// This slot lives there now.
    Moved(u16, Node),
    /// This one call, while the slot is on its way there.
    Ask(Node),
    /// Keys of this call lie on both sides of a slot's move: soon.
    Again,
}

impl Redirect {
    /// Reads an error's text.
    pub(super) fn read(answer: &[u8], asked: &Node) -> Option<Self> {
        let text = std::str::from_utf8(answer).ok()?;
        let mut words = text.split(' ');
        match words.next()? {
            "MOVED" => {
                let slot = words.next()?.parse().ok().filter(|slot| usize::from(*slot) < SLOTS)?;
                Some(Self::Moved(slot, Node::redirected(words.next()?, asked)?))
            }
            "ASK" => words.nth(1).and_then(|node| Node::redirected(node, asked)).map(Self::Ask),
            "TRYAGAIN" => Some(Self::Again),
            _ => None,
        }
    }
}

/// Which node serves each slot.
#[derive(Debug)]
pub(super) struct SlotMap {
    owners: Box<[u16]>,
    nodes: Vec<Node>,
}

impl Default for SlotMap {
    fn default() -> Self {
        Self { owners: vec![NOBODY; SLOTS].into(), nodes: Vec::new() }
    }
}

impl SlotMap {
    /// Reads the answer to `CLUSTER SLOTS`, of which masters alone count. None if it is no such
    /// answer or names no node.
    pub(super) fn read(reply: &Reply<'_>, asked: &Node) -> Option<Self> {
        let Reply::Array(ranges) = reply else { return None };
        let mut map = Self::default();
        for range in ranges {
            let Reply::Array(parts) = range else { return None };
            let [Reply::Integer(first), Reply::Integer(last), Reply::Array(master), ..] =
                &parts[..]
            else {
                return None;
            };
            let (Reply::Bulk(host), Reply::Integer(port)) = (master.first()?, master.get(1)?)
            else {
                return None;
            };
            let host = match host.map(std::str::from_utf8) {
                None | Some(Ok("")) => asked.host.as_str(),
                // A node that does not know its own name.
                Some(Ok("?") | Err(_)) => continue,
                Some(Ok(host)) => host,
            };
            let node = Node { host: host.to_owned(), port: u16::try_from(*port).ok()? };
            let (first, last) = (usize::try_from(*first).ok()?, usize::try_from(*last).ok()?);
            let number = map.number(node);
            map.owners.get_mut(first..=last)?.fill(number);
        }
        (!map.nodes.is_empty()).then_some(map)
    }

    /// The node that serves a slot, as far as is known.
    #[inline]
    pub(super) fn node(&self, slot: u16) -> Option<&Node> {
        self.nodes.get(usize::from(*self.owners.get(usize::from(slot))?))
    }

    /// Learns that a slot has moved.
    pub(super) fn moved(&mut self, slot: u16, node: Node) {
        let number = self.number(node);
        if let Some(owner) = self.owners.get_mut(usize::from(slot)) {
            *owner = number;
        }
    }

    /// All nodes that serve a slot.
    pub(super) fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    fn number(&mut self, node: Node) -> u16 {
        let known = self.nodes.iter().position(|other| *other == node);
        let number = known.unwrap_or_else(|| {
            self.nodes.push(node);
            self.nodes.len() - 1
        });
        number as u16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(host: &str, port: u16) -> Node {
        Node { host: host.to_owned(), port }
    }

    #[test]
    fn slots_are_those_of_the_specification() {
        // The specification's check value is 0x31C3 for "123456789".
        assert_eq!(slot_of(b"123456789"), 0x31c3);
        assert_eq!(slot_of(b""), 0);
        assert_eq!(slot_of(b"foo"), 12182);
        assert_eq!(slot_of(b"user1000"), 3443);
    }

    #[test]
    fn redirections_are_read() {
        let asked = node("10.0.0.1", 7000);
        let read = |text: &str| Redirect::read(text.as_bytes(), &asked);
        assert_eq!(
            read("MOVED 3999 127.0.0.1:6381"),
            Some(Redirect::Moved(3999, node("127.0.0.1", 6381)))
        );
        assert_eq!(read("MOVED 1 ::1:6381"), Some(Redirect::Moved(1, node("::1", 6381))));
        assert_eq!(read("ASK 3999 :6381"), Some(Redirect::Ask(node("10.0.0.1", 6381))));
        assert_eq!(read("TRYAGAIN Multiple keys request"), Some(Redirect::Again));
        for other in ["MOVED", "MOVED 99999 a:1", "MOVED 1 a", "ERR x", "", "ASK 1 a:b"] {
            assert_eq!(read(other), None, "{other}");
        }
    }

    #[test]
    fn masters_are_learned_and_moves_kept() {
        let server = |host: Option<&'static str>, port| {
            Reply::Array(vec![
                Reply::Bulk(host.map(str::as_bytes)),
                Reply::Integer(port),
                Reply::Bulk(Some(b"id")),
            ])
        };
        let range = |first, last, master, replica| {
            Reply::Array(vec![Reply::Integer(first), Reply::Integer(last), master, replica])
        };
        let reply = Reply::Array(vec![
            range(0, 99, server(Some("a"), 1), server(Some("b"), 2)),
            range(100, 16383, server(None, 3), server(Some("b"), 4)),
        ]);
        let mut map = SlotMap::read(&reply, &node("asked", 9)).unwrap();
        assert_eq!(map.node(99), Some(&node("a", 1)));
        assert_eq!(map.node(100), Some(&node("asked", 3)));
        assert_eq!(map.nodes().len(), 2);
        map.moved(100, node("c", 5));
        assert_eq!(map.node(100), Some(&node("c", 5)));
        assert_eq!(map.node(101), Some(&node("asked", 3)));
        assert_eq!(SlotMap::default().node(0), None);
    }

    #[test]
    fn what_is_no_map_is_none() {
        let asked = node("asked", 9);
        for reply in [
            Reply::Array(vec![]),
            Reply::Error(b"ERR This instance has cluster support disabled"),
            Reply::Array(vec![Reply::Array(vec![Reply::Integer(0), Reply::Integer(20000)])]),
            Reply::Array(vec![Reply::Array(vec![
                Reply::Integer(0),
                Reply::Integer(20000),
                Reply::Array(vec![Reply::Bulk(Some(b"a")), Reply::Integer(1)]),
            ])]),
        ] {
            assert!(SlotMap::read(&reply, &asked).is_none(), "{reply:?}");
        }
    }
}
