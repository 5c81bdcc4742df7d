//! Listening sockets: their opening, their errors, the file of one that is local to this machine.

use std::net::{IpAddr, SocketAddr, TcpListener as StdTcpListener};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener as StdUnixListener, UnixStream as StdUnixStream};
use std::path::{Path, PathBuf};
use std::{fmt, fs, io};

use socket2::{Domain, SockAddr, Socket, Type};
use tokio::net::{TcpListener, UnixListener};

use super::address::Address;
use super::socket::Accepted;

/// Owner and group may connect, others may not.
const MODE: u32 = 0o660;
const BACKLOG: i32 = 1024;

/// An address that cannot be listened on, and what to do about it.
#[derive(Debug)]
pub struct BindError {
    address: Address,
    source: io::Error,
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { address, source } = self;
        write!(f, "cannot listen on {address}: ")?;
        let advice = match (address, source.kind()) {
            (Address::Tcp(_), io::ErrorKind::AddrInUse) => {
                "another program has this port; stop it or choose another port"
            }
            (Address::Tcp(_), io::ErrorKind::AddrNotAvailable) => {
                "this machine has no such address; use 127.0.0.1 or 0.0.0.0"
            }
            (Address::Tcp(_), io::ErrorKind::PermissionDenied) => {
                "not permitted; ports below 1024 need a privilege, choose a higher one"
            }
            (Address::Unix(_), io::ErrorKind::AddrInUse) => {
                "another program listens there; stop it or choose another path"
            }
            (Address::Unix(_), io::ErrorKind::AlreadyExists) => {
                "that file is no socket and stays; choose another path"
            }
            (Address::Unix(_), io::ErrorKind::NotFound) => "its folder does not exist; make it",
            (Address::Unix(_), io::ErrorKind::PermissionDenied) => {
                "not permitted; the folder must be writable for this user"
            }
            _ => return write!(f, "{source}"),
        };
        f.write_str(advice)
    }
}

impl std::error::Error for BindError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

/// A listening socket that no runtime has yet.
#[derive(Debug)]
pub struct Listener(Kind);

#[derive(Debug)]
enum Kind {
    Tcp(StdTcpListener, SocketAddr),
    Unix(StdUnixListener, SocketFile),
}

/// Opens a listening socket; port 0 takes a free one. A socket file that a dead process left is
/// replaced.
pub fn bind(address: &Address) -> Result<Listener, BindError> {
    let opened = match address {
        Address::Tcp(address) => tcp(*address),
        Address::Unix(path) => unix(path),
    };
    opened.map(Listener).map_err(|source| BindError { address: address.clone(), source })
}

fn tcp(address: SocketAddr) -> io::Result<Kind> {
    let listener = StdTcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    Ok(Kind::Tcp(listener, address))
}

fn unix(path: &Path) -> io::Result<Kind> {
    remove_stale(path)?;
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.bind(&SockAddr::unix(path)?)?;
    let file = SocketFile::of(path)?;
    // Before it listens, so that nobody connects by the rights that the umask gives.
    fs::set_permissions(path, fs::Permissions::from_mode(MODE))?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(Kind::Unix(socket.into(), file))
}

fn remove_stale(path: &Path) -> io::Result<()> {
    let Ok(found) = fs::symlink_metadata(path) else { return Ok(()) };
    if !found.file_type().is_socket() {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    match StdUnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Err(error),
        _ => Err(io::ErrorKind::AddrInUse.into()),
    }
}

/// Removes the file at the end, unless another process has put its own there.
#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    identity: (u64, u64),
}

impl SocketFile {
    fn of(path: &Path) -> io::Result<Self> {
        Ok(Self { path: path.to_owned(), identity: identity(path)? })
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if identity(&self.path).is_ok_and(|found| found == self.identity) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    fs::symlink_metadata(path).map(|found| (found.dev(), found.ino()))
}

impl Listener {
    /// Where it listens, with the port that it took.
    pub fn address(&self) -> Address {
        match &self.0 {
            Kind::Tcp(_, address) => Address::Tcp(*address),
            Kind::Unix(_, file) => Address::Unix(file.path.clone()),
        }
    }

    /// Gives it to the runtime of this thread.
    pub(crate) fn listen(self) -> io::Result<Listening> {
        Ok(match self.0 {
            Kind::Tcp(listener, _) => {
                Listening { socket: Listens::Tcp(TcpListener::from_std(listener)?), _file: None }
            }
            Kind::Unix(listener, file) => {
                let socket = Listens::Unix(UnixListener::from_std(listener)?);
                Listening { socket, _file: Some(file) }
            }
        })
    }
}

/// A listening socket in a runtime.
#[derive(Debug)]
pub(crate) struct Listening {
    socket: Listens,
    _file: Option<SocketFile>,
}

#[derive(Debug)]
enum Listens {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listening {
    /// Waits for a peer; its address, if it comes from the network.
    pub(crate) async fn accept(&self) -> io::Result<(Accepted, Option<IpAddr>)> {
        match &self.socket {
            Listens::Tcp(listener) => {
                let (socket, peer) = listener.accept().await?;
                // Answers are written whole: waiting for more to send would only delay them.
                let _ = socket.set_nodelay(true);
                Ok((Accepted::Tcp(socket.into_std()?), Some(peer.ip())))
            }
            Listens::Unix(listener) => {
                let (socket, _) = listener.accept().await?;
                Ok((Accepted::Unix(socket.into_std()?), None))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("tidegate-{name}-{}.sock", std::process::id()))
    }

    #[test]
    fn taken_port_is_said_with_what_to_do() {
        let taken = bind(&"127.0.0.1:0".parse().unwrap()).unwrap();
        let error = bind(&taken.address()).unwrap_err().to_string();
        assert!(error.contains(&taken.address().to_string()), "{error}");
        assert!(error.contains("another port"), "{error}");
    }

    #[test]
    fn socket_file_is_for_owner_and_group_and_goes_with_its_listener() {
        let path = place("mode");
        let listener = bind(&Address::Unix(path.clone())).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, MODE);
        assert!(StdUnixStream::connect(&path).is_ok());
        drop(listener);
        assert!(!path.exists());
    }

    #[test]
    fn stale_socket_file_is_replaced() {
        let path = place("stale");
        drop(StdUnixListener::bind(&path).unwrap());
        assert!(path.exists());
        drop(bind(&Address::Unix(path.clone())).unwrap());
        assert!(!path.exists());
    }

    #[test]
    fn socket_file_in_use_is_left_alone() {
        let path = place("used");
        let listener = bind(&Address::Unix(path.clone())).unwrap();
        let error = bind(&Address::Unix(path.clone())).unwrap_err().to_string();
        assert!(error.contains("another program listens there"), "{error}");
        assert!(StdUnixStream::connect(&path).is_ok());
        drop(listener);
    }

    #[test]
    fn file_that_is_no_socket_is_left_alone() {
        let path = place("file");
        fs::write(&path, "kept").unwrap();
        let error = bind(&Address::Unix(path.clone())).unwrap_err().to_string();
        assert!(error.contains("no socket"), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "kept");
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn file_of_a_successor_stays() {
        let path = place("successor");
        let listener = bind(&Address::Unix(path.clone())).unwrap();
        fs::remove_file(&path).unwrap();
        // Held open, so that its inode is another one.
        let successor = StdUnixListener::bind(&path).unwrap();
        drop(listener);
        assert!(path.exists());
        drop(successor);
        fs::remove_file(path).unwrap();
    }
}
