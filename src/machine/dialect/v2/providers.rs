//! Providers and their models.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::read;
use crate::machine::domain::{Model, ModelOption, Provider};
use crate::machine::error::MachineError;
use crate::protocol::v2;

/// What is wanted of a `ServerConfig`.
#[derive(Deserialize)]
struct Config {
    /// A provider that this server's own clients do not know is null.
    providers: Vec<Option<v2::ServerProvider>>,
}

/// Reads the answer of `server.getConfig`.
pub(super) fn read_config(value: &RawValue) -> Result<Vec<Provider>, MachineError> {
    let config: Config = read("the server's config", value.get().as_bytes())?;
    Ok(config.providers.into_iter().flatten().map(provider).collect())
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
    }
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
