//! One attempt to reach the master: from sentinel to sentinel, within one budget.

use std::time::Duration;

use super::Sentinels;
use crate::clock::Deadline;
use crate::redis::options::Address;

/// Who is asked next and how long that may take. None takes the time of those after it.
#[derive(Debug)]
pub(in crate::redis) struct Tour<'s> {
    sentinels: &'s Sentinels,
    until: Deadline,
    first: usize,
    asked: usize,
    /// Masters that were tried: two sentinels that name the same one are no reason to try twice.
    tried: Vec<Address>,
    failures: Vec<String>,
}

impl<'s> Tour<'s> {
    /// Begins with who knew the master last.
    pub(in crate::redis) fn new(sentinels: &'s Sentinels, budget: Duration) -> Self {
        Self {
            sentinels,
            until: Deadline::after(budget),
            first: sentinels.first(),
            asked: 0,
            tried: Vec::new(),
            failures: Vec::new(),
        }
    }

    /// The next sentinel, and how long the question to it may take; as long again is left for its
    /// master.
    pub(in crate::redis) fn next(&mut self) -> Option<(&'s Address, Duration)> {
        let nodes = &self.sentinels.nodes;
        let remaining = nodes.len().checked_sub(self.asked).filter(|remaining| *remaining > 0)?;
        let node = &nodes[(self.first + self.asked) % nodes.len()];
        self.asked += 1;
        Some((node, self.until.left() / (2 * remaining as u32)))
    }

    /// Whether to connect to the master that the last one named, and how long that may take.
    pub(in crate::redis) fn visit(&mut self, master: &Address) -> Option<Duration> {
        if self.tried.contains(master) {
            return None;
        }
        self.tried.push(master.clone());
        let remaining = self.sentinels.nodes.len() - self.asked;
        Some(self.until.left() / (remaining as u32 + 1))
    }

    pub(in crate::redis) fn failed(&mut self, why: String) {
        self.failures.push(why);
    }

    /// The last one asked led to the master.
    pub(in crate::redis) fn found(&self) {
        let count = self.sentinels.nodes.len();
        self.sentinels.found_by((self.first + self.asked - 1) % count);
    }

    /// Why none did.
    pub(in crate::redis) fn why(self) -> String {
        format!("no master of {}: {}", self.sentinels.service, self.failures.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sentinels() -> Sentinels {
        Sentinels::parse("a,b,c", "main").unwrap()
    }

    fn hosts(sentinels: &Sentinels) -> Vec<String> {
        let mut tour = Tour::new(sentinels, Duration::from_secs(1));
        std::iter::from_fn(|| tour.next().map(|(node, _)| node.to_string())).collect()
    }

    #[test]
    fn all_are_asked_and_first_who_knew_the_master_last() {
        let sentinels = sentinels();
        assert_eq!(hosts(&sentinels), ["a:26379", "b:26379", "c:26379"]);
        let mut tour = Tour::new(&sentinels, Duration::from_secs(1));
        assert!(tour.next().is_some() && tour.next().is_some());
        tour.found();
        assert_eq!(hosts(&sentinels), ["b:26379", "c:26379", "a:26379"]);
    }

    #[test]
    fn no_sentinel_takes_the_time_of_those_after_it() {
        let sentinels = sentinels();
        let mut tour = Tour::new(&sentinels, Duration::from_secs(6));
        let (_, span) = tour.next().unwrap();
        assert!(span <= Duration::from_secs(1), "{span:?}");
        let master = Address::Tcp("m".into(), 1);
        let span = tour.visit(&master).unwrap();
        assert!(span <= Duration::from_secs(2), "{span:?}");
        assert_eq!(tour.visit(&master), None);
        tour.next();
        let (_, span) = tour.next().unwrap();
        assert!(span > Duration::from_secs(2), "{span:?}");
    }
}
