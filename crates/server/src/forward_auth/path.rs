//! A path in the one spelling that limits are written for.

/// What is the same path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spelling {
    /// Capital letters are small ones.
    pub folds_case: bool,
    /// `/a/` is another path than `/a`.
    pub keeps_trailing_slash: bool,
}

/// The path of a URI without its query: percent signs decoded once, dot segments resolved, no
/// empty segments. So what reaches one handler by another spelling meets the same limits.
pub fn normalized(uri: &[u8], spelling: Spelling) -> Vec<u8> {
    let uri = without_origin(uri.trim_ascii());
    let end = uri.iter().position(|byte| matches!(byte, b'?' | b'#')).unwrap_or(uri.len());
    let mut path = decoded(&uri[..end]);
    if spelling.folds_case {
        path.make_ascii_lowercase();
    }
    let mut segments: Vec<&[u8]> = Vec::new();
    let mut is_open = true;
    for segment in path.split(|byte| *byte == b'/') {
        is_open = matches!(segment, b"" | b"." | b"..");
        match segment {
            b"" | b"." => {}
            b".." => {
                segments.pop();
            }
            name => segments.push(name),
        }
    }
    let mut out = Vec::with_capacity(path.len() + 1);
    for segment in &segments {
        out.push(b'/');
        out.extend_from_slice(segment);
    }
    if out.is_empty() || (is_open && spelling.keeps_trailing_slash) {
        out.push(b'/');
    }
    out
}

/// What follows `http://host`; proxies that are asked so pass it on so.
fn without_origin(uri: &[u8]) -> &[u8] {
    let Some(colon) = uri.iter().position(|byte| matches!(byte, b'/' | b'?' | b'#' | b':')) else {
        return uri;
    };
    let Some(rest) = uri[colon..].strip_prefix(b"://") else { return uri };
    let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?' | b'#'));
    end.map_or(b"/", |end| &rest[end..])
}

fn decoded(path: &[u8]) -> Vec<u8> {
    let digit = |byte: Option<&u8>| char::from(*byte?).to_digit(16);
    let mut out = Vec::with_capacity(path.len());
    let mut at = 0;
    while let Some(byte) = path.get(at) {
        let pair = (digit(path.get(at + 1)), digit(path.get(at + 2)));
        if let (b'%', (Some(high), Some(low))) = (byte, pair) {
            out.push((high << 4 | low) as u8);
            at += 3;
        } else {
            out.push(*byte);
            at += 1;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn path(uri: &str, spelling: Spelling) -> String {
        String::from_utf8(normalized(uri.as_bytes(), spelling)).unwrap()
    }

    #[test]
    fn spellings_of_a_path_are_one() {
        let same = [
            "/lang",
            "/lang/",
            "//lang",
            "/./lang",
            "/%6Cang",
            "/lang?x=1",
            "/lang#x",
            "/x/../lang",
            "/x/%2e%2E/lang",
            "/%2flang",
            "/../lang",
            "http://shop.example/lang",
            "/lang/.",
            "HTTPS://shop.example//lang?x",
            "lang",
        ];
        for uri in same {
            assert_eq!(path(uri, Spelling::default()), "/lang", "{uri}");
        }
        for uri in ["/", "", "//", "/..", "http://shop.example", "http://shop.example?x", "?x"] {
            assert_eq!(path(uri, Spelling::default()), "/", "{uri}");
        }
        for (uri, other) in [("/LANG", "/LANG"), ("/%256Cang", "/%6Cang"), ("/a%zz%2", "/a%zz%2")] {
            assert_eq!(path(uri, Spelling::default()), other);
        }
    }

    #[test]
    fn case_and_trailing_slash_are_as_the_application_takes_them() {
        let folds = Spelling { folds_case: true, ..Spelling::default() };
        assert_eq!(path("/LaNG/%41", folds), "/lang/a");
        let keeps = Spelling { keeps_trailing_slash: true, ..Spelling::default() };
        assert_eq!(path("/lang/", keeps), "/lang/");
        assert_eq!(path("/lang/x/..", keeps), "/lang/");
        assert_eq!(path("/lang", keeps), "/lang");
        assert_eq!(path("//", keeps), "/");
    }

    proptest! {
        #[test]
        fn random_bytes_become_a_path_without_dots(
            uri in prop::collection::vec(any::<u8>(), 0..80),
        ) {
            let path = normalized(&uri, Spelling::default());
            prop_assert_eq!(path.first(), Some(&b'/'));
            let mut segments = path[1..].split(|byte| *byte == b'/');
            prop_assert!(path == b"/" || segments.all(|it| !matches!(it, b"" | b"." | b"..")));
        }
    }
}
