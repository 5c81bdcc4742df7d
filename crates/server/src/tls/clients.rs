//! Which clients may come: those whose certificate one of our authorities signed and, where there
//! is a list, that carry one of its URIs (SPIFFE: the workload's identity).

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use webpki::EndEntityCert;

/// A URI, or with `/*` at its end all below that path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UriPattern {
    text: String,
    is_prefix: bool,
}

impl UriPattern {
    /// Reads a pattern; none if it has no scheme, or a star that is not alone at its end.
    pub fn new(text: &str) -> Option<Self> {
        let (scheme, rest) = text.split_once("://")?;
        let (rest, is_prefix) =
            rest.strip_suffix("/*").map_or((rest, false), |before| (before, true));
        if scheme.is_empty() || rest.is_empty() || rest.contains('*') {
            return None;
        }
        // The slash stays, so that /ns/shop/* does not let /ns/shopping/x in.
        let text = if is_prefix { text[..text.len() - 1].to_owned() } else { text.to_owned() };
        Some(Self { text, is_prefix })
    }

    fn admits(&self, uri: &str) -> bool {
        if self.is_prefix {
            // A path that climbs out of the prefix again is nobody's.
            uri.strip_prefix(&self.text).is_some_and(|rest| {
                !rest.is_empty() && rest.split('/').all(|part| !matches!(part, "" | "." | ".."))
            })
        } else {
            uri == self.text
        }
    }
}

/// Asks the library's verifier first, then the list.
#[derive(Debug)]
pub(super) struct Listed {
    pub(super) signed: Arc<dyn ClientCertVerifier>,
    pub(super) uris: Vec<UriPattern>,
}

impl Listed {
    fn is_listed(&self, certificate: &CertificateDer<'_>) -> bool {
        let Ok(certificate) = EndEntityCert::try_from(certificate) else { return false };
        certificate.valid_uri_names().any(|uri| self.uris.iter().any(|listed| listed.admits(uri)))
    }
}

impl ClientCertVerifier for Listed {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.signed.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verified = self.signed.verify_client_cert(end_entity, intermediates, now)?;
        if self.uris.is_empty() || self.is_listed(end_entity) {
            Ok(verified)
        } else {
            Err(CertificateError::ApplicationVerificationFailure.into())
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signed.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signed.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.signed.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admits(pattern: &str, uri: &str) -> bool {
        UriPattern::new(pattern).unwrap().admits(uri)
    }

    #[test]
    fn pattern_without_a_star_is_compared_whole() {
        assert!(admits("spiffe://mesh/ns/shop", "spiffe://mesh/ns/shop"));
        for uri in ["spiffe://mesh/ns/shop/", "spiffe://mesh/ns/shop/a", "spiffe://mesh/ns", ""] {
            assert!(!admits("spiffe://mesh/ns/shop", uri), "{uri}");
        }
    }

    #[test]
    fn star_admits_what_is_below_and_nothing_beside() {
        assert!(admits("spiffe://mesh/ns/shop/*", "spiffe://mesh/ns/shop/sa/web"));
        assert!(admits("spiffe://mesh/*", "spiffe://mesh/ns"));
        for uri in [
            "spiffe://mesh/ns/shop",
            "spiffe://mesh/ns/shop/",
            "spiffe://mesh/ns/shopping/sa",
            "spiffe://mesh/ns/shop/../bank",
            "spiffe://mesh/ns/shop//x",
        ] {
            assert!(!admits("spiffe://mesh/ns/shop/*", uri), "{uri}");
        }
        assert!(!admits("spiffe://mesh/*", "spiffe://mesh.evil/ns"));
    }

    #[test]
    fn texts_that_are_no_pattern_are_refused() {
        for text in ["", "*", "mesh/ns", "spiffe://", "spiffe://*", "spiffe://a*", "spiffe://*/a"] {
            assert_eq!(UriPattern::new(text), None, "{text}");
        }
    }
}
