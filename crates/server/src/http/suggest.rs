//! "Did you mean": the nearest of few known words.

/// The known word that differs from `word` in least letters, if it is near enough to be meant.
pub fn nearest<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    if word.is_empty() || word.len() > 64 {
        return None;
    }
    let most = word.len().div_ceil(3).min(3);
    let distances = known.iter().map(|known| (distance(word.as_bytes(), known.as_bytes()), *known));
    distances.filter(|(distance, _)| *distance <= most).min().map(|(_, known)| known)
}

/// Letters to insert, remove or replace (Levenshtein), row by row.
fn distance(a: &[u8], b: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (at, left) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = at + 1;
        for (column, right) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(left != right);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_words_are_suggested_and_far_ones_are_not() {
        let known = ["domain", "descriptors", "cost"];
        assert_eq!(nearest("descriptor", &known), Some("descriptors"));
        assert_eq!(nearest("domian", &known), Some("domain"));
        assert_eq!(nearest("costs", &known), Some("cost"));
        assert_eq!(nearest("tenant", &known), None);
        assert_eq!(nearest("", &known), None);
    }
}
