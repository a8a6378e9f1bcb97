//! What the tests begin with: a receiver with the one behaviour that a test is about, a clock with hands, and a worker between them.

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use axum::body::Bytes;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use jiff::{SignedDuration, Timestamp};
use t3code_mcp::delivery::{ATTEMPT_WITHIN, Clock, Delivery, HookSettings, ID_HEADER, start_with};
use t3code_mcp::store::{self, Batch, DeliveryState, LEDGER_FILE, NewEvent, Store};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use url::Url;

/// The bearer of every worker here: no test's output may ever hold it.
/// Longer than anything takes; only a failure reaches it.
const PATIENCE: Duration = Duration::from_secs(30);

pub const TOKEN: &str = "token-that-nobody-may-see";
/// The secret that signs.
pub const SECRET: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";

/// A request as it came.
#[derive(Clone, Debug)]
pub struct Heard {
    pub headers: HeaderMap,
    pub body: String,
}

impl Heard {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub fn id(&self) -> &str {
        self.header(ID_HEADER).unwrap()
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

/// A receiver.
pub struct Hook {
    pub url: Url,
    heard: Arc<Mutex<Vec<Heard>>>,
    count: watch::Receiver<usize>,
}

impl Hook {
    /// One that answers each request so.
    pub async fn new<F, R>(answer: F) -> Self
    where
        F: Fn(Heard) -> R + Clone + Send + Sync + 'static,
        R: Future<Output = Response> + Send,
    {
        let heard: Arc<Mutex<Vec<Heard>>> = Arc::default();
        let (count, counted) = watch::channel(0);
        let list = Arc::clone(&heard);
        let router = Router::new().fallback(move |headers: HeaderMap, body: Bytes| {
            let body = String::from_utf8(body.to_vec()).unwrap();
            let one = Heard { headers, body };
            list.lock().unwrap().push(one.clone());
            count.send_modify(|count| *count += 1);
            answer(one)
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self {
            url: url.parse().unwrap(),
            heard,
            count: counted,
        }
    }

    /// One that answers all alike.
    pub async fn always(status: u16, headers: &'static [(&'static str, &'static str)], body: &'static str) -> Self {
        Self::new(move |_| async move { answer(status, headers, body) }).await
    }

    /// Waits until so many requests have come, and returns all.
    pub async fn heard(&self, count: usize) -> Vec<Heard> {
        let mut counted = self.count.clone();
        counted.wait_for(|now| *now >= count).await.unwrap();
        self.so_far()
    }

    /// The requests that have come.
    pub fn so_far(&self) -> Vec<Heard> {
        self.heard.lock().unwrap().clone()
    }
}

pub fn answer(status: u16, headers: &[(&'static str, &str)], body: &'static str) -> Response {
    let mut response = body.into_response();
    *response.status_mut() = status.try_into().unwrap();
    for (name, value) in headers {
        response.headers_mut().insert(*name, value.parse().unwrap());
    }
    response
}

/// An address where nothing listens, and whose port is given to nobody.
pub fn nowhere() -> Url {
    "http://127.0.0.1:1/hook".parse().unwrap()
}

/// A clock that stands until the test moves it.
pub struct Hands(watch::Sender<Timestamp>);

impl Hands {
    pub fn set(&self, to: Timestamp) {
        self.0.send_if_modified(|now| {
            let later = to > *now;
            *now = to.max(*now);
            later
        });
    }
}

#[async_trait]
impl Clock for Hands {
    fn now(&self) -> Timestamp {
        *self.0.borrow()
    }

    async fn sleep_until(&self, at: Timestamp) {
        self.0.subscribe().wait_for(|now| *now >= at).await.unwrap();
    }
}

/// So many seconds after a moment in 2026.
pub fn at(seconds: i64) -> Timestamp {
    "2026-11-30T10:00:00Z".parse::<Timestamp>().unwrap() + SignedDuration::from_secs(seconds)
}

pub fn settings(url: &Url) -> HookSettings {
    HookSettings {
        url: url.clone(),
        token: Some(TOKEN.into()),
        secrets: vec![SECRET.into()],
        ca_file: None,
        attempt_within: ATTEMPT_WITHIN,
    }
}

/// The same with little patience, for receivers that are to hang.
pub fn impatient(url: &Url) -> HookSettings {
    HookSettings {
        attempt_within: Duration::from_millis(200),
        ..settings(url)
    }
}

/// A ledger with a worker on it.
pub struct Trial {
    pub folder: TempDir,
    pub store: Store,
    pub clock: Arc<Hands>,
    pub stop: CancellationToken,
    worker: Option<Delivery>,
}

impl Trial {
    /// With a worker that sends so.
    pub async fn new(settings: &HookSettings) -> Self {
        Self::at(settings, at(0)).await
    }

    /// The same from that time on.
    pub async fn at(settings: &HookSettings, now: Timestamp) -> Self {
        let mut trial = Self::idle(now).await;
        trial.start(settings);
        trial
    }

    /// Without a worker.
    pub async fn idle(now: Timestamp) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join(LEDGER_FILE)).await.unwrap();
        Self {
            folder,
            store,
            clock: Arc::new(Hands(watch::Sender::new(now))),
            stop: CancellationToken::new(),
            worker: None,
        }
    }

    pub fn start(&mut self, settings: &HookSettings) {
        self.stop = CancellationToken::new();
        let worker = start_with(self.store.clone(), settings, self.clock.clone(), self.stop.clone());
        self.worker = Some(worker.unwrap());
    }

    pub async fn stopped(&mut self) {
        self.stop.cancel();
        self.worker.take().unwrap().stopped().await;
    }

    /// Commits an event for each of these ids, all of one thread.
    pub async fn events(&self, thread: &str, ids: &[&str]) {
        let events = ids.iter().map(|id| event(id, thread, self.clock.now())).collect();
        self.commit(events).await;
    }

    pub async fn commit(&self, events: Vec<NewEvent>) {
        let batch = Batch {
            at: self.clock.now(),
            events,
            ..Batch::default()
        };
        self.store.commit(batch).await.unwrap();
    }

    pub async fn delivery(&self, id: &str) -> store::Delivery {
        self.store.delivery(id).await.unwrap().unwrap().delivery.unwrap()
    }

    /// Waits until so many attempts of an event were written down.
    pub async fn attempted(&self, id: &str, attempts: u32) -> store::Delivery {
        self.until(id, |delivery| {
            delivery.attempts >= attempts && delivery.leased_until.is_none()
        })
        .await
    }

    /// Waits until an event is delivered or dead.
    pub async fn decided(&self, id: &str) -> store::Delivery {
        self.until(id, |delivery| delivery.state != DeliveryState::Waiting)
            .await
    }

    async fn until(&self, id: &str, so: impl Fn(&store::Delivery) -> bool) -> store::Delivery {
        let look = async {
            loop {
                let delivery = self.delivery(id).await;
                if so(&delivery) {
                    return delivery;
                }
                tokio::task::yield_now().await;
            }
        };
        let found = tokio::time::timeout(PATIENCE, look).await;
        found.unwrap_or_else(|_| panic!("the delivery of {id} never came to it"))
    }
}

pub fn event(id: &str, thread: &str, now: Timestamp) -> NewEvent {
    NewEvent {
        id: id.to_owned(),
        occurred_at: now,
        machine: "mac".to_owned(),
        thread: thread.to_owned().into(),
        project_id: None,
        client: None,
        kind: "completed".to_owned(),
        body: format!("{{\"id\":\"{id}\",\"thread_id\":\"{thread}\",\"event\":\"completed\"}}"),
        deliver: true,
    }
}
