//! Texts with a place for a number.

/// Fills in a template: `{i}` is the number, `{i%N}` that modulo N. Other braces are text.
pub fn fill(template: &str, index: usize) -> Result<String, String> {
    let Some((before, rest)) = template.split_once("{i") else { return Ok(template.to_owned()) };
    let bad = || format!("{template:?}: a placeholder is {{i}} or {{i%N}}");
    let (inside, after) = rest.split_once('}').ok_or_else(bad)?;
    let number = match inside.strip_prefix('%') {
        None if inside.is_empty() => index,
        None => return Err(bad()),
        Some(modulus) => index.checked_rem(modulus.parse().map_err(|_| bad())?).ok_or_else(bad)?,
    };
    Ok(format!("{before}{number}{}", fill(after, index)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_filled() {
        assert_eq!(fill("key-{i}", 12), Ok("key-12".to_owned()));
        assert_eq!(fill("{i%10}-{i}", 12), Ok("2-12".to_owned()));
        assert_eq!(fill(r#"{"k":"{i}"}"#, 3), Ok(r#"{"k":"3"}"#.to_owned()));
        assert!(fill("{ix}", 1).is_err());
        assert!(fill("{i%0}", 1).is_err());
    }
}
