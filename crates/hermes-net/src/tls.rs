//! The TLS configuration, shared by HTTP and WebSockets.
//!
//! Uses the system's roots, not a compiled-in list: users have authorities of their companies and of their own.
//! Reading them takes milliseconds, so it waits for the first certificate: a program that only connects to a model
//! on the same machine never pays for it. *ring* does the cryptography, because it builds with a C compiler alone.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use rustls_platform_verifier::Verifier;

use crate::config::CertificateVerification;
use crate::error::Error;
use crate::failure::describe_tls_error;

pub(crate) fn client_config(
    ca_bundle: Option<&Path>,
    verification: CertificateVerification,
) -> Result<ClientConfig, Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let extra = ca_bundle.map(read_bundle).transpose()?.unwrap_or_default();
    let verifier = Roots { provider: provider.clone(), extra, verification, loaded: OnceLock::new() };
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::Settings { why: describe_tls_error(&error) })?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

/// Reads a bundle and checks that every certificate can be used, so that an invalid file is noticed at the start
/// and not in a handshake.
fn read_bundle(path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let unusable = |why: &str| Error::Settings { why: format!("{}: {why}", path.display()) };
    let certificates: Vec<_> = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect)
        .map_err(|error| unusable(&error.to_string()))?;
    if certificates.is_empty() {
        return Err(unusable("it holds no certificate"));
    }
    let mut roots = RootCertStore::empty();
    for certificate in &certificates {
        roots.add(certificate.clone()).map_err(|error| unusable(&describe_tls_error(&error)))?;
    }
    Ok(certificates)
}

/// The system's certificate verifier, created when it is first needed.
#[derive(Debug)]
struct Roots {
    provider: Arc<CryptoProvider>,
    extra: Vec<CertificateDer<'static>>,
    verification: CertificateVerification,
    loaded: OnceLock<Result<Verifier, rustls::Error>>,
}

impl Roots {
    fn load(&self) -> Result<Verifier, rustls::Error> {
        if self.extra.is_empty() {
            Verifier::new(self.provider.clone())
        } else {
            Verifier::new_with_extra_roots(self.extra.iter().cloned(), self.provider.clone())
        }
    }
}

impl ServerCertVerifier for Roots {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if self.verification == CertificateVerification::Skipped {
            return Ok(ServerCertVerified::assertion());
        }
        match self.loaded.get_or_init(|| self.load()) {
            Ok(verifier) => {
                verifier.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
            }
            Err(error) => Err(error.clone()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(
            message,
            certificate,
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(
            message,
            certificate,
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
