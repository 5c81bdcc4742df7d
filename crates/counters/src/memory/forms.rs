//! What many counters share, kept once: their limit, algorithm and rate.

use std::collections::HashMap;

use tidegate_core::Algorithm;

/// The form of a record's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Form {
    /// The limit that the record belongs to.
    pub limit: u32,
    /// The algorithm that packed it.
    pub algorithm: Algorithm,
    /// Units that drain in a period; 0 except in buckets.
    pub n: u64,
    /// Microseconds; 0 while the record holds no state.
    pub period_us: u64,
}

impl Form {
    /// The form of a record of this limit that holds no state yet.
    pub const fn empty(limit: u32) -> Self {
        Self { limit, algorithm: Algorithm::TokenBucket, n: 0, period_us: 0 }
    }
}

/// A form's number within its shard.
pub type FormId = u32;

/// The forms that a shard has seen: as many as its limits have rates.
#[derive(Debug, Default)]
pub struct Forms {
    list: Vec<Form>,
    ids: HashMap<Form, FormId>,
}

impl Forms {
    /// The form of that number.
    #[inline]
    pub fn get(&self, id: FormId) -> Form {
        self.list[id as usize]
    }

    /// The number of a form; `last` is the one that it probably has.
    #[inline]
    pub fn id(&mut self, form: Form, last: FormId) -> FormId {
        if self.list.get(last as usize) == Some(&form) { last } else { self.find(form) }
    }

    fn find(&mut self, form: Form) -> FormId {
        let next = self.list.len() as FormId;
        let id = *self.ids.entry(form).or_insert(next);
        if id == next {
            self.list.push(form);
        }
        id
    }
}
