//! Where a counter lies in a Cluster: its slot, and the node that serves it.

use std::fmt;

use super::checksum::crc_on;
use super::resp::Reply;
use super::stretches::Stretches;

/// Slots of a Cluster (Redis Cluster specification).
pub(super) const SLOTS: usize = 16_384;

/// An owner that is none.
const NOBODY: u16 = u16::MAX;

/// The slot of a hash tag, given without its braces.
#[inline]
pub(super) fn slot_of(tag: &[u8]) -> u16 {
    crc_on(0, tag) % SLOTS as u16
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

    /// The same, by the names that a map has for nodes.
    pub(super) fn known_by(self, map: &SlotMap) -> Self {
        match self {
            Self::Moved(slot, node) => Self::Moved(slot, map.known_as(node)),
            Self::Ask(node) => Self::Ask(map.known_as(node)),
            Self::Again => Self::Again,
        }
    }
}

/// Which node serves each slot.
#[derive(Debug)]
pub(super) struct SlotMap {
    owners: Stretches,
    nodes: Vec<Node>,
    /// Nodes, replicas too, that go by another name here than with their peers.
    names: Vec<(Node, Node)>,
}

impl Default for SlotMap {
    fn default() -> Self {
        Self { owners: Stretches::of(NOBODY), nodes: Vec::new(), names: Vec::new() }
    }
}

impl SlotMap {
    /// Reads the answer to `CLUSTER SLOTS`, of which masters alone count. None if it is no such
    /// answer or names no node.
    ///
    /// `by_name`: a node goes by the host name that it announces, if it does, and not by what its
    /// peers prefer, which may be an address that its certificate does not carry.
    pub(super) fn read(reply: &Reply<'_>, asked: &Node, by_name: bool) -> Option<Self> {
        let Reply::Array(ranges) = reply else { return None };
        let mut map = Self::default();
        for range in ranges {
            let Reply::Array(parts) = range else { return None };
            let [Reply::Integer(first), Reply::Integer(last), servers @ ..] = &parts[..] else {
                return None;
            };
            let (first, last) = (u16::try_from(*first).ok()?, u16::try_from(*last).ok()?);
            if first > last || usize::from(last) >= SLOTS {
                return None;
            }
            let master = Server::read(servers.first()?, asked)?;
            if by_name {
                let known = servers.iter().filter_map(|server| Server::read(server, asked));
                for Server { node, host_name } in known {
                    let (Some(node), Some(host)) = (node, host_name) else { continue };
                    map.call(&node, host);
                }
            }
            // None is a node that does not know its own name.
            if let Some(node) = master.node {
                let node = map.known_as(node);
                let number = map.number(node);
                map.owners.assign(first, last, number);
            }
        }
        (!map.nodes.is_empty()).then_some(map)
    }

    /// What a node is called here that its peers call so.
    pub(super) fn known_as(&self, node: Node) -> Node {
        let known = self.names.iter().find(|(peers, _)| *peers == node);
        known.map_or(node, |(_, ours)| ours.clone())
    }

    /// True if it serves a slot, or is known by a name of its own.
    pub(super) fn knows(&self, node: &Node) -> bool {
        self.nodes.contains(node) || self.names.iter().any(|(peers, _)| peers == node)
    }

    fn call(&mut self, node: &Node, host: &str) {
        if node.host != host && !self.names.iter().any(|(known, _)| known == node) {
            self.names.push((node.clone(), Node { host: host.to_owned(), port: node.port }));
        }
    }

    /// The node that serves a slot, as far as is known, as its place among [`SlotMap::nodes`], where
    /// it stays.
    #[inline]
    pub(super) fn owner(&self, slot: u16) -> Option<usize> {
        let owner = self.owners.owner(slot);
        (owner != NOBODY).then_some(usize::from(owner))
    }

    /// Learns that a slot has moved.
    pub(super) fn moved(&mut self, slot: u16, node: Node) {
        let number = self.number(node);
        self.owners.assign(slot, slot, number);
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

/// Some of a Cluster's slots.
#[derive(Debug)]
pub(super) struct SlotSet {
    words: Box<[u64; SLOTS / 64]>,
}

impl SlotSet {
    pub(super) fn empty() -> Self {
        Self { words: Box::new([0; SLOTS / 64]) }
    }

    #[inline]
    pub(super) fn insert(&mut self, slot: u16) {
        let (word, bit) = Self::place(slot);
        self.words[word] |= bit;
    }

    #[inline]
    pub(super) fn remove(&mut self, slot: u16) {
        let (word, bit) = Self::place(slot);
        self.words[word] &= !bit;
    }

    #[inline]
    pub(super) fn contains(&self, slot: u16) -> bool {
        let (word, bit) = Self::place(slot);
        self.words[word] & bit != 0
    }

    pub(super) fn clear(&mut self) {
        self.words.fill(0);
    }

    const fn place(slot: u16) -> (usize, u64) {
        let slot = slot as usize % SLOTS;
        (slot / 64, 1 << (slot % 64))
    }
}

/// One server in the answer to `CLUSTER SLOTS`.
struct Server<'a> {
    /// As its peers call it; none if they do not know.
    node: Option<Node>,
    /// What it announces beside that.
    host_name: Option<&'a str>,
}

impl<'a> Server<'a> {
    fn read(reply: &Reply<'a>, asked: &Node) -> Option<Self> {
        let Reply::Array(parts) = reply else { return None };
        let [Reply::Bulk(host), Reply::Integer(port), more @ ..] = &parts[..] else { return None };
        let port = u16::try_from(*port).ok()?;
        let host = match host.map(std::str::from_utf8) {
            None | Some(Ok("")) => Some(asked.host.as_str()),
            Some(Ok("?") | Err(_)) => None,
            Some(Ok(host)) => Some(host),
        };
        let host_name = match more {
            [_, Reply::Array(pairs), ..] => named(pairs, b"hostname"),
            _ => None,
        };
        Some(Self { node: host.map(|host| Node { host: host.to_owned(), port }), host_name })
    }
}

/// The value of a name in a flat list of pairs, if it is not empty.
fn named<'a>(pairs: &[Reply<'a>], name: &[u8]) -> Option<&'a str> {
    let mut values = pairs.chunks_exact(2).filter_map(|pair| match pair {
        [Reply::Bulk(Some(said)), Reply::Bulk(Some(value))] if *said == name => Some(*value),
        _ => None,
    });
    values.next().and_then(|value| std::str::from_utf8(value).ok()).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(host: &str, port: u16) -> Node {
        Node { host: host.to_owned(), port }
    }

    fn owner(map: &SlotMap, slot: u16) -> Option<&Node> {
        map.owner(slot).map(|at| &map.nodes()[at])
    }

    #[test]
    fn a_set_of_slots_holds_what_was_put_into_it() {
        let mut set = SlotSet::empty();
        for slot in [0, 63, 64, 16_383] {
            set.insert(slot);
            assert!(set.contains(slot));
        }
        set.remove(63);
        assert!(!set.contains(63) && set.contains(64) && !set.contains(1));
        set.clear();
        assert!((0..16_384).all(|slot| !set.contains(slot)));
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
        let mut map = SlotMap::read(&reply, &node("asked", 9), false).unwrap();
        assert_eq!(owner(&map, 99), Some(&node("a", 1)));
        assert_eq!(owner(&map, 100), Some(&node("asked", 3)));
        assert_eq!(map.nodes().len(), 2);
        map.moved(100, node("c", 5));
        assert_eq!(owner(&map, 100), Some(&node("c", 5)));
        assert_eq!(owner(&map, 101), Some(&node("asked", 3)));
        assert_eq!(SlotMap::default().owner(0), None);
    }

    #[test]
    fn a_node_goes_by_the_host_name_that_it_announces_where_names_count() {
        let text = |text: &'static str| Reply::Bulk(Some(text.as_bytes()));
        let server = |host, port, name| {
            let more = Reply::Array(vec![text("hostname"), text(name)]);
            Reply::Array(vec![text(host), Reply::Integer(port), text("id"), more])
        };
        let range = |first, last, servers: Vec<_>| {
            let bounds = [Reply::Integer(first), Reply::Integer(last)];
            Reply::Array(bounds.into_iter().chain(servers).collect())
        };
        let reply = Reply::Array(vec![
            range(0, 99, vec![server("10.0.0.1", 1, "one"), server("10.0.0.2", 2, "two")]),
            range(100, 199, vec![server("10.0.0.3", 3, "")]),
        ]);
        let read = |by_name| SlotMap::read(&reply, &node("asked", 9), by_name).unwrap();
        assert_eq!(owner(&read(false), 0), Some(&node("10.0.0.1", 1)));
        let map = read(true);
        assert_eq!(map.nodes(), [node("one", 1), node("10.0.0.3", 3)]);
        assert_eq!(owner(&map, 100), Some(&node("10.0.0.3", 3)));
        // Redirections name nodes as their peers do.
        assert_eq!(map.known_as(node("10.0.0.1", 1)), node("one", 1));
        assert_eq!(map.known_as(node("10.0.0.2", 2)), node("two", 2), "after a fail-over");
        assert_eq!(map.known_as(node("10.0.0.9", 2)), node("10.0.0.9", 2));
        let known = [("10.0.0.1", 1), ("one", 1), ("10.0.0.2", 2), ("10.0.0.3", 3)];
        assert!(known.into_iter().all(|(host, port)| map.knows(&node(host, port))));
        assert!(!map.knows(&node("10.0.0.9", 2)) && !map.knows(&node("10.0.0.1", 2)));
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
            assert!(SlotMap::read(&reply, &asked, true).is_none(), "{reply:?}");
        }
    }
}
