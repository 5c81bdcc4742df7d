//! The forms in which a client may be told, by their names in settings.

/// Which headers tell a client where it stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HeaderProfile {
    /// `x-ratelimit-limit`, `-remaining`, `-reset` (epoch seconds), `-used`, `-resource`.
    #[default]
    Github,
    /// `x-ratelimit-limit`, `-remaining`, `-reset` (seconds from now), as Envoy makes them.
    Draft03,
    /// `ratelimit-policy` and `ratelimit`, as the current draft and the next one read them.
    Ietf,
    /// None; a denial still says `retry-after`.
    Off,
}

impl HeaderProfile {
    /// All of them, by name.
    pub const NAMES: [(&'static str, Self); 4] = [
        ("github", Self::Github),
        ("draft03", Self::Draft03),
        ("ietf", Self::Ietf),
        ("off", Self::Off),
    ];

    /// The profile of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::NAMES.into_iter().find(|(known, _)| *known == name).map(|(_, profile)| profile)
    }
}
