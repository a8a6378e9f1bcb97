//! Which models there are, and what a dispatch does with one that is not.

use serde_json::{Value, json};
use t3code_mcp::fleet::{Limits, Rules};
use t3code_mcp::gateway::{ANSWER_CHARS, DispatchArgs, ErrorCode, ModelsAnswer, ModelsArgs};
use t3code_mcp::protocol::OptionValue;

use crate::support::*;

impl House {
    async fn models(&self) -> ModelsAnswer {
        let args = ModelsArgs::default();
        self.gateway.models(&caller(), args).await.unwrap()
    }
}

fn named(answer: &ModelsAnswer) -> Vec<String> {
    let models = answer.models.iter();
    models
        .map(|model| format!("{}/{}", model.instance, model.model))
        .collect()
}

fn with_model(model: &str) -> DispatchArgs {
    DispatchArgs {
        model: Some(model.to_owned()),
        ..prompt("say x")
    }
}

#[tokio::test]
async fn what_can_run_is_listed_and_what_cannot_says_why() {
    let simulator = simulator().await;
    let house = house(&simulator).await;
    let answer = house.models().await;
    assert_eq!(named(&answer), ["codex/gpt-5", "grok/grok-build", "grok/fake-slow"]);
    let option = &answer.models[0].options[0];
    assert_eq!(
        (option.id.as_str(), option.label.as_str(), option.values.len()),
        ("reasoningEffort", "Reasoning", 4)
    );
    let claude = &answer.providers[0];
    assert_eq!(
        (
            claude.instance.as_str(),
            claude.status.as_str(),
            claude.message.as_deref()
        ),
        (
            "claudeAgent",
            "disabled",
            Some("Claude is disabled in T3 Code settings.")
        )
    );
    let named = ModelsArgs {
        machine: Some("windows".to_owned()),
        query: None,
    };
    assert_eq!(
        code(house.gateway.models(&caller(), named).await),
        Some(ErrorCode::UnknownMachine)
    );
    let elsewhere = limited(Limits {
        machines: Some(vec!["other".to_owned()]),
        ..Limits::default()
    });
    assert_eq!(
        code(house.gateway.models(&elsewhere, ModelsArgs::default()).await),
        Some(ErrorCode::UnknownMachine)
    );
}

/// Waits until the list is as it should be. What is kept without a word from T3 is kept longer than anybody waits here.
async fn until_models(house: &House, shows: impl Fn(&ModelsAnswer) -> bool) -> ModelsAnswer {
    let look = async {
        loop {
            let answer = house.models().await;
            if shows(&answer) {
                return answer;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, look).await.expect("the list shows it")
}

#[tokio::test]
async fn what_changes_at_t3_is_known_as_soon_as_it_says_so() {
    let simulator = simulator().await;
    let house = house(&simulator).await;
    assert_eq!(house.models().await.models.len(), 3);
    let login = json!({"auth": {"status": "unauthenticated"}, "status": "error", "message": "Run codex login on vm."});
    simulator.faults().show_provider("codex", &login);
    let answer = until_models(&house, |answer| answer.models.len() == 2).await;
    let codex = &answer.providers[1];
    assert_eq!(
        (codex.status.as_str(), codex.message.as_deref()),
        ("unauthenticated", Some("Run codex login on vm."))
    );
    let error = house.dispatch(with_model("codex/gpt-5")).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::ProviderUnavailable);
    assert!(error.message.contains("Run codex login on vm."), "{error}");
    assert_eq!(error.extra["valid"], json!(["grok/grok-build", "grok/fake-slow"]));
    // A bare word of it is no ready model, and the error tells why.
    let error = house.dispatch(with_model("gpt-5")).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::ModelUnavailable);
    assert!(error.message.contains("codex is unauthenticated"), "{error}");
    assert!(simulator.runs().is_empty());

    simulator.faults().show_provider("codex", &Value::Null);
    until_models(&house, |answer| answer.models.len() == 3).await;
    house.dispatch(with_model("codex/gpt-5")).await.unwrap();
}

#[tokio::test]
async fn the_operators_model_is_the_default_and_limits_are_told() {
    let simulator = simulator().await;
    let limits = json!({"usageLimits": {"windows": [
        {"kind": "session", "label": "5 hours", "usedPercent": 83.5, "resetsAt": "2026-11-30T12:00:00.000Z"},
        {"kind": "odd"},
    ]}});
    simulator.faults().show_provider("grok", &limits);
    let preferred = Rules {
        model: Some("fake-slow".to_owned()),
        ..rules(&["*"])
    };
    let house = house_with(&simulator, preferred).await;
    let answer = house.models().await;
    let defaults: Vec<_> = answer.models.iter().filter(|model| model.default).collect();
    assert_eq!((defaults.len(), defaults[0].model.as_str()), (1, "fake-slow"));
    let told = answer.providers[2].limits.as_ref().unwrap();
    assert_eq!(
        (told.len(), told[0].label.as_str(), told[0].used_percent),
        (1, "5 hours", 83.5)
    );
}

#[tokio::test]
async fn of_more_models_than_an_answer_holds_the_rest_is_counted_and_found_by_a_query() {
    let simulator = simulator().await;
    let many: Vec<Value> = (0..400)
        .map(|n| {
            json!({"slug": format!("vendor/model-{n}"), "name": format!("Model {n}"), "isCustom": false, "isDefault": n == 399,
                "capabilities": {"optionDescriptors": [{"id": "fast", "label": "Fast", "type": "boolean"}]}})
        })
        .collect();
    simulator.faults().show_provider("codex", &json!({"models": many}));
    let house = house(&simulator).await;
    let answer = until_models(&house, |answer| answer.left_out.is_some()).await;
    assert_eq!(answer.models.len() + answer.left_out.unwrap(), 402);
    assert!(
        answer
            .models
            .iter()
            .any(|model| model.default && model.model == "vendor/model-399")
    );
    assert!(serde_json::to_string(&answer).unwrap().len() <= ANSWER_CHARS);
    let query = ModelsArgs {
        machine: None,
        query: Some("MODEL-398".to_owned()),
    };
    let found = house.gateway.models(&caller(), query).await.unwrap();
    assert_eq!(named(&found), ["codex/vendor/model-398"]);
    // A switch takes the words that are listed for it.
    assert_eq!(found.models[0].options[0].values, ["true", "false"]);
    for (fast, expected) in [(json!("true"), json!(true)), (json!(false), json!(false))] {
        let args = DispatchArgs {
            options: Some(map(&json!({"fast": fast}))),
            ..with_model("codex/vendor/model-398")
        };
        let started = house.dispatch(args).await.unwrap();
        let projection = simulator.projection(&started.thread_id).unwrap();
        assert_eq!(
            projection["thread"]["modelSelection"]["options"],
            json!([{"id": "fast", "value": expected}])
        );
    }
}

#[tokio::test]
async fn the_operators_options_are_dropped_with_a_note_and_the_callers_are_refused() {
    let simulator = simulator().await;
    let preferred = Rules {
        options: vec![("effort".to_owned(), OptionValue::Text("high".to_owned()))],
        ..rules(&["*"])
    };
    let house = house_with(&simulator, preferred).await;
    let started = house.start("say one").await;
    assert!(started.notes[0].contains("effort"), "{:?}", started.notes);
    let explicit = DispatchArgs {
        options: Some(map(&json!({"effort": "high"}))),
        ..prompt("say two")
    };
    let error = house.dispatch(explicit).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::ModelUnavailable);
    assert!(error.hint.unwrap().contains("reasoningEffort"));
}
