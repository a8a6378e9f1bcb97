//! Providers and their models.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::read;
use crate::machine::dialect::ConfigItem;
use crate::machine::domain::{Model, ModelOption, Provider, UsageWindow};
use crate::machine::error::MachineError;
use crate::protocol::v2;

/// How many limits of an account are taken.
const MOST_WINDOWS: usize = 16;

/// What is wanted of a `ServerConfig`.
#[derive(Deserialize)]
struct Config {
    /// A provider that this server's own clients do not know is null.
    providers: Vec<Option<v2::ServerProvider>>,
}

/// Reads the answer of `server.getConfig`.
pub(super) fn read_config(value: &RawValue) -> Result<Vec<Provider>, MachineError> {
    let config: Config = read("the server's config", value.get().as_bytes())?;
    Ok(domain(config.providers))
}

/// Reads an item of `subscribeServerConfig`. What it says of anything else is of no use here.
pub(super) fn read_config_item(value: &RawValue) -> Result<ConfigItem, MachineError> {
    #[derive(Deserialize)]
    struct Kind {
        #[serde(rename = "type")]
        kind: String,
    }
    #[derive(Deserialize)]
    struct Snapshot {
        config: Config,
    }
    #[derive(Deserialize)]
    struct Statuses {
        payload: Config,
    }
    let text = value.get().as_bytes();
    let item: Kind = read("an item of the server's config", text)?;
    Ok(match item.kind.as_str() {
        "snapshot" => {
            let snapshot: Snapshot = read("the server's config", text)?;
            ConfigItem::Providers(domain(snapshot.config.providers))
        }
        "providerStatuses" => {
            let statuses: Statuses = read("the providers' statuses", text)?;
            ConfigItem::Providers(domain(statuses.payload.providers))
        }
        // Providers are switched there; what that comes to is told when T3 has looked.
        "settingsUpdated" => ConfigItem::Settings,
        _ => ConfigItem::Other,
    })
}

fn domain(providers: Vec<Option<v2::ServerProvider>>) -> Vec<Provider> {
    providers.into_iter().flatten().map(provider).collect()
}

fn provider(provider: v2::ServerProvider) -> Provider {
    let unavailable = match provider.availability {
        Some(v2::ServerProviderAvailability::Unavailable) => Some(
            provider
                .unavailable_reason
                .unwrap_or_else(|| "T3 gives no reason".to_owned()),
        ),
        Some(v2::ServerProviderAvailability::Available | v2::ServerProviderAvailability::Unknown(_)) | None => None,
    };
    Provider {
        instance: provider.instance_id,
        enabled: provider.enabled,
        installed: provider.installed,
        status: provider.status.as_str().to_owned(),
        auth: provider.auth.status.as_str().to_owned(),
        unavailable,
        message: provider.message,
        models: provider.models.into_iter().map(model).collect(),
        limits: limits(provider.usage_limits.as_ref()),
    }
}

/// The windows of `usageLimits`, which the contract leaves open: what is not as expected is left out.
fn limits(limits: Option<&Value>) -> Vec<UsageWindow> {
    let windows = limits
        .and_then(|limits| limits.get("windows"))
        .and_then(Value::as_array);
    let windows = windows.into_iter().flatten().take(MOST_WINDOWS);
    windows
        .filter_map(|window| {
            let text = |field| window.get(field).and_then(Value::as_str).map(str::to_owned);
            Some(UsageWindow {
                label: text("label").or_else(|| text("kind"))?,
                used_percent: window.get("usedPercent")?.as_f64()?,
                resets_at: text("resetsAt"),
            })
        })
        .collect()
}

fn model(model: v2::ServerProviderModel) -> Model {
    let options = model
        .capabilities
        .and_then(|capabilities| capabilities.option_descriptors);
    Model {
        slug: model.slug,
        name: model.name,
        default: model.is_default.unwrap_or(false),
        options: options.unwrap_or_default().into_iter().filter_map(option).collect(),
    }
}

/// An option of a kind that can be set; of an unknown kind nobody knows what it takes.
fn option(descriptor: v2::ProviderOptionDescriptor) -> Option<ModelOption> {
    match descriptor {
        v2::ProviderOptionDescriptor::Select(select) => Some(ModelOption {
            id: select.id,
            label: select.label,
            values: Some(select.options.into_iter().map(|choice| choice.id).collect()),
        }),
        v2::ProviderOptionDescriptor::Boolean(boolean) => Some(ModelOption {
            id: boolean.id,
            label: boolean.label,
            values: None,
        }),
        v2::ProviderOptionDescriptor::Unknown { .. } => None,
    }
}
