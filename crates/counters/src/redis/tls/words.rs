//! What went wrong with TLS, and what an operator should do about it.

use std::io;

use rustls::{AlertDescription, CertificateError, Error};

/// The error as one of the socket, its words those of an operator.
pub(super) fn failed(error: &Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, words(error))
}

fn words(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
            "the server's certificate is of an authority that is not trusted here; name the \
             authority's file with ssl_ca_certs"
                .to_owned()
        }
        Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => format!(
            "the server's certificate is for another host: {error}; connect by a name that it \
             carries, or add ssl_check_hostname=false"
        ),
        Error::InvalidCertificate(_) => format!("the server's certificate is refused: {error}"),
        Error::AlertReceived(AlertDescription::CertificateRequired) => {
            "the server demands a client certificate; name it with ssl_certfile and ssl_keyfile"
                .to_owned()
        }
        Error::AlertReceived(
            alert @ (AlertDescription::UnknownCA
            | AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::AccessDenied),
        ) => format!(
            "the server refused the client certificate ({alert:?}); ssl_certfile must be one of an \
             authority that it trusts"
        ),
        Error::AlertReceived(AlertDescription::HandshakeFailure) => {
            "the server refused the TLS handshake; it may demand a client certificate \
             (ssl_certfile, ssl_keyfile)"
                .to_owned()
        }
        Error::InvalidMessage(_) => {
            "the server's answer is not TLS; use redis:// for a port without TLS".to_owned()
        }
        other => format!("TLS: {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::InvalidMessage;

    #[test]
    fn an_error_says_what_to_do() {
        let certificate = |why| Error::InvalidCertificate(why);
        for (error, fix) in [
            (certificate(CertificateError::UnknownIssuer), "ssl_ca_certs"),
            (certificate(CertificateError::NotValidForName), "ssl_check_hostname"),
            (certificate(CertificateError::Revoked), "is refused"),
            (Error::AlertReceived(AlertDescription::CertificateRequired), "ssl_certfile"),
            (Error::AlertReceived(AlertDescription::UnknownCA), "UnknownCA"),
            (Error::AlertReceived(AlertDescription::HandshakeFailure), "client certificate"),
            (Error::AlertReceived(AlertDescription::ProtocolVersion), "TLS: "),
            (Error::InvalidMessage(InvalidMessage::InvalidContentType), "redis://"),
        ] {
            let said = failed(&error).to_string();
            assert!(said.contains(fix), "{said}");
        }
    }
}
