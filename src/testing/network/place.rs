//! Where does Redis listen, and where does a proxy before it?

use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

/// Where a server listens.
#[derive(Debug, Clone)]
pub(super) enum Place {
    /// `host:port`.
    Tcp(String),
    Unix(PathBuf),
}

/// A socket that accepts.
pub(super) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// An address, taken apart: what stands before the place and behind it belongs to the client.
pub(super) struct Address<'a> {
    before: &'a str,
    pub(super) place: Place,
    behind: &'a str,
}

impl<'a> Address<'a> {
    /// Reads `redis://user:password@host:port/db` or `unix:///path?pass=password`.
    pub(super) fn read(url: &'a str) -> Option<Self> {
        let (scheme, rest) = url.split_once("://")?;
        let start = scheme.len() + 3;
        match scheme {
            "redis" => {
                let end = rest.find(['/', '?']).unwrap_or(rest.len());
                let begin = rest[..end].rfind('@').map_or(0, |at| at + 1);
                let host = &rest[begin..end];
                let has_port = host.rsplit_once(':').is_some_and(|(_, port)| !port.ends_with(']'));
                let place = Place::Tcp(if has_port { host.to_owned() } else { format!("{host}:6379") });
                Some(Self { before: &url[..start + begin], place, behind: &url[start + end..] })
            }
            "unix" | "redis+unix" => {
                let end = rest.find('?').unwrap_or(rest.len());
                let place = Place::Unix(rest[..end].into());
                Some(Self { before: &url[..start], place, behind: &url[start + end..] })
            }
            _ => None,
        }
    }

    /// The same for a client of another place.
    pub(super) fn at(&self, place: &Place) -> String {
        let place = match place {
            Place::Tcp(place) => place.clone(),
            Place::Unix(path) => path.display().to_string(),
        };
        format!("{}{place}{}", self.before, self.behind)
    }
}

impl Place {
    /// Listens at a new place of the same kind: a free port of this machine, or a socket among its temporary files.
    pub(super) fn listen(&self) -> io::Result<(Listener, Self)> {
        match self {
            Self::Tcp(_) => {
                let listener = TcpListener::bind("127.0.0.1:0")?;
                let place = Self::Tcp(listener.local_addr()?.to_string());
                Ok((Listener::Tcp(listener), place))
            }
            Self::Unix(_) => {
                static NEXT: AtomicU32 = AtomicU32::new(0);
                let directory = std::env::temp_dir();
                // A socket's path has at most about 100 bytes.
                let directory = if directory.as_os_str().len() > 60 { "/tmp".into() } else { directory };
                let number = NEXT.fetch_add(1, Ordering::Relaxed);
                let path = directory.join(format!("delayed-proxy-{}-{number}.sock", std::process::id()));
                // Left by a process that had our number before.
                let _ = std::fs::remove_file(&path);
                Ok((Listener::Unix(UnixListener::bind(&path)?), Self::Unix(path)))
            }
        }
    }

    // One type for both: a socket is read, written and shut down in the same way whatever it is connected to.
    pub(super) fn connect(&self) -> io::Result<UnixStream> {
        match self {
            Self::Tcp(place) => TcpStream::connect(place).and_then(quick),
            Self::Unix(path) => UnixStream::connect(path),
        }
    }

    /// Nobody listens there any more.
    pub(super) fn leave(&self) {
        if let Self::Unix(path) = self {
            let _ = std::fs::remove_file(path);
        }
    }
}

impl Listener {
    pub(super) fn accept(&self) -> io::Result<UnixStream> {
        match self {
            Self::Tcp(listener) => listener.accept().and_then(|(stream, _)| quick(stream)),
            Self::Unix(listener) => listener.accept().map(|(stream, _)| stream),
        }
    }
}

/// A connection that does not keep bytes back: half a frame is to be seen as half a frame.
fn quick(stream: TcpStream) -> io::Result<UnixStream> {
    stream.set_nodelay(true)?;
    Ok(OwnedFd::from(stream).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_taken_apart_and_put_together_for_another_place() {
        let tcp = Place::Tcp("127.0.0.1:1".into());
        for (url, place, ours) in [
            ("redis://h", "h:6379", "redis://127.0.0.1:1"),
            ("redis://h:7/3", "h:7", "redis://127.0.0.1:1/3"),
            (
                "redis://u:p@ss@[::1]?protocol=resp3",
                "[::1]:6379",
                "redis://u:p@ss@127.0.0.1:1?protocol=resp3",
            ),
            ("redis://:p@[::1]:7", "[::1]:7", "redis://:p@127.0.0.1:1"),
        ] {
            let address = Address::read(url).expect("an address");
            assert!(matches!(&address.place, Place::Tcp(found) if found == place), "{:?}", address.place);
            assert_eq!(address.at(&tcp), ours);
        }
        let address = Address::read("unix:///a/b?pass=c").expect("an address");
        assert!(matches!(&address.place, Place::Unix(path) if path.as_os_str() == "/a/b"));
        assert_eq!(address.at(&Place::Unix("/d".into())), "unix:///d?pass=c");
        assert!(Address::read("rediss://h").is_none() && Address::read("h:1").is_none());
    }
}
