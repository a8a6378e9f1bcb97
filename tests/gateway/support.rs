//! A gateway over simulated machines.

use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value};
use t3code_mcp::fleet::{Fleet, Limits, Patterns, Rules};
use t3code_mcp::gateway::tracking::{Tracking, WatchedThread, Wish};
use t3code_mcp::gateway::{
    AnswerArgs, Caller, DispatchAnswer, DispatchArgs, ErrorCode, Gateway, GatewaySettings, InterruptArgs, Ledger,
    MachinesArgs, ThreadArgs, ThreadView, ToolError, WaitAnswer, WaitArgs, WhenBusy,
};
use t3code_mcp::lifecycle::Limits as WatchLimits;
use t3code_mcp::machine::MachineSettings;
use t3code_mcp::simulator::{Simulator, SimulatorOptions};
use t3code_mcp::store::{Event, EventFilter, LEDGER_FILE, Store};
use t3code_mcp::watch::{self, WatchSettings};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Longer than anything takes; only a failure reaches it.
pub const PATIENCE: Duration = Duration::from_secs(30);

pub const FRAME_LIMIT: usize = 64 << 20;

/// A gateway and its stop token.
pub struct House {
    pub gateway: Arc<Gateway>,
    pub stop: CancellationToken,
}

impl Drop for House {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

pub async fn simulator() -> Simulator {
    Simulator::start(SimulatorOptions::default()).await.unwrap()
}

/// One that behaves as servers after the version gate do.
pub async fn newer_simulator() -> Simulator {
    Simulator::start(SimulatorOptions {
        gate: true,
        ..SimulatorOptions::default()
    })
    .await
    .unwrap()
}

pub fn rules(patterns: &[&str]) -> Rules {
    Rules {
        projects: Patterns::new(patterns.iter().copied()).unwrap(),
        ..Rules::default()
    }
}

pub fn settings(name: &str, url: &str) -> MachineSettings {
    MachineSettings {
        name: name.to_owned(),
        url: url.parse().unwrap(),
        token: Some("any".to_owned().into()),
        ca_file: None,
        frame_limit: FRAME_LIMIT,
    }
}

/// A gateway with a ledger, as it runs between two starts of the program.
pub struct KeptHouse {
    pub house: House,
    pub store: Store,
    tracking: Tracking,
    watching: JoinHandle<()>,
}

impl Deref for KeptHouse {
    type Target = House;

    fn deref(&self) -> &House {
        &self.house
    }
}

impl KeptHouse {
    /// Starts over the ledger in the folder.
    pub async fn start(folder: &Path, machines: Vec<(MachineSettings, Rules)>) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let store = Store::open(&folder.join(LEDGER_FILE)).await.unwrap();
        store.lose_pending_answers(Timestamp::now()).await.unwrap();
        let stop = CancellationToken::new();
        let fleet = Fleet::start(machines, &stop);
        let (tracking, wishes) = Tracking::new();
        let settings = WatchSettings {
            limits: WatchLimits {
                finish_timeout: SignedDuration::from_mins(3),
                stall_after: None,
            },
            unreachable_after: None,
            deliver: false,
            final_word: true,
        };
        let watching = watch::start(Arc::clone(&fleet), store.clone(), settings, wishes, stop.clone());
        let watching = watching.await.unwrap();
        let ledger = Ledger {
            store: store.clone(),
            tracking: tracking.clone(),
        };
        let gateway = Gateway::new(fleet, GatewaySettings::default(), Some(ledger), stop.clone());
        gateway.remember_dispatches().await;
        Self {
            house: House { gateway, stop },
            store,
            tracking,
            watching,
        }
    }

    /// Over the machine `mac`, which is online then.
    pub async fn over(folder: &Path, simulator: &Simulator) -> Self {
        let house = Self::away(folder, simulator).await;
        house.online("mac").await;
        house
    }

    /// The same where the machine may be down.
    pub async fn away(folder: &Path, simulator: &Simulator) -> Self {
        Self::start(folder, vec![(settings("mac", &simulator.url()), rules(&["*"]))]).await
    }

    /// Ends it in order.
    pub async fn end(self) {
        self.house.stop.cancel();
        self.house.gateway.settled().await;
        self.watching.await.unwrap();
        self.store.close().await;
    }

    /// The threads that are watched.
    pub async fn watched(&self) -> Vec<WatchedThread> {
        let (to, answer) = oneshot::channel();
        self.tracking.wish(Wish::List { to }).await;
        answer.await.unwrap()
    }

    /// Every event that is kept, oldest first.
    pub async fn events(&self) -> Vec<Event> {
        self.store
            .events_after(0, 1_000, &EventFilter::default())
            .await
            .unwrap()
            .events
    }

    /// Waits until so many events are kept.
    pub async fn until_events(&self, count: usize) -> Vec<Event> {
        let mut changes = self.store.changes();
        let look = async {
            loop {
                let events = self.events().await;
                if events.len() >= count {
                    return events;
                }
                changes.changed().await.unwrap();
            }
        };
        tokio::time::timeout(PATIENCE, look).await.expect("the events come")
    }
}

/// A gateway over these machines.
pub fn house_of(machines: Vec<(MachineSettings, Rules)>, gateway: GatewaySettings) -> House {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let stop = CancellationToken::new();
    let fleet = Fleet::start(machines, &stop);
    House {
        gateway: Gateway::new(fleet, gateway, None, stop.clone()),
        stop,
    }
}

/// A gateway over one machine, `mac`, all of whose projects are allowed and which is online.
pub async fn house(simulator: &Simulator) -> House {
    house_with(simulator, rules(&["*"])).await
}

pub async fn house_with(simulator: &Simulator, rules: Rules) -> House {
    let house = house_of(
        vec![(settings("mac", &simulator.url()), rules)],
        GatewaySettings::default(),
    );
    house.online("mac").await;
    house
}

pub fn caller() -> Caller {
    Caller::named("tester")
}

pub fn limited(limits: Limits) -> Caller {
    Caller { limits, ..caller() }
}

pub fn prompt(text: &str) -> DispatchArgs {
    DispatchArgs {
        prompt: text.to_owned(),
        project: Some("t3-smoke".to_owned()),
        model: Some("codex/gpt-5".to_owned()),
        ..DispatchArgs::default()
    }
}

pub fn more(thread: &str, text: &str, when_busy: WhenBusy) -> DispatchArgs {
    DispatchArgs {
        prompt: text.to_owned(),
        thread_id: Some(thread.to_owned()),
        when_busy: Some(when_busy),
        ..DispatchArgs::default()
    }
}

impl House {
    pub fn is_online(&self, machine: &str) -> bool {
        let listed = self.gateway.machines(&caller(), MachinesArgs::default()).unwrap();
        let mut machines = listed.machines.iter();
        machines.any(|listed| listed.name == machine && listed.online)
    }

    /// Waits until the machine is connected, which a busy computer takes longer for than a call waits.
    pub async fn online(&self, machine: &str) {
        eventually("the machine is online", || self.is_online(machine)).await;
    }

    pub async fn dispatch(&self, args: DispatchArgs) -> Result<DispatchAnswer, ToolError> {
        let caller = caller();
        let answer = self.gateway.dispatch(&caller, args).await;
        caller.delivery.answered();
        answer
    }

    pub async fn start(&self, text: &str) -> DispatchAnswer {
        self.dispatch(prompt(text)).await.unwrap()
    }

    pub async fn view(&self, thread: &str) -> ThreadView {
        let args = ThreadArgs {
            thread_id: thread.to_owned(),
            turns: None,
        };
        self.gateway.thread(&caller(), args).await.unwrap()
    }

    pub async fn wait(&self, args: WaitArgs) -> Result<WaitAnswer, ToolError> {
        tokio::time::timeout(PATIENCE, self.gateway.wait(&caller(), args, None))
            .await
            .expect("the wait comes to its end")
    }

    /// Waits for the thread's end and returns its view.
    pub async fn ended(&self, thread: &str) -> ThreadView {
        self.wait(wait_for(thread)).await.unwrap().thread.unwrap()
    }

    /// Reads the thread until it shows what is waited for.
    pub async fn until(&self, thread: &str, shows: impl Fn(&ThreadView) -> bool) -> ThreadView {
        let look = async {
            loop {
                let view = self.view(thread).await;
                if shows(&view) {
                    return view;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(PATIENCE, look).await.expect("the thread shows it")
    }

    pub async fn answer(&self, args: AnswerArgs) -> Result<t3code_mcp::gateway::AnswerAnswer, ToolError> {
        self.gateway.answer(&caller(), args).await
    }

    pub async fn interrupt(
        &self,
        thread: &str,
        run: Option<&str>,
    ) -> Result<t3code_mcp::gateway::InterruptAnswer, ToolError> {
        let args = InterruptArgs {
            thread_id: thread.to_owned(),
            run_id: run.map(str::to_owned),
            queue: None,
        };
        self.gateway.interrupt(&caller(), args).await
    }
}

pub fn wait_for(thread: &str) -> WaitArgs {
    WaitArgs {
        thread_id: Some(thread.to_owned()),
        timeout: Some(25),
        ..WaitArgs::default()
    }
}

/// The end of the report.
pub fn report(view: &ThreadView) -> &str {
    view.messages
        .iter()
        .rev()
        .find(|message| message.role == "assistant")
        .map_or("", |message| message.text.as_str())
}

pub fn map(value: &Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap()
}

pub fn code<T>(result: Result<T, ToolError>) -> Option<ErrorCode> {
    result.err().map(|error| error.code)
}

/// Waits until something is so.
pub async fn eventually(what: &str, mut so: impl FnMut() -> bool) {
    let look = async {
        while !so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, look)
        .await
        .unwrap_or_else(|_| panic!("{what}"));
}
