//! Where a door is: an address of the network, or a socket file of this machine.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

const UNIX: &str = "unix:";

/// Where to listen.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Address {
    /// Address and port.
    Tcp(SocketAddr),
    /// The path of a socket file.
    Unix(PathBuf),
}

/// A text that names no place to listen.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no address, such as 127.0.0.1:8080 or unix:/run/tidegate.sock")]
pub struct NoAddress(String);

impl FromStr for Address {
    type Err = NoAddress;

    fn from_str(text: &str) -> Result<Self, NoAddress> {
        match text.strip_prefix(UNIX) {
            Some(path) if path.starts_with('/') => Ok(Self::Unix(PathBuf::from(path))),
            Some(_) => Err(NoAddress(text.to_owned())),
            None => text.parse().map(Self::Tcp).map_err(|_| NoAddress(text.to_owned())),
        }
    }
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        Self::Tcp(address)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "{address}"),
            Self::Unix(path) => write!(f, "{UNIX}{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_is_said_as_it_is_read() {
        for text in ["127.0.0.1:8080", "[::1]:0", "unix:/run/tidegate.sock"] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["", "8080", "localhost:80", "unix:", "unix:tidegate.sock"] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }
}
