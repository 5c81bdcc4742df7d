//! What tracing systems hand on beside the parent, as `tracestate` says it (W3C Trace Context).

use http::{HeaderMap, HeaderName};

static TRACESTATE: HeaderName = HeaderName::from_static("tracestate");
/// Members that there may be.
const MOST_MEMBERS: usize = 32;
/// Bytes that are kept; the standard asks for that many. What is further left is newer.
const MOST_BYTES: usize = 512;
const MOST_KEY: usize = 256;

/// The state of a request with these headers, all lines as one; empty if there is none, or any of
/// it is not said as the standard has it.
pub(super) fn of(headers: &HeaderMap) -> Box<str> {
    let lines = headers.get_all(&TRACESTATE).iter().map(|line| line.to_str().ok());
    read(lines).unwrap_or_default().into_boxed_str()
}

fn read<'a>(lines: impl Iterator<Item = Option<&'a str>>) -> Option<String> {
    let (mut kept, mut members, mut is_full) = (String::new(), 0, false);
    for line in lines {
        for member in line?.split(',').map(|part| part.trim_matches([' ', '\t'])) {
            if member.is_empty() {
                continue;
            }
            members += 1;
            let (key, value) = member.split_once('=')?;
            if members > MOST_MEMBERS || !is_key(key) || !is_value(value) {
                return None;
            }
            is_full |= kept.len() + 1 + member.len() > MOST_BYTES;
            if !is_full {
                kept.extend((!kept.is_empty()).then_some(','));
                kept.push_str(member);
            }
        }
    }
    Some(kept)
}

fn is_key(key: &str) -> bool {
    let may_begin = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let may_follow = |byte: &u8| may_begin(byte) || b"_-*/@".contains(byte);
    let bytes = key.as_bytes();
    bytes.len() <= MOST_KEY && bytes.first().is_some_and(may_begin) && bytes.iter().all(may_follow)
}

fn is_value(value: &str) -> bool {
    (1..=256).contains(&value.len())
        && value.bytes().all(|byte| matches!(byte, b' '..=b'~') && byte != b'=')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(lines: &[&str]) -> String {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append("tracestate", line.parse().unwrap());
        }
        of(&headers).into_string()
    }

    #[test]
    fn lines_are_one_state_in_their_order() {
        assert_eq!(state(&[]), "");
        assert_eq!(state(&["a=1"]), "a=1");
        assert_eq!(state(&["rojo=00f067aa0ba902b7 , congo=t61", "", " t@v=x y,"]), {
            "rojo=00f067aa0ba902b7,congo=t61,t@v=x y"
        });
    }

    #[test]
    fn what_the_standard_does_not_know_is_no_state() {
        for bad in ["a", "=1", "a=", "A=1", "a=1=2", "a b=1", "a=1\tb", "-a=1"] {
            assert_eq!(state(&["b=2", bad]), "", "{bad}");
        }
        let many: Vec<_> = (0..33).map(|at| format!("k{at}=v")).collect();
        assert_eq!(state(&[&many.join(",")]), "");
        assert_eq!(state(&[&many[1..].join(",")]), many[1..].join(","));
    }

    #[test]
    fn of_a_long_one_whole_members_are_kept_and_the_newest_first() {
        let members: Vec<_> = (0..4).map(|at| format!("k{at}={}", "v".repeat(200))).collect();
        assert_eq!(state(&[&members.join(",")]), members[..2].join(","));
    }
}
