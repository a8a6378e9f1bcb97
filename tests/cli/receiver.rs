//! A receiver of hook events that takes everything and remembers it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::Value;

/// What came, in the order in which it came.
pub struct Receiver {
    pub address: SocketAddr,
    received: Arc<Mutex<Vec<Value>>>,
}

impl Receiver {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let received = Arc::new(Mutex::default());
        let keep = Arc::clone(&received);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                take(stream.unwrap(), &keep);
            }
        });
        Self { address, received }
    }

    pub fn received(&self) -> Vec<Value> {
        self.received.lock().unwrap().clone()
    }
}

fn take(mut stream: TcpStream, keep: &Mutex<Vec<Value>>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut length = 0;
    loop {
        let mut line = String::new();
        // A sender that was killed.
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        if let Some(said) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = said.trim().parse().unwrap();
        }
        if line.trim().is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    if reader.read_exact(&mut body).is_ok() {
        keep.lock().unwrap().push(serde_json::from_slice(&body).unwrap());
        let _ = stream.write_all(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
    }
}
