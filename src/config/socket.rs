//! The socket in the state directory, by which other processes of the same user reach the one that owns it.
//!
//! Whoever may open the file may do everything, so only its owner may: the directory is closed to others, and so is the file. A path that is
//! longer than the kernel takes for a socket is reached by its directory's file descriptor.

use std::fs::{self, File, Permissions};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

/// The socket's file in the state directory.
pub const SOCKET_FILE: &str = "gateway.sock";

/// Longer paths are not taken by every kernel: macOS has room for 103 bytes, Linux for 107.
const LONGEST_PATH: usize = 103;

/// Where a socket lies, in a form that the kernel takes.
#[derive(Debug)]
pub struct SocketPath {
    path: PathBuf,
    /// Open as long as the path goes by it.
    _directory: Option<File>,
}

impl SocketPath {
    /// The form for this path.
    ///
    /// # Errors
    /// The path is too long, and its directory cannot be opened.
    pub fn new(path: PathBuf) -> io::Result<Self> {
        if path.as_os_str().len() <= LONGEST_PATH {
            return Ok(Self { path, _directory: None });
        }
        let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(ErrorKind::InvalidInput.into());
        };
        let directory = File::open(directory)?;
        let path = Path::new("/proc/self/fd")
            .join(directory.as_raw_fd().to_string())
            .join(name);
        Ok(Self {
            path,
            _directory: Some(directory),
        })
    }

    /// What to connect to.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Listens there. A file that an earlier owner left is replaced: only the present owner may call this.
    ///
    /// # Errors
    /// The file cannot be made, or not be closed to others.
    pub fn listen(&self) -> io::Result<UnixListener> {
        match fs::remove_file(&self.path) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let listener = UnixListener::bind(&self.path)?;
        fs::set_permissions(&self.path, Permissions::from_mode(0o600))?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn what_an_earlier_owner_left_is_replaced_and_others_are_shut_out() {
        let state = tempfile::tempdir().unwrap();
        let path = state.path().join(SOCKET_FILE);
        drop(UnixListener::bind(&path).unwrap());
        assert!(UnixStream::connect(&path).is_err());
        let socket = SocketPath::new(path.clone()).unwrap();
        let _listener = socket.listen().unwrap();
        UnixStream::connect(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_long_path_is_no_hindrance() {
        let state = tempfile::tempdir().unwrap();
        let deep = state.path().join("d".repeat(120));
        fs::create_dir(&deep).unwrap();
        let socket = SocketPath::new(deep.join(SOCKET_FILE)).unwrap();
        let _listener = socket.listen().unwrap();
        let again = SocketPath::new(deep.join(SOCKET_FILE)).unwrap();
        UnixStream::connect(again.path()).unwrap();
        assert!(deep.join(SOCKET_FILE).exists());
    }
}
