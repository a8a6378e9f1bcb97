//! Starts the binary in a home and a working directory of its own, with nothing of the surrounding environment.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use t3code_mcp::simulator::{Faults, Simulator, SimulatorOptions};
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// Longer than anything takes; only a failure reaches it.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A bearer for a process that serves.
pub const BEARER: &str = "0123456789abcdef0123456789abcdef";

/// A home and a working directory.
pub struct Place {
    root: TempDir,
}

impl Place {
    pub fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        for folder in ["cwd", "home"] {
            std::fs::create_dir(root.path().join(folder)).unwrap();
        }
        Self { root }
    }

    /// One whose `serve` knows the T3 at `url` as `sim`.
    pub fn with_machine(url: &str) -> Self {
        Self::new().config(&format!(
            "[machines.sim]\nurl = \"{url}\"\ntoken_env = \"T3_TOKEN\"\nprojects = [\"*\"]\n"
        ))
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// Writes a file, readable and writable as `mode` says.
    pub fn file(self, name: &str, text: &str, mode: u32) -> Self {
        std::fs::write(self.path(name), text).unwrap();
        std::fs::set_permissions(self.path(name), std::fs::Permissions::from_mode(mode)).unwrap();
        self
    }

    /// The working directory's `t3code.toml`.
    pub fn config(self, text: &str) -> Self {
        self.file("cwd/t3code.toml", text, 0o600)
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_t3code-mcp"));
        command
            .args(arguments)
            .env_clear()
            .env("HOME", self.path("home"))
            .current_dir(self.path("cwd"))
            .stdin(Stdio::null());
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Ran {
        Ran::from(self.command(arguments).output().unwrap(), self)
    }

    /// With the token of the place's machine.
    pub fn command_with_token(&self, arguments: &[&str]) -> Command {
        let mut command = self.command(arguments);
        command.env("T3_TOKEN", "any");
        command
    }

    pub fn run_with_token(&self, arguments: &[&str]) -> Ran {
        Ran::from(self.command_with_token(arguments).output().unwrap(), self)
    }

    pub fn start(&self, arguments: &[&str]) -> Running {
        Running::start(self.command(arguments))
    }

    /// Serves over HTTP, with more arguments and variables; and where.
    pub fn serve(&self, more: &[&str], variables: &[(&str, &str)]) -> (Running, SocketAddr) {
        let mut command = self.command(&["serve", "--port", "0"]);
        command.args(more).envs(variables.iter().copied());
        let mut running = Running::start(command);
        let line = running.until("listens on http://");
        let (_, address) = line.split_once("http://").unwrap();
        let address = address.trim().trim_end_matches("/mcp").parse().unwrap();
        (running, address)
    }
}

/// Waits until `done`.
pub fn until(what: &str, done: impl FnMut() -> bool) {
    until_within(PATIENCE, what, done);
}

/// Waits until `done`, for what takes its time.
pub fn until_within(patience: Duration, what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + patience;
    while !done() {
        assert!(Instant::now() < end, "it did not come true: {what}");
        std::thread::park_timeout(Duration::from_millis(20));
    }
}

/// A simulated T3 in this process, whose faults a test can set.
pub struct Machine {
    pub simulator: Simulator,
    pub faults: Faults,
    runtime: Runtime,
}

impl Machine {
    pub fn start() -> Self {
        Self::start_with(SimulatorOptions::default())
    }

    /// One whose queue can be held.
    pub fn newer() -> Self {
        Self::start_with(SimulatorOptions {
            gate: true,
            ..SimulatorOptions::default()
        })
    }

    /// One that speaks protocol 1.
    pub fn older() -> Self {
        Self::start_with(SimulatorOptions {
            protocol: 1,
            ..SimulatorOptions::default()
        })
    }

    /// One that speaks protocol 1 and says that it is of this version.
    pub fn older_of(version: &str) -> Self {
        let mut options = SimulatorOptions {
            protocol: 1,
            ..SimulatorOptions::default()
        };
        options.model.version = Some(version.to_owned());
        Self::start_with(options)
    }

    /// One that speaks protocol 1, whose agents take so long to stop.
    pub fn older_slow_to_stop(wait: std::time::Duration) -> Self {
        let mut options = SimulatorOptions {
            protocol: 1,
            ..SimulatorOptions::default()
        };
        options.model.timing.interrupt = wait;
        Self::start_with(options)
    }

    fn start_with(options: SimulatorOptions) -> Self {
        let runtime = Runtime::new().unwrap();
        let simulator = runtime.block_on(Simulator::start(options)).unwrap();
        Self {
            faults: simulator.faults(),
            simulator,
            runtime,
        }
    }

    /// Is replaced by a server of protocol 2 over the same database.
    pub fn upgrade(&self) {
        self.runtime.block_on(self.simulator.upgrade()).unwrap();
    }

    /// A place whose `serve` knows it as `sim`.
    pub fn place(&self) -> Place {
        Place::with_machine(&self.simulator.url())
    }
}

/// A command that ended. The folder's name, which is another in each run, is taken out.
#[derive(Debug)]
pub struct Ran {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Ran {
    pub fn from(output: Output, place: &Place) -> Self {
        let text = |bytes: Vec<u8>| {
            String::from_utf8(bytes)
                .unwrap()
                .replace(&place.root.path().display().to_string(), "")
        };
        Self {
            code: output.status.code(),
            out: text(output.stdout),
            err: text(output.stderr),
        }
    }
}

/// A command that runs. Dropping it kills it.
pub struct Running {
    pub child: Child,
    err: BufReader<ChildStderr>,
    /// What it has said on stderr.
    pub said: String,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Running {
    pub fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let err = BufReader::new(child.stderr.take().unwrap());
        Self {
            child,
            err,
            said: String::new(),
        }
    }

    /// Reads stderr up to a line that holds `wanted`, and gives that line.
    pub fn until(&mut self, wanted: &str) -> String {
        loop {
            let mut line = String::new();
            assert!(
                self.err.read_line(&mut line).unwrap() > 0,
                "it ended without saying {wanted:?}: {}",
                self.said
            );
            self.said.push_str(&line);
            if line.contains(wanted) {
                return line;
            }
        }
    }

    /// Where it says that it listens.
    pub fn address(&mut self) -> SocketAddr {
        let line = self.until("http://");
        let from = line.find("http://").unwrap() + "http://".len();
        let rest = &line[from..];
        let end = rest
            .find(|c: char| !(c.is_ascii_alphanumeric() || ".:[]".contains(c)))
            .unwrap_or(rest.len());
        rest[..end].trim_end_matches('.').parse().unwrap()
    }

    /// Sends a signal.
    pub fn signal(&self, signal: rustix::process::Signal) {
        let id = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(id, signal).unwrap();
    }

    /// Waits for its end: the exit code, and the rest of stderr in `said`.
    pub fn end(&mut self) -> Option<i32> {
        self.err.read_to_string(&mut self.said).unwrap();
        self.child.wait().unwrap().code()
    }
}

/// One request over HTTP/1.1, by hand: the whole answer.
pub fn http(address: SocketAddr, head: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let head = head.replace('\n', "\r\n");
    let request = format!(
        "{head}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// What a call of a tool with that bearer is answered: the status and the result.
pub fn call(address: SocketAddr, bearer: &str, tool: &str, arguments: &Value) -> (u16, Value) {
    let head = format!(
        "POST /mcp HTTP/1.1\nHost: {address}\nAuthorization: Bearer {bearer}\n{}",
        call_headers(tool)
    );
    let answer = http(address, &head, &call_body(tool, arguments).to_string());
    let status = answer[9..12].parse().unwrap();
    (status, call_result(&answer))
}

pub fn call_headers(tool: &str) -> String {
    format!(
        "Content-Type: application/json\nAccept: application/json, text/event-stream\nMCP-Protocol-Version: 2026-07-28\nMcp-Method: tools/call\nMcp-Name: {tool}"
    )
}

pub fn call_body(tool: &str, arguments: &Value) -> Value {
    json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": tool, "arguments": arguments, "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        }},
    })
}

/// The result in an answer, if it has one.
pub fn call_result(answer: &str) -> Value {
    let lines = answer.lines().map(|line| line.strip_prefix("data: ").unwrap_or(line));
    let message = lines
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .next_back();
    message.map_or(Value::Null, |message| message["result"].clone())
}

macro_rules! assert_snapshot {
    ($name:expr, $text:expr) => {
        insta::with_settings!({snapshot_path => concat!(env!("CARGO_MANIFEST_DIR"), "/snapshots"), prepend_module_to_snapshot => true}, {
            insta::assert_snapshot!($name, $text);
        })
    };
}
pub(crate) use assert_snapshot;
