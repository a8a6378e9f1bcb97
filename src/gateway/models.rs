//! `t3_models`: what a machine can run now, and how its providers are.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::gateway::model::{self, Choice};
use crate::gateway::{Caller, Gateway, ToolError, budget};
use crate::machine::{Model, ModelOption, Provider};

/// Which machine.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ModelsArgs {
    /// A name from `t3_machines`. May be left out when there is one machine.
    #[serde(default)]
    pub machine: Option<String>,
    /// Only models with this text in their instance, id or name: for machines that have more than an answer holds.
    #[serde(default)]
    pub query: Option<String>,
}

/// The models and providers of a machine.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize, JsonSchema)]
pub struct ModelsAnswer {
    /// The machine.
    pub machine: String,
    /// What can be named as `model` now: the models of the provider instances that can run.
    pub models: Vec<ModelView>,
    /// Every provider instance, those that cannot run included.
    pub providers: Vec<ProviderView>,
    /// How many models are left out for want of room: find them with `query`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub left_out: Option<usize>,
}

/// A model.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize, JsonSchema)]
pub struct ModelView {
    /// The provider instance that runs it; `model` takes instance/model.
    pub instance: String,
    /// Its id.
    pub model: String,
    /// What people call it.
    pub name: String,
    /// New threads take it where no model is named; where the operator set none for this machine, T3's default of its instance (a
    /// project may have its own: `t3_projects`).
    pub default: bool,
    /// What `options` may set.
    pub options: Vec<ModelOptionView>,
}

/// An option of a model.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize, JsonSchema)]
pub struct ModelOptionView {
    /// The key in `options`.
    pub id: String,
    /// What people call it.
    pub label: String,
    /// What it may be set to; true and false for one that is switched on or off.
    pub values: Vec<String>,
}

/// A provider instance.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize, JsonSchema)]
pub struct ProviderView {
    /// Its id.
    pub instance: String,
    /// ready or warning (it can run); disabled, unavailable, `not_installed`, unauthenticated or error (it cannot).
    pub status: String,
    /// What is the matter with it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub message: Option<String>,
    /// How much of its account's limits is used.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub limits: Option<Vec<LimitView>>,
}

/// A limit of an account.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize, JsonSchema)]
pub struct LimitView {
    /// Which.
    pub label: String,
    /// How much of it is used.
    pub used_percent: f64,
    /// When it begins anew.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub resets_at: Option<String>,
}

impl Gateway {
    /// What the machine can run, as T3 last said.
    pub async fn models(&self, caller: &Caller, args: ModelsArgs) -> Result<ModelsAnswer, ToolError> {
        let member = self
            .fleet
            .member_or_only(&caller.limits, args.machine.as_deref())
            .map_err(ToolError::from)?;
        self.fleet.ready(&member).await?;
        let providers = member.machine.providers().await;
        let providers = providers.map_err(|error| ToolError::from_machine(member.name(), &error))?;
        let preferred = model::preferred(&Choice {
            machine: member.name(),
            asked: None,
            options: None,
            preferred: member.rules.model.as_deref(),
            preferred_options: &[],
            own: None,
            providers: &providers,
        });
        let is_default = |provider: &Provider, model: &Model| match (&member.rules.model, &preferred) {
            (None, _) => model.default,
            (Some(_), Some((instance, slug))) => provider.instance.as_str() == instance && model.slug == *slug,
            (Some(_), None) => false,
        };
        let query = args.query.as_deref().unwrap_or_default().trim().to_lowercase();
        let models = providers
            .iter()
            .filter(|provider| model::why_not(provider).is_none())
            .flat_map(|provider| provider.models.iter().map(move |model| (provider, model)))
            .filter(|(provider, model)| is_meant(&query, provider, model))
            .map(|(provider, model)| model_view(provider, model, is_default(provider, model)))
            .collect();
        let mut answer = ModelsAnswer {
            machine: member.name().to_owned(),
            models,
            providers: providers.iter().map(provider_view).collect(),
            left_out: None,
        };
        fit(&mut answer);
        Ok(answer)
    }
}

fn is_meant(query: &str, provider: &Provider, model: &Model) -> bool {
    let named = format!("{}/{}", provider.instance.as_str(), model.slug);
    named.to_lowercase().contains(query) || model.name.to_lowercase().contains(query)
}

fn model_view(provider: &Provider, model: &Model, default: bool) -> ModelView {
    ModelView {
        instance: provider.instance.as_str().to_owned(),
        model: model.slug.clone(),
        name: model.name.clone(),
        default,
        options: model.options.iter().map(option_view).collect(),
    }
}

fn option_view(option: &ModelOption) -> ModelOptionView {
    ModelOptionView {
        id: option.id.clone(),
        label: option.label.clone(),
        values: match &option.values {
            Some(values) => values.clone(),
            None => vec!["true".to_owned(), "false".to_owned()],
        },
    }
}

fn provider_view(provider: &Provider) -> ProviderView {
    let (status, message) = match model::why_not(provider) {
        Some(why) => (why.status, Some(why.reason)),
        None => (provider.status.as_str(), provider.message.clone()),
    };
    let limits: Vec<LimitView> = provider
        .limits
        .iter()
        .map(|limit| LimitView {
            label: limit.label.clone(),
            used_percent: limit.used_percent,
            resets_at: limit.resets_at.clone(),
        })
        .collect();
    ProviderView {
        instance: provider.instance.as_str().to_owned(),
        status: status.to_owned(),
        message: message.map(|message| crate::gateway::text::cut(&message, MESSAGE_CHARS)),
        limits: (!limits.is_empty()).then_some(limits),
    }
}

/// How much of a provider's message is told.
const MESSAGE_CHARS: usize = 400;

/// What the answer's own facts take.
const ENVELOPE_CHARS: usize = 200;

/// Leaves models out, the last ones first and a default never, until the answer has the size that clients take.
fn fit(answer: &mut ModelsAnswer) {
    let providers = budget::size_in_list(&answer.providers);
    let mut room = budget::VIEWS_CHARS.saturating_sub(ENVELOPE_CHARS + providers);
    let before = answer.models.len();
    for default in answer.models.iter().filter(|model| model.default) {
        room = room.saturating_sub(budget::size_in_list(default));
    }
    let mut full = false;
    answer.models.retain(|model| {
        if model.default {
            return true;
        }
        let size = budget::size_in_list(model);
        full |= size > room;
        room = room.saturating_sub(size);
        !full
    });
    let gone = before - answer.models.len();
    answer.left_out = (gone > 0).then_some(gone);
}
