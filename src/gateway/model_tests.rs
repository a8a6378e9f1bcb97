//! Choosing a model, by the rules of the contract.

use serde_json::{Map, Value, json};

use super::*;
use crate::protocol::ProviderInstanceId;

fn model(slug: &str, options: Vec<ModelOption>) -> Model {
    Model {
        slug: slug.to_owned(),
        name: slug.to_owned(),
        default: false,
        options,
    }
}

fn effort() -> ModelOption {
    ModelOption {
        id: "effort".to_owned(),
        label: "Effort".to_owned(),
        values: Some(vec!["low".to_owned(), "high".to_owned()]),
    }
}

fn provider(instance: &str, models: Vec<Model>) -> Provider {
    Provider {
        instance: ProviderInstanceId(instance.to_owned()),
        enabled: true,
        installed: true,
        status: "ready".to_owned(),
        auth: "authenticated".to_owned(),
        unavailable: None,
        message: None,
        models,
        limits: Vec::new(),
    }
}

fn providers() -> Vec<Provider> {
    let fast = ModelOption {
        id: "fast".to_owned(),
        label: "Fast".to_owned(),
        values: None,
    };
    vec![
        provider(
            "claude",
            vec![model("opus", vec![effort(), fast]), model("shared", vec![])],
        ),
        provider(
            "codex",
            vec![
                model("gpt", vec![]),
                model("shared", vec![]),
                model("open:weights/7b", vec![]),
            ],
        ),
        Provider {
            status: "disabled".to_owned(),
            enabled: false,
            ..provider("off", vec![model("only-off", vec![])])
        },
    ]
}

fn choice(providers: &[Provider]) -> Choice<'_> {
    Choice {
        machine: "mac",
        asked: None,
        options: None,
        preferred: None,
        preferred_options: &[],
        own: None,
        providers,
    }
}

fn asked(word: &str) -> Result<String, ErrorCode> {
    let providers = providers();
    for_launch(&Choice {
        asked: Some(word),
        ..choice(&providers)
    })
    .map(|chosen| chosen.selection.to_string())
    .map_err(|error| error.code)
}

fn selection(instance: &str, model: &str, options: &[(&str, &str)]) -> ModelSelection {
    ModelSelection {
        instance: ProviderInstanceId(instance.to_owned()),
        model: model.to_owned(),
        options: options
            .iter()
            .map(|(id, value)| ((*id).to_owned(), OptionValue::Text((*value).to_owned())))
            .collect(),
    }
}

#[allow(clippy::needless_pass_by_value, reason = "the tests read better")]
fn map(value: Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}

#[test]
fn the_word_is_split_at_whichever_separator_comes_first() {
    assert_eq!(asked("claude/opus"), Ok("claude/opus".to_owned()));
    assert_eq!(asked("claude:opus"), Ok("claude/opus".to_owned()));
    assert_eq!(asked("codex/open:weights/7b"), Ok("codex/open:weights/7b".to_owned()));
}

#[test]
fn a_bare_model_is_taken_if_one_ready_instance_has_it() {
    assert_eq!(asked("gpt"), Ok("codex/gpt".to_owned()));
    assert_eq!(asked("open:weights/7b"), Ok("codex/open:weights/7b".to_owned()));
}

#[test]
fn a_bare_model_of_two_instances_or_of_none_is_unavailable() {
    assert_eq!(asked("shared"), Err(ErrorCode::ModelUnavailable));
    assert_eq!(asked("nothing"), Err(ErrorCode::ModelUnavailable));
    assert_eq!(asked("only-off"), Err(ErrorCode::ModelUnavailable));
}

#[test]
fn a_model_that_the_instance_lacks_is_unavailable_and_its_models_are_listed() {
    let providers = providers();
    let error = for_launch(&Choice {
        asked: Some("claude/gpt"),
        ..choice(&providers)
    })
    .err();
    assert_eq!(
        error.map(|e| (e.code, e.extra.get("valid").cloned())),
        Some((
            ErrorCode::ModelUnavailable,
            Some(json!(["claude/opus", "claude/shared"]))
        ))
    );
}

#[test]
fn a_disabled_provider_is_refused_before_anything_is_sent() {
    assert_eq!(asked("off/only-off"), Err(ErrorCode::ProviderUnavailable));
}

#[test]
fn the_operators_default_comes_before_the_projects() {
    let providers = providers();
    let own = selection("codex", "gpt", &[]);
    let with_both = Choice {
        preferred: Some("claude/opus"),
        own: Some(&own),
        ..choice(&providers)
    };
    let of = |choice: &Choice<'_>| for_launch(choice).map(|c| c.selection.to_string());
    assert_eq!(of(&with_both), Ok("claude/opus".to_owned()));
    let project_only = Choice {
        preferred: None,
        ..with_both
    };
    assert_eq!(of(&project_only), Ok("codex/gpt".to_owned()));
}

#[test]
fn without_any_default_the_models_are_listed() {
    let providers = providers();
    let error = for_launch(&choice(&providers)).err();
    assert!(error.is_some_and(|e| e.hint.is_some_and(|hint| hint.contains("codex/gpt"))));
}

#[test]
fn a_default_option_that_the_model_lacks_is_dropped_with_a_note() {
    let providers = providers();
    let preferred = [
        ("effort".to_owned(), OptionValue::Text("high".to_owned())),
        ("contextWindow".to_owned(), OptionValue::Text("1m".to_owned())),
    ];
    let chosen = for_launch(&Choice {
        asked: Some("claude/opus"),
        preferred_options: &preferred,
        ..choice(&providers)
    });
    assert!(chosen.is_ok_and(|c| {
        c.selection.options == [("effort".to_owned(), OptionValue::Text("high".to_owned()))]
            && c.notes.len() == 1
            && c.notes[0].contains("contextWindow")
    }));
}

#[test]
fn an_option_that_the_caller_named_and_the_model_lacks_is_an_error() {
    let providers = providers();
    for options in [
        json!({"nope": "x"}),
        json!({"effort": "extreme"}),
        json!({"fast": "yes"}),
    ] {
        let options = map(options);
        let error = for_launch(&Choice {
            asked: Some("claude/opus"),
            options: Some(&options),
            ..choice(&providers)
        })
        .err();
        assert_eq!(error.map(|e| e.code), Some(ErrorCode::ModelUnavailable));
    }
}

#[test]
fn the_callers_option_wins_over_the_operators() {
    let providers = providers();
    let options = map(json!({"effort": "low", "fast": true}));
    let chosen = for_launch(&Choice {
        asked: Some("claude/opus"),
        options: Some(&options),
        preferred_options: &[("effort".to_owned(), OptionValue::Text("high".to_owned()))],
        ..choice(&providers)
    });
    assert_eq!(
        chosen.map(|c| c.selection.options),
        Ok(vec![
            ("effort".to_owned(), OptionValue::Text("low".to_owned())),
            ("fast".to_owned(), OptionValue::Bool(true)),
        ])
    );
}

#[test]
fn a_thread_that_goes_on_keeps_its_model_and_options() {
    let providers = providers();
    let own = selection("claude", "opus", &[("effort", "high")]);
    assert_eq!(for_continuing(&choice(&providers), &own), Ok(None));
}

#[test]
fn a_thread_that_goes_on_with_one_option_changed_keeps_the_others() {
    let providers = providers();
    let own = selection("claude", "opus", &[("effort", "high")]);
    let options = map(json!({"fast": true}));
    let chosen = for_continuing(
        &Choice {
            options: Some(&options),
            ..choice(&providers)
        },
        &own,
    );
    assert_eq!(
        chosen.map(|c| c.map(|c| c.selection.options)),
        Ok(Some(vec![
            ("effort".to_owned(), OptionValue::Text("high".to_owned())),
            ("fast".to_owned(), OptionValue::Bool(true)),
        ]))
    );
}

#[test]
fn a_thread_whose_provider_was_disabled_does_not_go_on() {
    let providers = providers();
    let own = selection("off", "only-off", &[]);
    let error = for_continuing(&choice(&providers), &own).err();
    assert_eq!(error.map(|e| e.code), Some(ErrorCode::ProviderUnavailable));
}
