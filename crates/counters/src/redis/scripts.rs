//! The script, its hash, and the one place that makes its test form.

use std::sync::LazyLock;

use sha1::{Digest, Sha1};

const TEXT: &str = include_str!("lua/decide.lua");

/// A script as it is sent: whole, or by its hash.
#[derive(Debug)]
pub(super) struct Script {
    pub(super) text: String,
    /// SHA-1 in hex, by which the server knows it.
    pub(super) hash: String,
}

impl Script {
    fn new(text: String) -> Self {
        let digest = Sha1::digest(text.as_bytes());
        let hash = digest.iter().flat_map(|byte| [byte >> 4, byte & 15]).map(hex_digit).collect();
        Self { text, hash }
    }
}

fn hex_digit(nibble: u8) -> char {
    char::from_digit(u32::from(nibble), 16).unwrap_or_default()
}

static DECIDE: LazyLock<Script> = LazyLock::new(|| Script::new(TEXT.to_owned()));

/// The script that takes its time from the server; with a test's time, the one that takes it as
/// an argument and keeps keys a thousand times longer.
#[inline]
pub(super) fn decide(fake_now: Option<u64>) -> &'static Script {
    #[cfg(feature = "fake-clock")]
    if fake_now.is_some() {
        return &TEST_FORM;
    }
    #[cfg(not(feature = "fake-clock"))]
    let _ = fake_now;
    &DECIDE
}

#[cfg(feature = "fake-clock")]
static TEST_FORM: LazyLock<Script> = LazyLock::new(|| Script::new(test_form(TEXT)));

#[cfg(any(test, feature = "fake-clock"))]
fn test_form(text: &str) -> String {
    let body = text.split_once('\n').map_or("", |(_, body)| body);
    let stretched = body.replacen("\nlocal STRETCH = 1\n", "\nlocal STRETCH = 1000\n", 1);
    format!("local now = tonumber(ARGV[2])\n{stretched}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_test_form_differs_in_the_source_of_the_time_and_the_stretch_alone() {
        let form = test_form(TEXT);
        let differing: Vec<_> =
            TEXT.lines().zip(form.lines()).filter(|(ours, test)| ours != test).collect();
        assert_eq!(TEXT.lines().count(), form.lines().count());
        assert_eq!(differing.len(), 2, "{differing:?}");
        assert!(differing[0].0.starts_with("local clock = redis.call('TIME')"));
        assert_eq!(differing[0].1, "local now = tonumber(ARGV[2])");
        assert_eq!(differing[1], ("local STRETCH = 1", "local STRETCH = 1000"));
        assert_eq!(TEXT.matches("'TIME'").count(), 1);
    }

    #[test]
    fn the_hash_is_the_one_that_servers_compute() {
        let script = Script::new("return 1".into());
        assert_eq!(script.hash, "e0e1f9fabfc9d4800c877a703b823ac0578ff8db");
    }
}
