//! All prefixes of a value that are in a set, without trying each.

/// A sorted set of prefixes; each knows the longest other one that it begins with.
#[derive(Debug, Default)]
pub struct Prefixes {
    rows: Vec<PrefixRow>,
}

#[derive(Debug)]
struct PrefixRow {
    text: Box<[u8]>,
    parent: Option<u32>,
    rules: Vec<u32>,
}

impl Prefixes {
    /// Builds the set from (prefix, rule) pairs.
    pub fn build(mut pairs: Vec<(Box<[u8]>, u32)>) -> Self {
        pairs.sort();
        let mut rows: Vec<PrefixRow> = Vec::new();
        for (text, rule) in pairs {
            match rows.last_mut() {
                Some(row) if row.text == text => row.rules.push(rule),
                _ => {
                    let parent = nearest(&rows, rows.len().checked_sub(1), &text);
                    rows.push(PrefixRow { text, parent, rules: vec![rule] });
                }
            }
        }
        Self { rows }
    }

    /// Calls `visit` with the rules of every prefix that `value` begins with.
    #[inline]
    pub fn each(&self, value: &[u8], mut visit: impl FnMut(&[u32])) {
        if self.rows.is_empty() {
            return;
        }
        let after = self.rows.partition_point(|row| *row.text <= *value);
        let mut at = nearest(&self.rows, after.checked_sub(1), value);
        while let Some(row) = at.map(|at| &self.rows[at as usize]) {
            visit(&row.rules);
            at = row.parent;
        }
    }
}

/// The row nearest to `from`, following parents, that `value` begins with: the longest there is,
/// because every prefix of `value` sorts before it and is a prefix of what stands between.
fn nearest(rows: &[PrefixRow], from: Option<usize>, value: &[u8]) -> Option<u32> {
    let mut at = from.map(|at| at as u32);
    while let Some(row) = at.map(|at| &rows[at as usize]) {
        if value.starts_with(&row.text) {
            return at;
        }
        at = row.parent;
    }
    None
}
