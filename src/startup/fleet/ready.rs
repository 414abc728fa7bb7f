//! When a server counts as ready.

use std::fmt;
use std::net::IpAddr;
use std::os::unix::net::SocketAddr;
use std::path::Path;

use http::Uri;
use serde::{Deserialize, Serialize};

use super::OsPath;

const ACCEPTED: &str =
    "it is http://HOST:PORT/PATH, https://HOST:PORT/PATH, tcp://HOST:PORT or unix:/PATH";

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
    Unix { path: OsPath, expect: Option<u16> },
    /// A connection is accepted.
    Tcp {
        /// A name or an address, without the brackets of IPv6.
        host: String,
        port: u16,
    },
}

impl Ready {
    /// Whether who answers here answers at `other` too. Behind one port there may be several, by
    /// their paths.
    pub fn answers_for(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Unix { path, .. }, Self::Unix { path: other, .. }) => path == other,
            (Self::Http { target: one, .. }, Self::Http { target: other_one, .. })
                if one != other_one =>
            {
                false
            }
            (
                Self::Http { host, port, .. } | Self::Tcp { host, port },
                Self::Http { host: other, port: other_port, .. }
                | Self::Tcp { host: other, port: other_port },
            ) => port == other_port && is_same_host(host, other),
            _ => false,
        }
    }

    /// Reads `text`; a relative path is one from `folder`.
    pub fn parse(text: &str, expect: Option<u16>, folder: &Path) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            return unix(path, expect, folder);
        }
        let uri: Uri = text.parse().map_err(|why| format!("{text:?}: {why}; {ACCEPTED}"))?;
        let wrong = |why: &str| Err(format!("{text:?}: {why}; {ACCEPTED}"));
        let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
            return wrong("no scheme");
        };
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        if host.is_empty() {
            return wrong("no host");
        }
        if authority.as_str().contains('@') {
            // Unlike the others, without the text: there is a secret in it.
            return Err(format!("a user and password are not sent; {ACCEPTED}"));
        }
        // An authority keeps a port that is none, and says then that it has none.
        let after_host = authority.as_str().get(authority.host().len()..).unwrap_or_default();
        let port = match authority.port_u16() {
            Some(0) => return wrong("nobody listens on port 0"),
            None if !after_host.is_empty() => return wrong("a port is a number up to 65535"),
            port => port,
        };
        match scheme {
            "http" | "https" => {
                let tls = scheme == "https";
                let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
                let target = format!("{}{query}", uri.path());
                let port = port.unwrap_or(if tls { 443 } else { 80 });
                Ok(Self::Http { tls, host, port, target, expect })
            }
            "tcp" => {
                let Some(port) = port else { return wrong("no port") };
                if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
                    return wrong("tcp has no path");
                }
                if expect.is_some() {
                    return wrong("a status is expected, and tcp has none");
                }
                Ok(Self::Tcp { host, port })
            }
            _ => wrong("an unknown scheme"),
        }
    }
}

/// Whether the two lead to the same addresses, for all that their spelling tells.
fn is_same_host(one: &str, other: &str) -> bool {
    let is_any = |host: &str| {
        let address = host.parse::<IpAddr>();
        host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|it| it.is_unspecified())
    };
    let is_local = |host: &str| is_any(host) || matches!(host, "127.0.0.1" | "::1");
    let is_local_by_name = (is_any(one) || is_any(other)) && is_local(one) && is_local(other);
    one.eq_ignore_ascii_case(other) || is_local_by_name
}

fn unix(path: &str, expect: Option<u16>, folder: &Path) -> Result<Ready, String> {
    // unix:///PATH is what some servers take.
    let path = path.strip_prefix("//").unwrap_or(path);
    if path.is_empty() {
        return Err(format!("\"unix:\": no path; {ACCEPTED}"));
    }
    let path = folder.join(path);
    SocketAddr::from_pathname(&path)
        .map_err(|why| format!("\"unix:{}\": no path of a socket: {why}", path.display()))?;
    Ok(Ready::Unix { path: path.into(), expect })
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
            Self::Unix { path, .. } => write!(f, "unix:{}", path.display()),
            Self::Tcp { host, port } => write!(f, "tcp://{}", authority(host, *port)),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test says what is wrong by panicking")]
mod tests {
    use insta::assert_snapshot;

    use super::*;

    fn told(text: &str) -> String {
        Ready::parse(text, None, Path::new("/fleet")).unwrap().to_string()
    }

    fn why_not(text: &str, expect: Option<u16>) -> String {
        let why = Ready::parse(text, expect, Path::new("/fleet")).unwrap_err();
        why.replace(ACCEPTED, "…")
    }

    #[test]
    fn what_is_left_out_is_the_schemes_own() {
        assert_eq!(told("http://localhost"), "http://localhost:80/");
        assert_eq!(told("https://[::1]?a=b"), "https://[::1]:443/?a=b");
        assert_eq!(told("HTTP://Host:8000/Path"), "http://Host:8000/Path");
        assert_eq!(told("tcp://127.0.0.1:1/"), "tcp://127.0.0.1:1");
        assert_eq!(told("unix:///run/a.sock"), "unix:/run/a.sock");
        assert_eq!(told("unix:a.sock"), "unix:/fleet/a.sock");
    }

    #[test]
    fn one_that_answers_for_another_is_known_by_its_place() {
        let ready = |text| Ready::parse(text, None, Path::new("/fleet")).unwrap();
        for (one, other, answers) in [
            ("http://localhost:1/", "http://127.0.0.1:1", true),
            ("http://LocalHost:1/", "tcp://[::1]:1", true),
            ("tcp://0.0.0.0:1", "https://localhost:1/health", true),
            ("http://node:1/", "http://node:1/", true),
            ("unix:a", "unix:/fleet/a", true),
            ("http://localhost:1/", "http://localhost:2/", false),
            ("http://localhost:1/a", "http://localhost:1/b", false),
            ("tcp://127.0.0.1:1", "tcp://[::1]:1", false),
            ("tcp://127.0.0.1:1", "tcp://127.0.0.2:1", false),
            ("tcp://node:1", "tcp://localhost:1", false),
            ("unix:a", "unix:b", false),
            ("unix:a", "tcp://localhost:1", false),
        ] {
            assert_eq!(ready(one).answers_for(&ready(other)), answers, "{one} {other}");
            assert_eq!(ready(other).answers_for(&ready(one)), answers, "{other} {one}");
        }
    }

    #[test]
    fn what_cannot_answer_is_refused() {
        assert_snapshot!(why_not("", None), @r#""": empty string; …"#);
        assert_snapshot!(why_not("localhost:8000", None), @r#""localhost:8000": no scheme; …"#);
        assert_snapshot!(why_not("/health", None), @r#""/health": no scheme; …"#);
        assert_snapshot!(why_not("http://", None), @r#""http://": empty string; …"#);
        assert_snapshot!(why_not("http://:80", None), @r#""http://:80": no host; …"#);
        assert_snapshot!(why_not("http://a b/", None), @r#""http://a b/": invalid uri character; …"#);
        assert_snapshot!(why_not("http://a:65536/", None), @r#""http://a:65536/": a port is a number up to 65535; …"#);
        assert_snapshot!(why_not("http://a:/", None), @r#""http://a:/": a port is a number up to 65535; …"#);
        assert_snapshot!(why_not("http://a:0/", None), @r#""http://a:0/": nobody listens on port 0; …"#);
        assert_snapshot!(why_not("http://me:secret@a/", None), @"a user and password are not sent; …");
        assert_snapshot!(why_not("ftp://a/", None), @r#""ftp://a/": an unknown scheme; …"#);
        assert_snapshot!(why_not("tcp://a", None), @r#""tcp://a": no port; …"#);
        assert_snapshot!(why_not("tcp://a:1/health", None), @r#""tcp://a:1/health": tcp has no path; …"#);
        assert_snapshot!(why_not("tcp://a:1", Some(200)), @r#""tcp://a:1": a status is expected, and tcp has none; …"#);
        assert_snapshot!(why_not("unix:", None), @r#""unix:": no path; …"#);
        assert_snapshot!(why_not(&format!("unix:/{}", "a".repeat(108)), None), @r#""unix:/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa": no path of a socket: path must be shorter than SUN_LEN"#);
    }
}
