//! A process that keeps its counters in a file.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;
use tidegate_core::matching::Verb;
use tidegate_core::{Descriptor, Identities, Outcome, Plan, RuleSet};
use tidegate_counters::{LoadError, Loaded, MemoryOptions, MemoryStore, SaveTimes, Saved};

/// A file of this test, which goes with it.
pub struct Place(pub PathBuf);

impl Place {
    pub fn new() -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        Self(std::env::temp_dir().join(format!("tidegate-saved-{}-{number}", std::process::id())))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// One process: its store, its numbers of limits, its policy.
pub struct Process {
    pub store: MemoryStore,
    pub identities: Identities,
    pub rules: RuleSet,
}

impl Process {
    pub fn new(policy: &Value) -> Self {
        Self::with(policy, 10_000, Identities::default())
    }

    pub fn with(policy: &Value, max_counters: usize, mut identities: Identities) -> Self {
        let rules = RuleSet::load(policy.to_string().as_bytes(), &mut identities).unwrap();
        Self { store: MemoryStore::new(MemoryOptions { max_counters }), identities, rules }
    }

    pub fn call(&self, key: &str, verb: Verb, cost: u64, now: u64) -> Vec<Outcome> {
        let entries: &[(&[u8], &[u8])] = &[(b"key", key.as_bytes())];
        let request = [Descriptor { entries, costs: &[(b"requests", cost)], verb, rate: None }];
        let plan = Plan::new(self.rules.domain(b"d").unwrap(), &request, now).unwrap();
        self.store.decide(&plan, now).to_vec()
    }

    pub fn remaining(&self, key: &str, now: u64) -> Vec<u64> {
        self.call(key, Verb::Peek, 1, now).iter().map(|outcome| outcome.remaining).collect()
    }

    pub fn save(&self, path: &Path, clock_us: u64) -> Saved {
        self.save_at(path, clock_us, clock_us)
    }

    pub fn save_at(&self, path: &Path, clock_us: u64, wall_us: u64) -> Saved {
        self.store.save(path, &self.identities, SaveTimes { clock_us, wall_us }).unwrap()
    }

    pub fn load(&mut self, path: &Path, now: u64) -> Result<Option<Loaded>, LoadError> {
        self.store.load(path, &mut self.identities, now)
    }
}
