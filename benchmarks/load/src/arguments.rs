//! Command lines of the form `--name value` and `--flag`.

use std::collections::HashMap;
use std::str::FromStr;

/// Parsed arguments; each is taken once, and what is left over is an error.
#[derive(Debug)]
pub struct Arguments(HashMap<String, String>);

impl Arguments {
    /// Reads this process's command line. `flags` are the names that take no value.
    pub fn from_env(flags: &[&str]) -> Result<Self, String> {
        Self::parse(std::env::args().skip(1), flags)
    }

    fn parse(words: impl Iterator<Item = String>, flags: &[&str]) -> Result<Self, String> {
        let mut found = HashMap::new();
        let mut words = words;
        while let Some(word) = words.next() {
            let Some(name) = word.strip_prefix("--") else {
                return Err(format!("unexpected {word:?}; arguments are --name value"));
            };
            let value = if flags.contains(&name) {
                String::new()
            } else {
                words.next().ok_or_else(|| format!("--{name} lacks its value"))?
            };
            if found.insert(name.to_owned(), value).is_some() {
                return Err(format!("--{name} is given twice"));
            }
        }
        Ok(Self(found))
    }

    /// Whether a flag was given.
    pub fn flag(&mut self, name: &str) -> bool {
        self.0.remove(name).is_some()
    }

    /// A value, if it was given.
    pub fn optional<T: FromStr>(&mut self, name: &str) -> Result<Option<T>, String> {
        let parse = |text: String| {
            text.parse().map_err(|_| format!("--{name} {text:?} is not of the right form"))
        };
        self.0.remove(name).map(parse).transpose()
    }

    /// A value, or what stands in for it.
    pub fn or<T: FromStr>(&mut self, name: &str, default: T) -> Result<T, String> {
        Ok(self.optional(name)?.unwrap_or(default))
    }

    /// Refuses what nobody asked for.
    pub fn finish(self) -> Result<(), String> {
        match self.0.into_keys().min() {
            None => Ok(()),
            Some(name) => Err(format!("unknown argument --{name}")),
        }
    }
}

/// Bytes from hexadecimal digits.
pub fn from_hex(digits: &str) -> Result<Vec<u8>, String> {
    let pairs = digits.as_bytes().chunks(2);
    let byte = |pair: &[u8]| {
        let text = std::str::from_utf8(pair).ok().filter(|_| pair.len() == 2)?;
        u8::from_str_radix(text, 16).ok()
    };
    pairs.map(byte).collect::<Option<_>>().ok_or_else(|| format!("{digits:?} is not hexadecimal"))
}

/// Hexadecimal digits of bytes.
pub fn to_hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |value: u8| char::from(DIGITS[usize::from(value & 15)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(*byte)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Arguments, String> {
        Arguments::parse(line.split_whitespace().map(str::to_owned), &["once"])
    }

    #[test]
    fn values_flags_and_defaults() {
        let mut arguments = parse("--once --keys 10").unwrap();
        assert!(arguments.flag("once"));
        assert_eq!(arguments.or("keys", 1), Ok(10));
        assert_eq!(arguments.or("streams", 64), Ok(64));
        assert_eq!(arguments.finish(), Ok(()));
    }

    #[test]
    fn mistakes_are_named() {
        assert!(parse("--keys").unwrap_err().contains("--keys"));
        assert!(parse("keys").unwrap_err().contains("keys"));
        assert!(parse("--a 1 --a 2").unwrap_err().contains("twice"));
        assert!(parse("--keys x").unwrap().or("keys", 1).unwrap_err().contains("--keys"));
        assert!(parse("--kyes 1").unwrap().finish().unwrap_err().contains("--kyes"));
    }

    #[test]
    fn hex_round_trips() {
        assert_eq!(from_hex("00ff1a"), Ok(vec![0, 255, 26]));
        assert_eq!(to_hex(&[0, 255, 26]), "00ff1a");
        assert!(from_hex("0").is_err());
        assert!(from_hex("zz").is_err());
    }
}
