//! Which model a run gets, and with which options. Pure: the providers are what T3 last said.

use serde_json::{Map, Value};

use crate::gateway::error::{ErrorCode, ToolError};
use crate::gateway::text;
use crate::machine::{Model, ModelOption, ModelSelection, OptionValue, Provider};

/// What is known when a model has to be chosen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choice<'a> {
    /// The machine, for messages.
    pub(super) machine: &'a str,
    /// What the caller named.
    pub(super) asked: Option<&'a str>,
    /// The options that the caller named.
    pub(super) options: Option<&'a Map<String, Value>>,
    /// What the operator prefers.
    pub(super) preferred: Option<&'a str>,
    /// The options that the operator prefers.
    pub(super) preferred_options: &'a [(String, OptionValue)],
    /// The thread's own when it goes on, else the project's default.
    pub(super) own: Option<&'a ModelSelection>,
    /// What the machine has.
    pub(super) providers: &'a [Provider],
}

/// The chosen model, and what had to be left out.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Chosen {
    pub(super) selection: ModelSelection,
    pub(super) notes: Vec<String>,
}

/// The model of a new thread: the caller's, else the operator's, else the project's.
pub(super) fn for_launch(choice: &Choice<'_>) -> Result<Chosen, ToolError> {
    let (found, base) = match (choice.asked.or(choice.preferred), choice.own) {
        (Some(word), _) => (find(choice, word)?, &[][..]),
        (None, Some(own)) => (exactly(choice, own)?, own.options.as_slice()),
        (None, None) => {
            return Err(ToolError::new(
                ErrorCode::ModelUnavailable,
                format!(
                    "No model was named, and neither {} nor the project has a default.",
                    choice.machine
                ),
            )
            .listing("Models", &ready_models(choice.providers)));
        }
    };
    with_options(choice, found, &[base, choice.preferred_options])
}

/// The model of a thread that goes on; none where it keeps its own with its options.
pub(super) fn for_continuing(choice: &Choice<'_>, own: &ModelSelection) -> Result<Option<Chosen>, ToolError> {
    if choice.asked.is_none() && choice.options.is_none() {
        // Its provider must still be able to run: T3 would accept the message and never start.
        provider_of(choice, own.instance.as_str()).map(|_| None)
    } else {
        let found = match choice.asked {
            Some(word) => find(choice, word)?,
            None => exactly(choice, own)?,
        };
        let chosen = with_options(choice, found, &[own.options.as_slice()])?;
        Ok((chosen.selection != *own).then_some(chosen))
    }
}

#[derive(Clone, Copy)]
struct Pick<'a> {
    provider: &'a Provider,
    model: &'a Model,
}

/// `instance/model` or `instance:model`, split at whichever comes first; else a bare model that exactly one ready instance has.
fn find<'a>(choice: &Choice<'a>, word: &str) -> Result<Pick<'a>, ToolError> {
    if let Some((instance, model)) = split(word)
        && choice
            .providers
            .iter()
            .any(|provider| provider.instance.as_str() == instance)
    {
        let provider = provider_of(choice, instance)?;
        return model_of(choice, provider, model);
    }
    let having: Vec<Pick<'a>> = choice
        .providers
        .iter()
        .filter(|provider| why_not(provider).is_none())
        .filter_map(|provider| {
            let model = provider.models.iter().find(|model| model.slug == word)?;
            Some(Pick { provider, model })
        })
        .collect();
    match having.as_slice() {
        [only] => Ok(*only),
        [] => Err(unavailable(
            format!(
                "{} has no ready model `{}`{}.",
                choice.machine,
                text::quoted(word),
                not_ready(choice.providers, word)
            ),
            &ready_models(choice.providers),
        )),
        several => Err(unavailable(
            format!(
                "Several provider instances on {} have `{word}`: name one.",
                choice.machine
            ),
            &several
                .iter()
                .map(|pick| format!("{}/{}", pick.provider.instance.as_str(), pick.model.slug))
                .collect::<Vec<_>>(),
        )),
    }
}

/// Which instances have the model and cannot run.
fn not_ready(providers: &[Provider], word: &str) -> String {
    let having = providers
        .iter()
        .filter(|provider| provider.models.iter().any(|model| model.slug == word));
    let why: Vec<String> = having
        .filter_map(|provider| {
            Some(format!(
                "{} is {}",
                provider.instance.as_str(),
                why_not(provider)?.status
            ))
        })
        .collect();
    match why.as_slice() {
        [] => String::new(),
        why => format!(" ({})", why.join(", ")),
    }
}

fn split(word: &str) -> Option<(&str, &str)> {
    word.split_once(['/', ':'])
        .filter(|(instance, model)| !instance.is_empty() && !model.is_empty())
}

fn exactly<'a>(choice: &Choice<'a>, own: &ModelSelection) -> Result<Pick<'a>, ToolError> {
    let provider = provider_of(choice, own.instance.as_str())?;
    model_of(choice, provider, &own.model)
}

fn provider_of<'a>(choice: &Choice<'a>, instance: &str) -> Result<&'a Provider, ToolError> {
    let Some(provider) = choice
        .providers
        .iter()
        .find(|provider| provider.instance.as_str() == instance)
    else {
        return Err(unavailable(
            format!(
                "{} has no provider instance `{}`.",
                choice.machine,
                text::quoted(instance)
            ),
            &ready_models(choice.providers),
        ));
    };
    match why_not(provider) {
        None => Ok(provider),
        Some(why) => Err(ToolError::new(
            ErrorCode::ProviderUnavailable,
            format!(
                "The provider instance {instance} on {} cannot run now ({}): {}",
                choice.machine, why.status, why.reason
            ),
        )
        .listing("Models that are ready", &ready_models(choice.providers))
        .with("machine", choice.machine)
        .with("status", why.status)),
    }
}

fn model_of<'a>(choice: &Choice<'_>, provider: &'a Provider, slug: &str) -> Result<Pick<'a>, ToolError> {
    match provider.models.iter().find(|model| model.slug == slug) {
        Some(model) => Ok(Pick { provider, model }),
        None => Err(unavailable(
            format!(
                "The provider instance {} on {} has no model `{}`.",
                provider.instance.as_str(),
                choice.machine,
                text::quoted(slug)
            ),
            &models_of(provider).collect::<Vec<_>>(),
        )),
    }
}

/// Why a provider cannot run.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct WhyNot {
    /// One word.
    pub(super) status: &'static str,
    /// T3's reason, where it gives one.
    pub(super) reason: String,
}

/// Why the provider cannot run; none where it can, as far as its words are known.
pub(super) fn why_not(provider: &Provider) -> Option<WhyNot> {
    let said = |otherwise: &str| {
        let message = provider.message.clone().filter(|message| !message.trim().is_empty());
        message.unwrap_or_else(|| otherwise.to_owned())
    };
    let (status, reason) = if !provider.enabled || provider.status == "disabled" {
        ("disabled", said("it is disabled."))
    } else if let Some(reason) = &provider.unavailable {
        ("unavailable", reason.clone())
    } else if !provider.installed {
        ("not_installed", said("its program is not installed."))
    } else if provider.auth == "unauthenticated" {
        ("unauthenticated", said("it is not logged in."))
    } else if provider.status == "error" {
        ("error", said("T3 shows an error for it."))
    } else {
        return None;
    };
    Some(WhyNot { status, reason })
}

/// The model that the operator set for the machine, where it is there: instance and model.
pub(super) fn preferred(choice: &Choice<'_>) -> Option<(String, String)> {
    let pick = find(choice, choice.preferred?).ok()?;
    Some((pick.provider.instance.as_str().to_owned(), pick.model.slug.clone()))
}

fn models_of(provider: &Provider) -> impl Iterator<Item = String> {
    provider
        .models
        .iter()
        .map(move |model| format!("{}/{}", provider.instance.as_str(), model.slug))
}

fn ready_models(providers: &[Provider]) -> Vec<String> {
    providers
        .iter()
        .filter(|provider| why_not(provider).is_none())
        .flat_map(models_of)
        .collect()
}

fn unavailable(message: String, valid: &[String]) -> ToolError {
    ToolError::new(ErrorCode::ModelUnavailable, message).listing("Models", valid)
}

/// Lays the layers over each other, least first; what the model lacks is dropped with a note, but an error where the caller named it.
fn with_options(choice: &Choice<'_>, pick: Pick<'_>, layers: &[&[(String, OptionValue)]]) -> Result<Chosen, ToolError> {
    let mut options: Vec<(String, OptionValue)> = Vec::new();
    let mut notes = Vec::new();
    for (id, value) in layers.iter().copied().flatten() {
        let value = switched(pick.model, id, value.clone());
        match fits(pick.model, id, &value) {
            Ok(()) => set(&mut options, id, value),
            Err(why) => notes.push(format!("The default option {id} was left out: {why}")),
        }
    }
    for (id, value) in choice.options.into_iter().flatten() {
        let value = switched(pick.model, id, option_value(id, value)?);
        fits(pick.model, id, &value).map_err(|why| {
            let offered: Vec<String> = pick.model.options.iter().map(described).collect();
            ToolError::new(ErrorCode::ModelUnavailable, why).listing("Options of this model", &offered)
        })?;
        set(&mut options, id, value);
    }
    notes.dedup();
    Ok(Chosen {
        selection: ModelSelection {
            instance: pick.provider.instance.clone(),
            model: pick.model.slug.clone(),
            options,
        },
        notes,
    })
}

fn set(options: &mut Vec<(String, OptionValue)>, id: &str, value: OptionValue) {
    match options.iter_mut().find(|(known, _)| known == id) {
        Some(known) => known.1 = value,
        None => options.push((id.to_owned(), value)),
    }
}

fn option_value(id: &str, value: &Value) -> Result<OptionValue, ToolError> {
    match value {
        Value::Bool(on) => Ok(OptionValue::Bool(*on)),
        Value::String(word) => Ok(OptionValue::Text(word.clone())),
        Value::Null | Value::Number(_) | Value::Array(_) | Value::Object(_) => Err(ToolError::new(
            ErrorCode::InvalidRequest,
            format!("The option `{}` must be a text or true/false.", text::quoted(id)),
        )),
    }
}

/// The words true and false switch an option on or off, as they are listed.
fn switched(model: &Model, id: &str, value: OptionValue) -> OptionValue {
    let is_switch = model
        .options
        .iter()
        .any(|option| option.id == id && option.values.is_none());
    match value {
        OptionValue::Text(word) if is_switch && word == "true" => OptionValue::Bool(true),
        OptionValue::Text(word) if is_switch && word == "false" => OptionValue::Bool(false),
        OptionValue::Text(_) | OptionValue::Bool(_) => value,
    }
}

fn fits(model: &Model, id: &str, value: &OptionValue) -> Result<(), String> {
    let Some(option) = model.options.iter().find(|option| option.id == id) else {
        return Err(format!("{} has no option `{}`.", model.slug, text::quoted(id)));
    };
    match (&option.values, value) {
        (None, OptionValue::Bool(_)) => Ok(()),
        (Some(values), OptionValue::Text(word)) if values.contains(word) => Ok(()),
        (None, OptionValue::Text(_)) => Err(format!("the option `{id}` of {} is true or false.", model.slug)),
        (Some(values), _) => Err(format!(
            "the option `{id}` of {} is one of {}.",
            model.slug,
            values.join(", ")
        )),
    }
}

fn described(option: &ModelOption) -> String {
    match &option.values {
        Some(values) => format!("{} ({})", option.id, values.join(" | ")),
        None => format!("{} (true | false)", option.id),
    }
}

#[cfg(test)]
#[path = "model_tests.rs"]
mod tests;
