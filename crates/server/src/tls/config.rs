//! From certificate files to what the TLS library serves with.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};

use super::clients::{Listed, UriPattern};

/// What a client may choose from. One that chooses nothing is served by what it sends.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// Where certificates lie, in PEM.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// The server's certificate, and those between it and its authority.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// Authorities of clients; none: clients need no certificate.
    pub client_authorities: Option<PathBuf>,
    /// Which clients of these authorities may come; empty: all.
    pub client_uris: Vec<UriPattern>,
}

/// Certificates that cannot be used: which file, and why.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read: {source}: {}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A file does not hold what it should.
    #[error("{why}: {}", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// What is wrong with it, and what to do.
        why: String,
    },
}

impl TlsError {
    /// The file that cannot be used.
    pub fn path(&self) -> &Path {
        match self {
            Self::Unreadable { path, .. } | Self::Unusable { path, .. } => path,
        }
    }
}

/// The files' contents, as they were at one time.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Contents {
    certificate: Vec<u8>,
    key: Vec<u8>,
    authorities: Option<Vec<u8>>,
}

impl TlsFiles {
    /// Reads all files.
    pub(super) fn read(&self) -> Result<Contents, TlsError> {
        Ok(Contents {
            certificate: read(&self.certificate)?,
            key: read(&self.key)?,
            authorities: self.client_authorities.as_deref().map(read).transpose()?,
        })
    }

    /// What the library serves with.
    pub(super) fn config(&self, contents: &Contents) -> Result<Arc<ServerConfig>, TlsError> {
        let chain = certificates(&self.certificate, &contents.certificate)?;
        let key = PrivateKeyDer::from_pem_slice(&contents.key).map_err(|error| match error {
            pem::Error::NoItemsFound => unusable(&self.key, "no PEM private key in this file"),
            error => unusable(&self.key, format!("no PEM private key: {error}")),
        })?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| unusable(&self.certificate, error.to_string()))?;
        let builder = match (&self.client_authorities, &contents.authorities) {
            (Some(path), Some(bytes)) => {
                let signed = WebPkiClientVerifier::builder_with_provider(
                    authorities(path, bytes)?,
                    provider,
                )
                .build()
                .map_err(|error| unusable(path, error.to_string()))?;
                let uris = self.client_uris.clone();
                builder.with_client_cert_verifier(Arc::new(Listed { signed, uris }))
            }
            _ => builder.with_no_client_auth(),
        };
        let mut config = builder.with_single_cert(chain, key).map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => {
                unusable(&self.key, "not the key of the certificate")
            }
            error => unusable(&self.certificate, error.to_string()),
        })?;
        config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).to_vec();
        Ok(Arc::new(config))
    }
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    fs::read(path).map_err(|source| TlsError::Unreadable { path: path.to_owned(), source })
}

fn unusable(path: &Path, why: impl Into<String>) -> TlsError {
    TlsError::Unusable { path: path.to_owned(), why: why.into() }
}

fn certificates(path: &Path, bytes: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(bytes).collect();
    let found = found.map_err(|error| unusable(path, format!("no PEM certificates: {error}")))?;
    if found.is_empty() {
        return Err(unusable(path, "no PEM certificate in this file"));
    }
    Ok(found)
}

fn authorities(path: &Path, bytes: &[u8]) -> Result<Arc<RootCertStore>, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path, bytes)? {
        roots.add(certificate).map_err(|error| unusable(path, error.to_string()))?;
    }
    Ok(Arc::new(roots))
}
