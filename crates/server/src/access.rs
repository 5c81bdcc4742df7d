//! Who may ask at all, and who may reset counters and give units back: holders of tokens.

use http::HeaderMap;
use http::header::AUTHORIZATION;

/// The token that `authorization: Bearer TOKEN` must carry for resets and refunds. Never printed.
#[derive(Clone, Default)]
pub struct AdminToken(Option<Box<[u8]>>);

/// Why a caller is no administrator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denied {
    /// The server has no token, so nobody is.
    Disabled,
    /// The caller showed none.
    Missing,
    /// The caller showed another.
    Wrong,
}

impl Denied {
    /// What one may do who asks at a door without its token.
    pub const fn door_advice(self) -> &'static str {
        match self {
            Self::Missing | Self::Disabled => {
                "this server wants a token: send it as `authorization: Bearer TOKEN`"
            }
            Self::Wrong => "this is no token of this server",
        }
    }

    /// What to do about it.
    pub const fn advice(self) -> &'static str {
        match self {
            Self::Disabled => "this server has none; start it with --admin-token",
            Self::Missing => "send the admin token as `authorization: Bearer TOKEN`",
            Self::Wrong => "this is not the server's admin token",
        }
    }
}

impl AdminToken {
    /// A token; none, or an empty one, lets nobody in.
    pub fn new(token: Option<&str>) -> Self {
        Self(token.filter(|token| !token.is_empty()).map(|token| Box::from(token.as_bytes())))
    }

    /// Passes a caller whose headers carry the token.
    ///
    /// # Errors
    /// Why not.
    pub fn check(&self, headers: &HeaderMap) -> Result<(), Denied> {
        let Some(token) = &self.0 else { return Err(Denied::Disabled) };
        let header = headers.get(AUTHORIZATION).map(http::HeaderValue::as_bytes);
        let shown = header.and_then(bearer).ok_or(Denied::Missing)?;
        if is_same(token, shown) { Ok(()) } else { Err(Denied::Wrong) }
    }
}

/// The token that every question must carry, if there is one. The admin token will do as well,
/// since a request carries one token. Never printed.
#[derive(Clone, Default)]
pub struct DoorToken(AdminToken);

impl DoorToken {
    /// A token; none, or an empty one, lets everybody in.
    pub fn new(token: Option<&str>) -> Self {
        Self(AdminToken::new(token))
    }

    /// Passes a caller whose headers carry this token or the admin's; anybody, if there is none.
    ///
    /// # Errors
    /// Why not.
    #[inline]
    pub fn check(&self, headers: &HeaderMap, admin: &AdminToken) -> Result<(), Denied> {
        if self.0.0.is_none() {
            return Ok(());
        }
        self.0.check(headers).or_else(|denied| admin.check(headers).map_err(|_| denied))
    }
}

impl std::fmt::Debug for DoorToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.0.is_some() { "DoorToken(***)" } else { "DoorToken(none)" })
    }
}

impl std::fmt::Debug for AdminToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() { "AdminToken(***)" } else { "AdminToken(none)" })
    }
}

/// The scheme's name is case-insensitive (RFC 9110, 11.1).
fn bearer(header: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = header.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii())
}

/// Compares every byte, so that the time taken does not tell how many are right.
fn is_same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(token: Option<&str>, header: Option<&str>) -> Result<(), Denied> {
        let mut headers = HeaderMap::new();
        if let Some(header) = header {
            headers.insert(AUTHORIZATION, header.parse().unwrap());
        }
        AdminToken::new(token).check(&headers)
    }

    #[test]
    fn only_the_token_passes() {
        assert_eq!(check(Some("s3cret"), Some("Bearer s3cret")), Ok(()));
        assert_eq!(check(Some("s3cret"), Some("bearer s3cret")), Ok(()));
        assert_eq!(check(Some("s3cret"), Some("Bearer s3cre")), Err(Denied::Wrong));
        assert_eq!(check(Some("s3cret"), Some("Bearer ")), Err(Denied::Wrong));
        assert_eq!(check(Some("s3cret"), Some("Basic s3cret")), Err(Denied::Missing));
        assert_eq!(check(Some("s3cret"), None), Err(Denied::Missing));
        assert_eq!(check(None, Some("Bearer s3cret")), Err(Denied::Disabled));
        assert_eq!(check(Some(""), Some("Bearer ")), Err(Denied::Disabled));
    }

    #[test]
    fn door_opens_to_its_token_and_to_the_admins() {
        let admin = AdminToken::new(Some("admin"));
        let enter = |token: Option<&str>, shown: Option<&str>| {
            let mut headers = HeaderMap::new();
            if let Some(shown) = shown {
                headers.insert(AUTHORIZATION, format!("Bearer {shown}").parse().unwrap());
            }
            DoorToken::new(token).check(&headers, &admin)
        };
        assert_eq!(enter(None, None), Ok(()));
        assert_eq!(enter(Some("door"), Some("door")), Ok(()));
        assert_eq!(enter(Some("door"), Some("admin")), Ok(()));
        assert_eq!(enter(Some("door"), Some("else")), Err(Denied::Wrong));
        assert_eq!(enter(Some("door"), None), Err(Denied::Missing));
        assert!(!format!("{:?}", DoorToken::new(Some("door"))).contains("(door)"));
    }

    #[test]
    fn token_is_not_printed() {
        assert!(!format!("{:?}", AdminToken::new(Some("s3cret"))).contains("s3cret"));
    }
}
