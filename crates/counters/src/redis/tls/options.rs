//! What a URL says of TLS, and the files that it names, read anew for each connection.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use rustls::client::WebPkiServerVerifier;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};

use super::any_name::AnyName;
use crate::redis::options::{Address, OptionsError, decode};

/// How a store is spoken to over TLS. Clones share what was last made of the files.
#[derive(Clone)]
pub struct TlsOptions {
    /// Authorities of the server's certificate, in PEM; `None`: those of the system.
    pub authorities: Option<PathBuf>,
    /// Our certificate and those between it and its authority, in PEM, for servers that demand
    /// one.
    pub certificate: Option<PathBuf>,
    /// Its key.
    pub key: Option<PathBuf>,
    /// False: a certificate of a trusted authority is taken whatever host it names.
    pub is_host_checked: bool,
    // Guards a comparison and a clone, never a read of a file.
    made: Arc<Mutex<Option<Made>>>,
}

/// What was last made, kept so that connections after the first resume their session.
struct Made {
    contents: Contents,
    config: Arc<ClientConfig>,
}

/// The files' contents, as they were at one time.
#[derive(PartialEq, Eq)]
struct Contents {
    authorities: Option<Vec<u8>>,
    certificate: Option<Vec<u8>>,
    key: Option<Vec<u8>>,
}

impl Default for TlsOptions {
    fn default() -> Self {
        Self {
            authorities: None,
            certificate: None,
            key: None,
            is_host_checked: true,
            made: Arc::default(),
        }
    }
}

impl PartialEq for TlsOptions {
    fn eq(&self, other: &Self) -> bool {
        let said = |it: &Self| (it.authorities.clone(), it.certificate.clone(), it.key.clone());
        said(self) == said(other) && self.is_host_checked == other.is_host_checked
    }
}

impl Eq for TlsOptions {}

impl fmt::Debug for TlsOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without what was made: a key is in it.
        f.debug_struct("TlsOptions")
            .field("authorities", &self.authorities)
            .field("certificate", &self.certificate)
            .field("key", &self.key)
            .field("is_host_checked", &self.is_host_checked)
            .finish_non_exhaustive()
    }
}

impl TlsOptions {
    /// What does not come from a server that says nothing to our hello, and what to do.
    pub(in crate::redis) const AWAITED: (&str, &str) =
        ("TLS handshake", "; use redis:// for a port without TLS");

    /// Takes a parameter of the URL whose name begins with `ssl_`.
    pub(in crate::redis) fn set(&mut self, name: &str, value: &str) -> Result<(), OptionsError> {
        let path = || match decode(value)? {
            path if path.is_empty() => Err(OptionsError::new(format!("{name} names no file"))),
            path => Ok(Some(PathBuf::from(path))),
        };
        match name {
            "ssl_ca_certs" => self.authorities = path()?,
            "ssl_certfile" => self.certificate = path()?,
            "ssl_keyfile" => self.key = path()?,
            "ssl_check_hostname" => {
                self.is_host_checked = match value.to_ascii_lowercase().as_str() {
                    "true" | "1" | "yes" => true,
                    "false" | "0" | "no" => false,
                    _ => {
                        let why = format!("ssl_check_hostname {value:?} is neither true nor false");
                        return Err(OptionsError::new(why));
                    }
                }
            }
            "ssl_cert_reqs" if value == "required" => {}
            "ssl_cert_reqs" => {
                return Err(OptionsError::new(format!(
                    "ssl_cert_reqs={value}: a server whose certificate nobody checks may be \
                     anybody; name its authority with ssl_ca_certs=/path/ca.pem"
                )));
            }
            other => {
                return Err(OptionsError::new(format!(
                    "unknown parameter {other:?}; TLS takes ssl_ca_certs, ssl_certfile, \
                     ssl_keyfile and ssl_check_hostname"
                )));
            }
        }
        Ok(())
    }

    /// Refuses what no connection could be made with.
    pub(in crate::redis) fn check(&self, address: &Address) -> Result<(), OptionsError> {
        for host in hosts(address)? {
            server_name(host).map_err(OptionsError::new)?;
        }
        match (&self.certificate, &self.key) {
            (Some(_), None) => {
                return Err(OptionsError::new("ssl_certfile without ssl_keyfile, its key"));
            }
            (None, Some(_)) => {
                return Err(OptionsError::new("ssl_keyfile without ssl_certfile, its certificate"));
            }
            _ => {}
        }
        self.config().map(drop).map_err(OptionsError::new)
    }

    /// What a connection that begins now is made with; reads files, so it may wait for a disk.
    /// An error names the file and what to do.
    pub(in crate::redis) fn config(&self) -> Result<Arc<ClientConfig>, String> {
        let contents = Contents {
            authorities: read("ssl_ca_certs", self.authorities.as_deref())?,
            certificate: read("ssl_certfile", self.certificate.as_deref())?,
            key: read("ssl_keyfile", self.key.as_deref())?,
        };
        let kept = |made: &Made| (made.contents == contents).then(|| Arc::clone(&made.config));
        if let Some(config) = self.made.lock().as_ref().and_then(kept) {
            return Ok(config);
        }
        let config = Arc::new(self.build(&contents)?);
        *self.made.lock() = Some(Made { contents, config: Arc::clone(&config) });
        Ok(config)
    }

    /// After a handshake that failed: the system's authorities may have changed since.
    pub(in crate::redis) fn forget(&self) {
        *self.made.lock() = None;
    }

    fn build(&self, contents: &Contents) -> Result<ClientConfig, String> {
        let roots = match &contents.authorities {
            Some(bytes) => listed_roots(&said("ssl_ca_certs", self.authorities.as_deref()), bytes)?,
            None => system_roots()?,
        };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
                .build()
                .map_err(|error| format!("TLS: {error}"))?;
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| format!("TLS: {error}"))?;
        let builder = if self.is_host_checked {
            builder.with_webpki_verifier(verifier)
        } else {
            builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(AnyName { signed: verifier }))
        };
        let (Some(certificate), Some(key)) = (&contents.certificate, &contents.key) else {
            return Ok(builder.with_no_client_auth());
        };
        let certificate_said = said("ssl_certfile", self.certificate.as_deref());
        let key_said = said("ssl_keyfile", self.key.as_deref());
        let chain = certificates(&certificate_said, certificate)?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| match error {
            pem::Error::NoItemsFound => {
                format!("{key_said}: no PEM private key in this file; name one without passphrase")
            }
            error => format!("{key_said}: no PEM private key: {error}"),
        })?;
        builder.with_client_auth_cert(chain, key).map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => {
                format!("{key_said}: not the key of the certificate; name the one it was made with")
            }
            error => format!("{certificate_said}: {error}"),
        })
    }
}

/// Those that an address names.
fn hosts(address: &Address) -> Result<Vec<&str>, OptionsError> {
    match address {
        Address::Tcp(host, _) => Ok(vec![host]),
        Address::Cluster(nodes) => Ok(nodes.iter().map(|(host, _)| host.as_str()).collect()),
        Address::Sentinels(sentinels) => {
            let each: Result<Vec<_>, _> = sentinels.nodes.iter().map(hosts).collect();
            Ok(each?.concat())
        }
        Address::Unix(_) => Err(OptionsError::new(format!("no TLS over {address}"))),
    }
}

/// The name that the server's certificate must carry.
pub(super) fn server_name(host: &str) -> Result<ServerName<'static>, String> {
    ServerName::try_from(host.to_owned())
        .map_err(|_| format!("{host:?} is no host that a certificate can name"))
}

fn said(setting: &str, path: Option<&Path>) -> String {
    format!("{setting}={}", path.unwrap_or(Path::new("")).display())
}

fn read(setting: &str, path: Option<&Path>) -> Result<Option<Vec<u8>>, String> {
    path.map(fs::read).transpose().map_err(|error| {
        format!("{}: cannot read: {error}; name a PEM file that we may read", said(setting, path))
    })
}

fn certificates(said: &str, bytes: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(bytes).collect();
    let found = found.map_err(|error| format!("{said}: no PEM certificates: {error}"))?;
    if found.is_empty() {
        return Err(format!("{said}: no certificate in this file; name one in PEM"));
    }
    Ok(found)
}

fn listed_roots(said: &str, bytes: &[u8]) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(said, bytes)? {
        roots.add(certificate).map_err(|error| format!("{said}: {error}"))?;
    }
    Ok(roots)
}

/// One that cannot be used is passed over, as browsers do: the others count.
fn system_roots() -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err("the system has no certificates of authorities; install them (Debian: \
                    ca-certificates), or name the store's with ssl_ca_certs=/path/ca.pem"
            .to_owned());
    }
    Ok(roots)
}
