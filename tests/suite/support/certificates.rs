//! A CA of the test's own, and what it signs.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, date_time_ymd,
};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

static NAMES: AtomicU32 = AtomicU32::new(1);

/// A CA that nobody trusts unless told to.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key, in PEM form.
pub struct Identity {
    certificate: String,
    key: String,
}

impl Authority {
    pub fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        // Two of the same name would pass for each other until their signatures are looked at.
        let name = format!("CA {}", NAMES.fetch_add(1, Ordering::Relaxed));
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// A server on `localhost` and `127.0.0.1`.
    pub fn server(&self) -> Identity {
        self.sign(server_params())
    }

    /// The same, but its time has passed.
    pub fn expired_server(&self) -> Identity {
        let mut params = server_params();
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2020, 2, 1);
        self.sign(params)
    }

    /// A client.
    pub fn client(&self) -> Identity {
        let mut params = CertificateParams::new(vec!["client".to_owned()]).unwrap();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(params)
    }

    /// Writes the CA's own certificate to `folder`.
    pub fn write(&self, folder: &Path) -> PathBuf {
        write(folder.join("ca.pem"), &self.0.pem())
    }

    /// A server's configuration that asks every client for a certificate of this CA.
    pub fn asking_clients(&self, server: &Identity) -> Arc<ServerConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(self.0.der().clone()).unwrap();
        let provider = Arc::new(ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider.clone())
            .build()
            .unwrap();
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(verifier)
            .with_single_cert(server.chain(), server.private_key())
            .unwrap();
        with_alpn(config)
    }

    fn sign(&self, params: CertificateParams) -> Identity {
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        Identity { certificate: certificate.pem(), key: key.serialize_pem() }
    }
}

impl Identity {
    /// A server's configuration that shows this certificate to everybody.
    pub fn config(&self) -> Arc<ServerConfig> {
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(self.chain(), self.private_key())
            .unwrap();
        with_alpn(config)
    }

    /// Writes certificate and key to `folder`.
    pub fn write(&self, folder: &Path) -> (PathBuf, PathBuf) {
        (
            write(folder.join("client.pem"), &self.certificate),
            write(folder.join("client.key"), &self.key),
        )
    }

    fn chain(&self) -> Vec<CertificateDer<'static>> {
        vec![CertificateDer::from_pem_slice(self.certificate.as_bytes()).unwrap()]
    }

    fn private_key(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::from_pem_slice(self.key.as_bytes()).unwrap()
    }
}

fn server_params() -> CertificateParams {
    CertificateParams::new(vec!["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap()
}

fn with_alpn(mut config: ServerConfig) -> Arc<ServerConfig> {
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Arc::new(config)
}

fn write(path: PathBuf, text: &str) -> PathBuf {
    std::fs::write(&path, text).unwrap();
    path
}
