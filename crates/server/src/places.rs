//! The places that open sockets take: as many as there are, and not all of them by one peer.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::listen::OpeningStats;

/// Bits of an address of IPv6 that tell peers apart: one of them has all that follow.
const PEER_BITS: u32 = 64;

/// Who is connected, as one of those among whom places are shared out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Peer {
    V4(u32),
    V6(u64),
}

impl Peer {
    fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self::V4(address.to_bits()),
            IpAddr::V6(address) => Self::V6((address.to_bits() >> PEER_BITS) as u64),
        }
    }
}

/// The most sockets at all workers together, and those that are open.
#[derive(Debug)]
pub struct Places {
    most: usize,
    most_of_a_peer: usize,
    stats: Arc<OpeningStats>,
    /// Only the acceptor adds to it. Orders nothing else: `Relaxed`.
    open: AtomicUsize,
    // Guards how many each peer has; none has 0.
    peers: Mutex<HashMap<Peer, usize>>,
}

impl Places {
    /// So many places, and so many for one peer; who is turned away is counted.
    pub fn new(most: usize, most_of_a_peer: usize, stats: Arc<OpeningStats>) -> Arc<Self> {
        let (open, peers) = (AtomicUsize::new(0), Mutex::default());
        Arc::new(Self { most, most_of_a_peer, stats, open, peers })
    }

    /// Takes a place at a worker for a socket of this address; none of the network: a socket file,
    /// whose peers are all of this machine and share what there is. To be called by one thread.
    pub fn take(self: &Arc<Self>, here: &Arc<Here>, address: Option<IpAddr>) -> Option<Place> {
        if self.open.load(Ordering::Relaxed) >= self.most {
            self.stats.full.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        let peer = address.map(Peer::of);
        if let Some(peer) = peer {
            let mut peers = self.peers.lock();
            let count = peers.entry(peer).or_default();
            if *count >= self.most_of_a_peer {
                self.stats.crowded.fetch_add(1, Ordering::Relaxed);
                return None;
            }
            *count += 1;
        }
        self.open.fetch_add(1, Ordering::Relaxed);
        here.open.fetch_add(1, Ordering::Relaxed);
        let (places, here) = (Arc::clone(self), Arc::clone(here));
        Some(Place(Box::new(Taken { places, here, peer })))
    }
}

/// The sockets of one worker.
#[derive(Debug, Default)]
pub struct Here {
    /// Orders nothing else: `Relaxed`.
    open: AtomicUsize,
    /// There was none left.
    none_left: Notify,
}

impl Here {
    /// Waits until none is open; for one to wait.
    pub async fn end(&self) {
        while self.open.load(Ordering::Relaxed) > 0 {
            self.none_left.notified().await;
        }
    }
}

/// One socket's place, given back when dropped. One word, for the task of a connection counts them.
#[derive(Debug)]
pub struct Place(Box<Taken>);

#[derive(Debug)]
struct Taken {
    places: Arc<Places>,
    here: Arc<Here>,
    peer: Option<Peer>,
}

impl Drop for Place {
    fn drop(&mut self) {
        let Taken { places, here, peer } = &*self.0;
        if let Some(peer) = peer {
            let mut peers = places.peers.lock();
            match peers.get_mut(peer) {
                Some(count) if *count > 1 => *count -= 1,
                _ => drop(peers.remove(peer)),
            }
        }
        places.open.fetch_sub(1, Ordering::Relaxed);
        if here.open.fetch_sub(1, Ordering::Relaxed) == 1 {
            here.none_left.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Door(Arc<Places>, Arc<Here>);

    impl Door {
        fn new(most: usize, most_of_a_peer: usize) -> Self {
            Self(Places::new(most, most_of_a_peer, Arc::default()), Arc::default())
        }

        fn take(&self, address: &str) -> Option<Place> {
            self.0.take(&self.1, Some(address.parse().unwrap()))
        }

        fn turned_away(&self) -> (u64, u64) {
            let get = |total: &std::sync::atomic::AtomicU64| total.load(Ordering::Relaxed);
            (get(&self.0.stats.full), get(&self.0.stats.crowded))
        }
    }

    #[test]
    fn one_peer_leaves_places_to_others() {
        let door = Door::new(4, 3);
        let mut crowd: Vec<_> = (0..3).map(|_| door.take("192.0.2.1").unwrap()).collect();
        assert!(door.take("192.0.2.1").is_none());
        let other = door.take("192.0.2.2");
        assert!(other.is_some() && door.take("192.0.2.3").is_none());
        assert_eq!(door.turned_away(), (1, 1));
        drop(other);
        crowd.pop();
        assert!(door.take("192.0.2.1").is_some(), "a place that was given back");
    }

    #[test]
    fn a_network_of_ipv6_is_one_peer_and_an_address_of_ipv4_is_one_however_written() {
        let door = Door::new(100, 1);
        let _held = ["2001:db8:0:1::1", "192.0.2.1"].map(|address| door.take(address).unwrap());
        for same in ["2001:db8:0:1:ffff::2", "::ffff:192.0.2.1"] {
            assert!(door.take(same).is_none(), "{same}");
        }
        for other in ["2001:db8:0:2::1", "192.0.2.2", "::ffff:192.0.2.3"] {
            assert!(door.take(other).is_some(), "{other}");
        }
    }

    #[test]
    fn peers_of_a_socket_file_share_all_places() {
        let door = Door::new(3, 1);
        let held: Vec<_> = (0..3).map(|_| door.0.take(&door.1, None).unwrap()).collect();
        assert!(door.0.take(&door.1, None).is_none());
        drop(held);
        assert_eq!(door.turned_away(), (1, 0));
    }

    #[test]
    fn who_has_left_is_not_remembered() {
        let door = Door::new(1000, 2);
        for last in 0..=255 {
            drop((door.take(&format!("192.0.2.{last}")), door.take(&format!("192.0.2.{last}"))));
        }
        assert!(door.0.peers.lock().is_empty());
    }
}
