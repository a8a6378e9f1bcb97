//! The shape of the merged tree, before anything is judged: every default is in it, what is required may be missing.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;

use crate::protocol::OptionValue;

/// The whole.
#[derive(Debug, Deserialize)]
pub(super) struct Raw {
    #[serde(default)]
    pub(super) machines: BTreeMap<String, RawMachine>,
    pub(super) server: RawServer,
    #[serde(default)]
    pub(super) hook: RawHook,
    pub(super) watch: RawWatch,
    pub(super) log: RawLog,
}

#[derive(Debug, Deserialize)]
pub(super) struct RawMachine {
    pub(super) url: Option<String>,
    pub(super) token_env: Option<String>,
    pub(super) pairing: bool,
    pub(super) agent_pairing: bool,
    pub(super) projects: Option<Vec<String>>,
    pub(super) model: Option<String>,
    #[serde(default)]
    pub(super) options: BTreeMap<String, OptionValue>,
    pub(super) runtime_mode: Option<String>,
    pub(super) max_runtime_mode: Option<String>,
    pub(super) scratch: bool,
    pub(super) ca_file: Option<PathBuf>,
    pub(super) frame_limit_mib: i64,
}

#[derive(Debug, Deserialize)]
pub(super) struct RawServer {
    pub(super) host: String,
    pub(super) port: i64,
    pub(super) allowed_hosts: Vec<String>,
    pub(super) allowed_origins: Vec<String>,
    pub(super) auth: String,
    pub(super) insecure: bool,
    pub(super) default_bearer: bool,
    pub(super) wait_without_progress: String,
    pub(super) max_runtime_mode: String,
    #[serde(default)]
    pub(super) client: Vec<RawClient>,
}

#[derive(Debug, Deserialize)]
pub(super) struct RawClient {
    pub(super) name: Option<String>,
    pub(super) token_env: Option<String>,
    pub(super) machines: Option<Vec<String>>,
    pub(super) projects: Option<Vec<String>>,
    pub(super) max_runtime_mode: Option<String>,
    pub(super) read_only: bool,
}

#[derive(Debug, Default, Deserialize, Eq, PartialEq)]
pub(super) struct RawHook {
    pub(super) url: Option<String>,
    pub(super) token_env: Option<String>,
    pub(super) secret_env: Option<String>,
    pub(super) previous_secret_env: Option<String>,
    pub(super) ca_file: Option<PathBuf>,
    #[serde(default)]
    pub(super) credentials: bool,
}

#[derive(Debug, Deserialize)]
pub(super) struct RawWatch {
    pub(super) finish_timeout: String,
    pub(super) stall_after: String,
    pub(super) unreachable_after: String,
    pub(super) keep_events: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct RawLog {
    pub(super) filter: String,
    pub(super) format: String,
}
