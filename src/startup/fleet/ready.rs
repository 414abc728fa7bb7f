//! When a server counts as ready.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What has to answer, and how.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ready {
    /// A GET is answered: with `expect`, or where there is none with anything but 502, 503, 504.
    Http {
        tls: bool,
        /// A name or an address, without the brackets of IPv6.
        host: String,
        port: u16,
        /// Path and query, as a request line has them.
        target: String,
        expect: Option<u16>,
    },
    /// A connection to the socket is accepted; with `expect`, `GET /` over it is answered so.
    Unix { path: String, expect: Option<u16> },
    /// A connection is accepted.
    Tcp {
        /// A name or an address, without the brackets of IPv6.
        host: String,
        port: u16,
    },
}

impl fmt::Display for Ready {
    /// As it could have been written.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let authority = |host: &str, port: u16| match host.contains(':') {
            true => format!("[{host}]:{port}"),
            false => format!("{host}:{port}"),
        };
        match self {
            Self::Http { tls, host, port, target, .. } => {
                let scheme = if *tls { "https" } else { "http" };
                write!(f, "{scheme}://{}{target}", authority(host, *port))
            }
            Self::Unix { path, .. } => write!(f, "unix:{path}"),
            Self::Tcp { host, port } => write!(f, "tcp://{}", authority(host, *port)),
        }
    }
}
