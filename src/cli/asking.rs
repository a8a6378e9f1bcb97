//! What the commands that ask something share: who answers, and the caller that a person is.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use http::Method;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::flags::SettingFlags;
use super::{Failure, logging, role};
use crate::config::state::StateDir;
use crate::config::{Config, DEFAULT_CLIENT, WorkingDirectory};
use crate::fleet::Fleet;
use crate::gateway::{
    Caller, Gateway, GatewaySettings, MachinesAnswer, MachinesArgs, ProjectsAnswer, ProjectsArgs, StatusAnswer,
    StatusArgs, ToolError,
};
use crate::mcp::{About, Owner, Unanswered};

/// How long a command waits for the machines' first snapshots.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// Who answers what a command asks.
pub(super) enum Asking {
    /// The process that owns the state directory: it knows the machines already.
    Owner(Arc<Owner>),
    /// A gateway that lives as long as the command.
    Own { gateway: Arc<Gateway>, _stop: DropGuard },
}

impl Asking {
    /// Finds the owner, if it has the machines of the config. Else starts every machine and waits until each has answered or had its time.
    pub(super) async fn start(config: &Config) -> Result<Self, Failure> {
        if let Some(owner) = owner_of(config).await? {
            return Ok(Self::Owner(owner));
        }
        let stop = CancellationToken::new();
        let fleet = Fleet::from_config(config, &stop).map_err(Failure::said)?;
        join_all(fleet.members().iter().map(|member| member.machine.ready(PATIENCE))).await;
        let settings = gateway_settings(config);
        Ok(Self::Own {
            gateway: Gateway::new(fleet, settings, None, stop.clone()),
            _stop: stop.drop_guard(),
        })
    }

    /// What `t3_machines` answers.
    pub(super) async fn machines(&self) -> Result<MachinesAnswer, Failure> {
        match self {
            Self::Owner(owner) => tool(owner, "t3_machines", Value::Null).await,
            Self::Own { gateway, .. } => Ok(gateway.machines(&caller(), MachinesArgs::default())?),
        }
    }

    /// What `t3_status` answers.
    pub(super) async fn status(&self, machine: Option<&str>) -> Result<StatusAnswer, Failure> {
        let machine = machine.map(str::to_owned);
        match self {
            Self::Owner(owner) => {
                let arguments = machine.map_or(Value::Null, |machine| json!({ "machine": machine }));
                tool(owner, "t3_status", arguments).await
            }
            Self::Own { gateway, .. } => Ok(gateway.status(&caller(), StatusArgs { machine }).await?),
        }
    }

    /// What `t3_projects` answers.
    pub(super) async fn projects(&self, machine: Option<&str>) -> Result<ProjectsAnswer, Failure> {
        let machine = machine.map(str::to_owned);
        match self {
            Self::Owner(owner) => {
                let arguments = machine.map_or(Value::Null, |machine| json!({ "machine": machine }));
                tool(owner, "t3_projects", arguments).await
            }
            Self::Own { gateway, .. } => Ok(gateway.projects(&caller(), ProjectsArgs { machine }).await?),
        }
    }
}

/// The process that owns the state directory, where it has the machines of the config.
async fn owner_of(config: &Config) -> Result<Option<Arc<Owner>>, Failure> {
    let state = StateDir::open(&config.state_dir).map_err(Failure::said)?;
    let owner = role::owner(config, &state, &CancellationToken::new())?;
    let about: About = match owner.ask(Method::GET, "/owner").await {
        Ok(about) => about,
        Err(Unanswered::Nobody(_)) => return Ok(None),
        Err(error) => return Err(role::did_not_answer(&error)),
    };
    let has_them = config
        .machines
        .iter()
        .all(|machine| about.machines.get(&machine.name).map(String::as_str) == Some(machine.url.as_str()));
    Ok(has_them.then_some(owner))
}

async fn tool<T: DeserializeOwned>(owner: &Owner, name: &str, arguments: Value) -> Result<T, Failure> {
    let answer = owner.tool(name, arguments, &caller()).await;
    answer.map_err(|error| role::did_not_answer(&error))
}

/// The person at the command line: the default client, without limits.
fn caller() -> Caller {
    Caller::named(DEFAULT_CLIENT)
}

/// What the config says to the gateway.
pub(super) fn gateway_settings(config: &Config) -> GatewaySettings {
    GatewaySettings {
        wait_without_progress: config.server.wait_without_progress,
        finish_timeout: config.watch.finish_timeout,
        credentials: None,
    }
}

/// Loads the config of a command that asks, and starts its log. Without machines there is nothing to ask.
pub(super) fn config(flags: &SettingFlags<false>) -> Result<Config, Failure> {
    let config = flags.load(WorkingDirectory::Config)?;
    logging::start_if_asked(flags, &config.log)?;
    if config.machines.is_empty() {
        return Err(Failure::said(
            "no machine is configured. Pair one (t3code-mcp pair mac '<link>'), write one into t3code.toml (see t3code.example.toml), or name the file with --config",
        ));
    }
    Ok(config)
}

impl From<ToolError> for Failure {
    fn from(error: ToolError) -> Self {
        Self::said(error)
    }
}
