//! Dialling: TCP → TLS → who is it? → HTTP/2.
//!
//! A channel is one connection. It is never redialled behind its owner's back, so a request is sent once or not at all;
//! who wants another connection dials again.

use std::time::Duration;

use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tonic::transport::{Channel, Endpoint};

use crate::certificate;
use crate::credentials::Credentials;
use crate::identity::Role;

mod error;
mod first_bytes;

pub use error::ConnectError;
use first_bytes::FirstBytes;

/// Whom the dialer expects to meet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExpectedPeer {
    /// The agent of this host and no other.
    Agent(String),
    /// Any peer with one of these roles.
    AnyOf(&'static [Role]),
}

/// How to dial.
#[derive(Debug, Clone)]
pub struct DialOptions {
    /// Time for everything up to a usable connection.
    pub timeout: Duration,
    /// Time after which a silent server is asked whether it lives.
    pub keepalive_interval: Duration,
    /// Time it has to answer.
    pub keepalive_timeout: Duration,
    /// Receive window of a stream, in bytes.
    pub stream_window: u32,
    /// Receive window of the connection, in bytes.
    pub connection_window: u32,
}

impl Default for DialOptions {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(5),
            keepalive_interval: Duration::from_secs(10),
            keepalive_timeout: Duration::from_secs(10),
            stream_window: 1024 * 1024,
            connection_window: 2 * 1024 * 1024,
        }
    }
}

/// Dials servers with one set of credentials.
#[derive(Debug, Clone)]
pub struct Dialer {
    credentials: Credentials,
    options: DialOptions,
}

impl Dialer {
    /// A dialer.
    pub const fn new(credentials: Credentials, options: DialOptions) -> Self {
        Self { credentials, options }
    }

    /// Connects to `address` (`host:port`, with or without `https://`) and makes sure of who answers.
    ///
    /// # Errors
    /// When no connection to the expected peer comes about within the timeout.
    pub async fn connect(&self, address: &str, expected: &ExpectedPeer) -> Result<Channel, ConnectError> {
        let address = normal_address(address)?;
        let limit = self.options.timeout;
        let connected = tokio::time::timeout(limit, self.connect_unbounded(&address, expected)).await;
        connected.unwrap_or(Err(ConnectError::Timeout { address, limit }))
    }

    async fn connect_unbounded(&self, address: &str, expected: &ExpectedPeer) -> Result<Channel, ConnectError> {
        let tcp = connect_tcp(address).await?;
        // A best effort: a slower connection is better than none.
        let _ = tcp.set_nodelay(true);
        let tls = self.handshake(address, tcp).await?;
        self.check_peer(address, &tls, expected)?;
        let stream = FirstBytes::read(tls).await.map_err(|error| ConnectError::from_tls(address, error))?;
        self.channel(address, stream).await
    }

    async fn handshake(&self, address: &str, tcp: TcpStream) -> Result<TlsStream<TcpStream>, ConnectError> {
        let ip = tcp.peer_addr().map_err(|error| ConnectError::from_io(address, error))?.ip();
        let connector = TlsConnector::from(self.credentials.client_config());
        connector.connect(ip.into(), tcp).await.map_err(|error| ConnectError::from_tls(address, error))
    }

    /// Holds the certificate in use, which a resumed session has too, against the expectation.
    fn check_peer(
        &self,
        address: &str,
        tls: &TlsStream<TcpStream>,
        expected: &ExpectedPeer,
    ) -> Result<(), ConnectError> {
        let address = address.to_owned();
        let leaf = tls.get_ref().1.peer_certificates().unwrap_or_default().first();
        let identity = leaf
            .ok_or(certificate::CertificateProblem::NoIdentity)
            .and_then(certificate::identity)
            .map_err(|problem| ConnectError::NoIdentity { address: address.clone(), problem: problem.to_string() })?;
        let own = self.credentials.identity();
        let found = identity.to_string();
        if identity.trust_domain != own.trust_domain {
            return Err(ConnectError::WrongTrustDomain { address, found, own: own.trust_domain });
        }
        let fits = match expected {
            ExpectedPeer::Agent(name) => identity.role == Role::Agent && identity.name == *name,
            ExpectedPeer::AnyOf(roles) => roles.contains(&identity.role),
        };
        if fits {
            return Ok(());
        }
        let wanted = match expected {
            ExpectedPeer::Agent(name) => format!("the agent of `{name}`"),
            ExpectedPeer::AnyOf(roles) => {
                let roles: Vec<&str> = roles.iter().map(|role| role.as_str()).collect();
                format!("a peer of role {}", roles.join(" or "))
            }
        };
        Err(ConnectError::WrongPeer { address, found, wanted })
    }

    async fn channel(&self, address: &str, stream: FirstBytes<TlsStream<TcpStream>>) -> Result<Channel, ConnectError> {
        let options = &self.options;
        let endpoint = Endpoint::from_static("http://gpufleet")
            .http2_keep_alive_interval(options.keepalive_interval)
            .keep_alive_timeout(options.keepalive_timeout)
            .keep_alive_while_idle(true)
            .http2_adaptive_window(false)
            .initial_stream_window_size(options.stream_window)
            .initial_connection_window_size(options.connection_window);
        let mut stream = Some(TokioIo::new(stream));
        let once = tower::service_fn(move |_: http::Uri| {
            let stream = stream.take();
            async move { stream.ok_or_else(|| std::io::Error::other("the connection was lost")) }
        });
        let connected = endpoint.connect_with_connector(once).await;
        connected.map_err(|error| ConnectError::Http2 { address: address.to_owned(), cause: error })
    }
}

async fn connect_tcp(address: &str) -> Result<TcpStream, ConnectError> {
    let resolved: Vec<_> = match tokio::net::lookup_host(address).await {
        Ok(found) => found.collect(),
        Err(cause) => return Err(ConnectError::Resolve { address: address.to_owned(), cause }),
    };
    let mut newest = std::io::Error::from(std::io::ErrorKind::AddrNotAvailable);
    for socket in resolved {
        match TcpStream::connect(socket).await {
            Ok(stream) => return Ok(stream),
            Err(error) => newest = error,
        }
    }
    Err(ConnectError::from_io(address, newest))
}

/// `host:port` out of what people write.
fn normal_address(address: &str) -> Result<String, ConnectError> {
    let bare = address.strip_prefix("https://").unwrap_or(address).trim_end_matches('/');
    let port = bare.rsplit_once(':').map(|(host, port)| (!host.is_empty(), port.parse::<u16>()));
    match port {
        Some((true, Ok(_))) if !bare.contains("://") => Ok(bare.to_owned()),
        _ => Err(ConnectError::Address(address.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_taken_as_people_write_them() {
        for (written, expected) in [
            ("host1:9460", "host1:9460"),
            ("https://host1:9460", "host1:9460"),
            ("https://10.0.0.1:9460/", "10.0.0.1:9460"),
            ("[::1]:9460", "[::1]:9460"),
        ] {
            assert_eq!(normal_address(written).unwrap(), expected);
        }
        for wrong in ["", "host1", "host1:", ":9460", "host1:99999", "http://host1:9460", "host1:port"] {
            assert!(matches!(normal_address(wrong), Err(ConnectError::Address(_))), "{wrong}");
        }
    }
}
