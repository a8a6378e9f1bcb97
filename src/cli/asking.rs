//! What the commands that ask something share: a gateway of their own over the configured machines, and the caller that a person is.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio_util::sync::CancellationToken;

use super::Failure;
use super::flags::SettingFlags;
use super::logging;
use crate::config::{Config, DEFAULT_CLIENT, WorkingDirectory};
use crate::fleet::Fleet;
use crate::gateway::{Caller, Gateway, GatewaySettings, ToolError};

/// How long a command waits for the machines' first snapshots.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// A gateway that lives as long as one command.
pub(super) struct Asking {
    pub(super) gateway: Arc<Gateway>,
    stop: CancellationToken,
}

impl Asking {
    /// Starts every machine and waits until each has answered or had its time.
    pub(super) async fn start(config: &Config) -> Result<Self, Failure> {
        let stop = CancellationToken::new();
        let fleet = Fleet::from_config(config, &stop).map_err(Failure::said)?;
        join_all(fleet.members().iter().map(|member| member.machine.ready(PATIENCE))).await;
        let settings = gateway_settings(config);
        Ok(Self {
            gateway: Gateway::new(fleet, settings, None, stop.clone()),
            stop,
        })
    }

    /// The person at the command line: the default client, without limits.
    pub(super) fn caller() -> Caller {
        Caller::named(DEFAULT_CLIENT)
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// What the config says to the gateway.
pub(super) fn gateway_settings(config: &Config) -> GatewaySettings {
    GatewaySettings {
        wait_without_progress: config.server.wait_without_progress,
        finish_timeout: config.watch.finish_timeout,
    }
}

/// Loads the config of a command that asks, and starts its log. Without machines there is nothing to ask.
pub(super) fn config(flags: &SettingFlags<false>) -> Result<Config, Failure> {
    let config = flags.load(WorkingDirectory::Config)?;
    logging::start_if_asked(flags, &config.log)?;
    if config.machines.is_empty() {
        return Err(Failure::said(
            "no machine is configured. Write one into t3code.toml (see t3code.example.toml), or name the file with --config",
        ));
    }
    Ok(config)
}

impl From<ToolError> for Failure {
    fn from(error: ToolError) -> Self {
        Self::said(error)
    }
}
