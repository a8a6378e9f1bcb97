//! Starting, stopping and restarting a simulated server on its port.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::serve::ListenerExt;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::auth::Auth;
use super::faults::Faults;
use super::host::{Host, ThreadReads};
use super::http;
use super::model::{Model, ModelOptions, RunOutline};
use super::older::Older;

/// How many connections may wait to be accepted.
const BACKLOG: u32 = 1024;
/// How long a stopping server waits for its connections.
const STOP_WAIT: Duration = Duration::from_millis(500);

/// How to serve.
#[derive(Clone, Debug)]
pub struct SimulatorOptions {
    /// Where to listen; port 0 takes any free one.
    pub listen: SocketAddr,
    /// The one good bearer; without it any is taken.
    pub token: Option<String>,
    /// The orchestration protocol that it speaks at first, 1 or 2; from 1 it can be upgraded.
    pub protocol: u32,
    /// Behaves as servers with the version gate do; otherwise as the recorded build.
    pub gate: bool,
    /// Whole shells tell no archived threads, which then come by the archive's stream alone; without a word, as the gate is.
    pub archive_apart: Option<bool>,
    /// Bounded reads (with the gate) show the newest so many runs and what belongs to them; without it, everything.
    pub bounded_runs: Option<usize>,
    /// What people call the machine.
    pub label: String,
    /// What the server is: its name, its providers, its pace.
    pub model: ModelOptions,
    /// Makes the project `t3-smoke`.
    pub smoke_project: bool,
}

impl Default for SimulatorOptions {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            token: None,
            protocol: 2,
            gate: false,
            archive_apart: None,
            bounded_runs: None,
            label: "vm".to_owned(),
            model: ModelOptions::recorded(),
            smoke_project: true,
        }
    }
}

/// Why a simulated server does not run.
#[derive(Debug, thiserror::Error)]
pub enum SimulatorError {
    /// The address is taken or not ours.
    #[error("the simulator cannot listen on {address}: {source}. Choose another port, or stop what listens there")]
    Listen {
        /// Where it was to listen.
        address: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
}

/// A simulated server that runs. Dropping it stops it.
#[derive(Debug)]
pub struct Simulator {
    host: Arc<Host>,
    addr: SocketAddr,
    listening: Mutex<Option<Listening>>,
    driver: JoinHandle<()>,
}

#[derive(Debug)]
struct Listening {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Drop for Simulator {
    fn drop(&mut self) {
        self.driver.abort();
        self.host.cut_sockets();
        if let Some(listening) = self.listening.get_mut().take() {
            listening.task.abort();
        }
    }
}

impl Simulator {
    /// Starts a server. It must be called inside a runtime, which its tasks then use.
    #[expect(
        clippy::unused_async,
        reason = "callers await it, so that it may come to wait for its port"
    )]
    pub async fn start(options: SimulatorOptions) -> Result<Self, SimulatorError> {
        let now = Host::now();
        let mut model = Model::new(ModelOptions {
            newer: options.gate,
            archive_apart: options.archive_apart.unwrap_or(options.gate),
            ..options.model
        });
        if options.smoke_project {
            let smoke = smoke_project();
            // The database is empty: nothing is in its way.
            let _ = model.handle_project(now, &smoke, true);
        }
        let older = (options.protocol == 1).then(|| {
            let mut older = Older::new(model.options().clone(), now);
            if options.smoke_project {
                let mut smoke = smoke_project();
                smoke["createdAt"] = json!(now);
                // The database is empty: nothing is in its way.
                let _ = older.handle_command(now, &smoke);
            }
            older
        });
        let auth = Auth::new(options.token.as_deref(), now);
        let host = Arc::new(Host::new(
            model,
            older,
            auth,
            options.gate,
            options.bounded_runs,
            options.label,
        ));
        let (addr, listening) = listen(&host, options.listen)?;
        let driver = tokio::spawn({
            let host = host.clone();
            async move { host.drive().await }
        });
        Ok(Self {
            host,
            addr,
            listening: Mutex::new(Some(listening)),
            driver,
        })
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Its base URL.
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// What can be broken.
    pub fn faults(&self) -> Faults {
        Faults::new(self.host.clone())
    }

    /// Refuses connections and cuts those that are there; the database stays.
    pub async fn stop(&self) {
        self.host.cut_sockets();
        if let Some(listening) = self.listening.lock().await.take() {
            listening.stop.cancel();
            let abort = listening.task.abort_handle();
            if tokio::time::timeout(STOP_WAIT, listening.task).await.is_err() {
                abort.abort();
            }
        }
    }

    /// Listens again on the same port after [`Simulator::stop`], as if it had only been out of reach: nothing is cancelled.
    pub async fn resume(&self) -> Result<(), SimulatorError> {
        let mut listening = self.listening.lock().await;
        if listening.is_none() {
            let (_, new) = listen(&self.host, self.addr)?;
            *listening = Some(new);
        }
        Ok(())
    }

    /// Dies and comes up again with the database that it had: what ran, waited or asked is over.
    pub async fn restart(&self) -> Result<(), SimulatorError> {
        self.stop().await;
        self.host.change(|state, now| match &mut state.older {
            Some(older) => older.handle_restart(now),
            None => state.model.handle_restart(now),
        });
        self.resume().await
    }

    /// Is replaced by a server of protocol 2 that takes its database over: its port, its environment and its tokens stay. Nothing happens
    /// where it speaks protocol 2 already.
    pub async fn upgrade(&self) -> Result<(), SimulatorError> {
        self.stop().await;
        self.host.change(|state, now| {
            if let Some(older) = state.older.take() {
                state.model = Model::import(state.model.options().clone(), &older, now);
            }
        });
        self.resume().await
    }

    /// A server of protocol 1 that carries no command out any more, whatever it accepts.
    pub fn is_wedged(&self) -> bool {
        self.host.read().older.as_ref().is_some_and(Older::is_wedged)
    }

    /// Makes a project, with its folder.
    pub fn add_project(&self, id: &str, title: &str, path: &str) {
        let create = json!({
            "type": "project.create",
            "commandId": format!("simulator:{id}"),
            "projectId": id,
            "title": title,
            "workspaceRoot": path,
            "createWorkspaceRootIfMissing": true,
            "defaultModelSelection": {"instanceId": "grok", "model": "grok-build"},
        });
        let _ = self
            .host
            .change(|state, now| state.model.handle_project(now, &create, true));
    }

    /// Applies a command as if a client had sent it; T3's words where it is refused.
    pub fn command(&self, command: &Value) -> Result<u64, String> {
        if self.host.read().older.is_some() {
            return self.host.change(|state, now| {
                let older = state.older.as_mut();
                older.map_or_else(
                    || Err("upgraded".to_owned()),
                    |older| older.handle_command(now, command),
                )
            });
        }
        let done = self.host.change(|state, now| state.model.handle_command(now, command));
        done.map_err(|refusal| refusal.to_json()["message"].to_string())
    }

    /// Makes so many idle threads at once, in the smoke project, and tells their ids.
    pub fn seed_threads(&self, count: usize) -> Vec<String> {
        self.host.change(|state, now| {
            let from = state.model.thread_count();
            (from..from + count)
                .map(|number| {
                    let id = format!("seed-{number}");
                    let create = json!({
                        "type": "thread.create",
                        "commandId": format!("seed-command-{number}"),
                        "threadId": id,
                        "projectId": "project-t3-smoke",
                        "title": format!("Seeded thread {number}"),
                        "modelSelection": {"instanceId": "grok", "model": "grok-build"},
                        "runtimeMode": "full-access",
                        "interactionMode": "default",
                        "branch": null,
                        "worktreePath": null,
                        "createdBy": "user",
                        "creationSource": "web",
                    });
                    let _ = state.model.handle_command(now, &create);
                    id
                })
                .collect()
        })
    }

    /// How many threads were ever made.
    pub fn thread_count(&self) -> usize {
        self.host.read().model.thread_count()
    }

    /// Every run that was ever made, thread by thread.
    pub fn runs(&self) -> Vec<RunOutline> {
        self.host.read().model.runs()
    }

    /// Every command and launch that was received and fit its schema, repetitions included.
    pub fn received(&self) -> Vec<Value> {
        self.host.read().received.clone()
    }

    /// How often a thread was asked for over HTTP.
    pub fn thread_reads(&self, thread: &str) -> ThreadReads {
        self.host.read().reads.get(thread).copied().unwrap_or_default()
    }

    /// The newest sequence.
    pub fn head(&self) -> u64 {
        self.host.read().model.head()
    }

    /// A thread's projection, as a read shows it; with protocol 1, the answer to a read.
    pub fn projection(&self, thread: &str) -> Option<Value> {
        let state = self.host.read();
        if let Some(older) = &state.older {
            return older.thread(thread);
        }
        let (_, raw) = state.model.projection(state.model.find(thread)?)?;
        serde_json::from_str(raw.get()).ok()
    }
}

fn smoke_project() -> Value {
    json!({
        "type": "project.create",
        "commandId": "simulator:t3-smoke",
        "projectId": "project-t3-smoke",
        "title": "t3-smoke",
        "workspaceRoot": "/home/dev/t3-smoke",
        "createWorkspaceRootIfMissing": true,
        "defaultModelSelection": {"instanceId": "grok", "model": "grok-build"},
    })
}

fn listen(host: &Arc<Host>, address: SocketAddr) -> Result<(SocketAddr, Listening), SimulatorError> {
    let failed = |source| SimulatorError::Listen { address, source };
    let listener = bind(address).map_err(failed)?;
    let addr = listener.local_addr().map_err(failed)?;
    let stop = CancellationToken::new();
    let app = http::router(host.clone());
    // Small answers must not wait for the acknowledgement of the one before.
    let listener = listener.tap_io(|stream| {
        let _ = stream.set_nodelay(true);
    });
    let stopped = stop.clone().cancelled_owned();
    let task = tokio::spawn(async move {
        let _ = axum::serve(listener, app).with_graceful_shutdown(stopped).await;
    });
    Ok((addr, Listening { stop, task }))
}

/// Binds so that a restart gets the same port at once.
fn bind(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}
