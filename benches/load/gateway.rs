//! The real binary as a process of its own, so that start time and memory are its alone.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use std::io::{Read, Write};

/// The bearer of every load run.
pub(crate) const TOKEN: &str = "load-tool-bearer-0123456789abcdef";
/// The state directory in a gateway's folder.
pub(crate) const STATE: &str = "state";
/// Give up on a process that does not answer in this time.
const START_LIMIT: Duration = Duration::from_secs(20);

/// A gateway process, killed when dropped.
pub(crate) struct Gateway {
    child: Child,
    pub(crate) address: SocketAddr,
    /// From `exec` to the first answer of `/healthz`.
    pub(crate) started_in: Duration,
    _folder: tempfile::TempDir,
}

impl Gateway {
    /// Starts `serve` with one machine at `machine_url`, and waits for `/healthz`.
    pub(crate) fn start(machine_url: &str) -> anyhow::Result<Self> {
        Self::start_in(tempfile::tempdir()?, machine_url, None)
    }

    /// The same on a folder whose state may hold a ledger already, with a hook.
    pub(crate) fn start_in(folder: tempfile::TempDir, machine_url: &str, hook: Option<&str>) -> anyhow::Result<Self> {
        let config = folder.path().join("t3code.toml");
        let hook = hook.map_or_else(String::new, |url| format!("[hook]\nurl = \"{url}\"\n"));
        std::fs::write(
            &config,
            format!(
                "[machines.sim]\nurl = \"{machine_url}\"\ntoken_env = \"LOAD_T3_TOKEN\"\nprojects = [\"*\"]\n{hook}"
            ),
        )?;
        let address = free_address()?;
        let begun = Instant::now();
        let child = Command::new(env!("CARGO_BIN_EXE_t3code-mcp"))
            .args(["serve", "--config"])
            .arg(&config)
            .arg("--state-dir")
            .arg(folder.path().join(STATE))
            .args(["--host", "127.0.0.1", "--port", &address.port().to_string()])
            .env("T3CODE_MCP_TOKEN", TOKEN)
            .env("LOAD_T3_TOKEN", "any")
            .env("RUST_LOG", "warn")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::inherit())
            .spawn()?;
        let mut gateway = Self {
            child,
            address,
            started_in: Duration::ZERO,
            _folder: folder,
        };
        while !healthy(address) {
            anyhow::ensure!(begun.elapsed() < START_LIMIT, "the gateway did not start");
            anyhow::ensure!(gateway.child.try_wait()?.is_none(), "the gateway ended at its start");
            std::thread::yield_now();
        }
        gateway.started_in = begun.elapsed();
        Ok(gateway)
    }

    /// Resident memory in MiB, as the kernel counts it.
    pub(crate) fn resident_mib(&self) -> anyhow::Result<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let kib: f64 = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .and_then(|rest| rest.trim().strip_suffix("kB"))
            .ok_or_else(|| anyhow::anyhow!("no VmRSS"))?
            .trim()
            .parse()?;
        Ok(kib / 1_024.0)
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free_address() -> anyhow::Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}

/// One try of `/healthz` over a fresh connection.
fn healthy(address: SocketAddr) -> bool {
    let Ok(mut stream) = TcpStream::connect(address) else {
        return false;
    };
    let mut answer = [0; 15];
    stream
        .write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        .is_ok()
        && stream.read_exact(&mut answer).is_ok()
        && answer.starts_with(b"HTTP/1.1 200")
}
